"""A database that is far away: passes bytes on after a delay each way. python -m bench.proxy PORT SECONDS prints its own port."""

from __future__ import annotations

import socket
import sys
import threading
import time
from contextlib import suppress
from queue import SimpleQueue


def main() -> None:
    target, delay = int(sys.argv[1]), float(sys.argv[2])
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            near, _ = server.accept()
            far = socket.create_connection(("127.0.0.1", target))
            for one, other in ((near, far), (far, near)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=carry, args=(one, other, delay), daemon=True).start()


def carry(source: socket.socket, target: socket.socket, delay: float) -> None:
    """Pass on what comes, each piece so many seconds after it came: pieces do not wait for one another."""
    pieces: SimpleQueue[tuple[float, bytes]] = SimpleQueue()

    def deliver() -> None:
        while True:
            due, data = pieces.get()
            time.sleep(max(0.0, due - time.monotonic()))  # the distance itself
            if not data:
                with suppress(OSError):
                    target.shutdown(socket.SHUT_WR)
                return
            with suppress(OSError):
                target.sendall(data)

    threading.Thread(target=deliver, daemon=True).start()
    data = b"-"
    while data:
        try:
            data = source.recv(65536)
        except OSError:
            data = b""
        pieces.put((time.monotonic() + delay, data))


if __name__ == "__main__":
    main()
