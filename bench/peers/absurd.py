"""Absurd: stored procedures in Postgres, a task whose steps are its checkpoints."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
from absurd_sdk import Absurd
from absurdctl import BUNDLED_SCHEMA_SQL

from bench.protocol import answer, gaps

ADDRESS = os.environ["DATABASE_URL"]
begun: list[float] = []


def app(queue: str) -> Any:
    client = Absurd(ADDRESS, queue_name=queue)
    client.register_task("count", queue=queue)(count_down)
    return client


def count_down(params: Any, ctx: Any) -> None:
    for number in range(params["left"]):
        ctx.step(f"step-{number}", stamp)


def stamp() -> None:
    begun.append(time.perf_counter())


def steps(count: int) -> list[float]:
    begun.clear()
    client = app("bench")
    client.spawn("count", {"left": count})
    client.work_batch()
    client.close()
    return gaps(begun)


def many(runs: int, count: int, threads: int) -> float:
    clients = [app("bench") for _ in range(threads)]
    for _ in range(runs):
        clients[0].spawn("count", {"left": count})

    def work(client: Any) -> None:
        for _ in range(runs // threads):
            client.work_batch()

    before = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, clients))
    took = time.perf_counter() - before
    for client in clients:
        client.close()
    return took


def prepare() -> None:
    with psycopg.connect(ADDRESS, autocommit=True) as connection:
        if connection.execute("SELECT to_regnamespace('absurd')").fetchone() == (None,):
            connection.execute(BUNDLED_SCHEMA_SQL)
    client = Absurd(ADDRESS, queue_name="bench")
    client.create_queue("bench")
    client.close()


if __name__ == "__main__":
    prepare()
    answer({"steps": steps, "many": many})
