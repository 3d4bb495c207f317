"""`python -m hitl.serve`: the web process. Listens on HITL_HOST and HITL_PORT, or on the socket it is handed
(`--fd`).

With a handed socket, connections wait in its queue while the process is exchanged for one with newer code.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys

import uvicorn

from hitl import env

STOP_SECONDS = 4  # open streams and long waits do not hold up a stop for longer


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hitl.settings")
    options = _parser().parse_args()
    settings = env.load()
    config = uvicorn.Config(
        "hitl.asgi:application",
        host=options.host or settings.host,
        port=options.port or settings.port,
        lifespan="off",
        access_log=False,
        server_header=False,
        log_config=None,
        timeout_graceful_shutdown=STOP_SECONDS,
        proxy_headers=False,
    )
    server = uvicorn.Server(config)
    server.run(sockets=None if options.fd is None else [socket.socket(fileno=options.fd)])
    return 0 if server.started else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hitl.serve")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--fd", type=int, help="a listening socket, inherited")
    return parser


if __name__ == "__main__":
    sys.exit(main())
