"""`python -m hitl.guard GRACE`: holds a list of processes, told on stdin, and ends them when stdin ends. See
process.Guard.
"""

from __future__ import annotations

import json
import signal
import sys

from hitl.process import Identity, end


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    kept: dict[int, Identity] = {}
    for line in sys.stdin:
        order = json.loads(line)
        if "add" in order:
            identity = Identity(**order["add"])
            kept[identity.pid] = identity
        else:
            kept.pop(order["drop"], None)
    end(kept.values(), grace=float(sys.argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
