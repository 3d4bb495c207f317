"""DBOS: a workflow function whose steps are recorded in Postgres."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dbos import DBOS

from bench.protocol import answer, gaps

ADDRESS = os.environ["DATABASE_URL"]
begun: list[float] = []
config: Any = {"name": "bench", "system_database_url": ADDRESS, "log_level": "ERROR"}
DBOS(config=config)


def stamp() -> None:
    begun.append(time.perf_counter())


def loop(left: int) -> None:
    for _ in range(left):
        one()


one: Any = DBOS.step(name="one")(stamp)
count_down: Any = DBOS.workflow(name="count_down")(loop)


def steps(count: int) -> list[float]:
    begun.clear()
    count_down(count)
    return gaps(begun)


def many(runs: int, count: int, threads: int) -> float:
    before = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: count_down(count), range(runs)))
    return time.perf_counter() - before


if __name__ == "__main__":
    DBOS.launch()
    answer({"steps": steps, "many": many})
    DBOS.destroy()
