"""python -m bench [--quick] [--only ROW,...] [--output FILE]: measure, print a table, write results.json."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Final

from bench.cluster import Cluster
from bench.figures import Row, table, write
from bench.rows import ROWS, Bench

AT_SIZE: Final = ("inbox and runs list at 1 million runs", "a step with 10 million checkpoints in the table")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: within 8 minutes on 2 cores")
    parser.add_argument("--only", default="", help=f"rows, separated by commas: {', '.join(ROWS)}")
    parser.add_argument("--output", type=Path, default=Path("bench/results.json"))
    told = parser.parse_args()
    wanted = [name for name in told.only.split(",") if name] or list(ROWS)
    unknown = [name for name in wanted if name not in ROWS]
    if unknown:
        parser.error(f"there is no row {unknown[0]!r}")
    rows = measured(wanted, quick=told.quick, output=told.output)
    print(table(rows))
    print("Left out here, see `make bench-data`: " + "; ".join(AT_SIZE))
    left = [name for name in ROWS if name not in wanted]
    if left:
        print("Left out by --only: " + ", ".join(left))
    missed = [row.name for row in rows if row.ok is False]
    print(
        f"{told.output}: {len(rows)} rows; "
        + (f"missed: {', '.join(missed)}" if missed else "all limits kept")
    )
    return 0


def measured(wanted: list[str], *, quick: bool, output: Path) -> list[Row]:
    """Written after each group of rows: what was measured is not lost to what comes after it."""
    cluster = Cluster()
    rows: list[Row] = []
    try:
        _say(
            f"Postgres {cluster.setting('server_version')}, fsync {cluster.setting('fsync')},"
            f" synchronous_commit {cluster.setting('synchronous_commit')}, {os.cpu_count()} cores,"
            f" load {os.getloadavg()[0]:.1f}"
        )
        bench = Bench.begin(cluster, quick=quick)
        for name in wanted:
            begun = time.monotonic()
            rows += ROWS[name](bench)
            write(rows, output)
            _say(f"{name}: {time.monotonic() - begun:.0f} s, load {os.getloadavg()[0]:.1f}")
    finally:
        cluster.stop()
    return rows


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
