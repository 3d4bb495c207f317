"""LangGraph with its Postgres saver, durability sync: what it has committed survives the process."""

from __future__ import annotations

import os
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from operator import add
from typing import Annotated, Any, TypedDict

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from bench.protocol import answer, gaps

ADDRESS = os.environ["DATABASE_URL"]
begun: list[float] = []


class Count(TypedDict):
    left: int


class Grown(TypedDict):
    left: int
    log: Annotated[list[str], add]


def looped(state: type[Any], body: Any, saver: Any) -> Any:
    graph = StateGraph(state)
    graph.add_node("again", body)
    graph.add_edge(START, "again")
    graph.add_conditional_edges("again", lambda seen: "again" if seen["left"] > 0 else END)
    return graph.compile(checkpointer=saver)


def count_down(state: Count) -> dict[str, Any]:
    begun.append(time.perf_counter())
    return {"left": state["left"] - 1}


def grow(state: Grown) -> dict[str, Any]:
    begun.append(time.perf_counter())
    return {"left": state["left"] - 1, "log": [os.urandom(512).hex()]}


def config(steps: int) -> Any:
    return {"configurable": {"thread_id": str(uuid.uuid4())}, "recursion_limit": steps + 10}


def steps(count: int) -> list[float]:
    begun.clear()
    with PostgresSaver.from_conn_string(ADDRESS) as saver:
        looped(Count, count_down, saver).invoke({"left": count}, config(count), durability="sync")
    return gaps(begun)


def many(runs: int, count: int, threads: int) -> float:
    """Seconds for so many runs, each thread with a connection of its own."""

    def work(_: int) -> None:
        with PostgresSaver.from_conn_string(ADDRESS) as saver:
            graph = looped(Count, count_down, saver)
            for _ in range(runs // threads):
                graph.invoke({"left": count}, config(count), durability="sync")

    before = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    return time.perf_counter() - before


def grown(count: int) -> dict[str, Any]:
    """Steps that append 1 KiB each, and what reading and forking cost afterwards."""
    begun.clear()
    with PostgresSaver.from_conn_string(ADDRESS) as saver:
        graph, where = looped(Grown, grow, saver), config(count)
        graph.invoke({"left": count, "log": []}, where, durability="sync")
        took = gaps(begun)
        middle = list(graph.get_state_history(where, limit=count // 2))[-1]
        return {
            "gaps": took,
            "state": [timed(lambda: graph.get_state(where)), timed(lambda: graph.get_state(middle.config))],
            "history_10": timed(lambda: list(graph.get_state_history(where, limit=10))),
            "fork": timed(lambda: graph.update_state(middle.config, {"left": 1})),
        }


def woken() -> list[float]:
    """From `invoke(Command(resume=...))` to the first line of the node after, in the same process."""
    moments: list[float] = []
    graph = StateGraph(Count)
    graph.add_node("confirm", lambda state: {"left": interrupt("?")})
    graph.add_node("after", lambda state: moments.append(time.perf_counter()))
    graph.add_edge(START, "confirm")
    graph.add_edge("confirm", "after")
    found = []
    with PostgresSaver.from_conn_string(ADDRESS) as saver:
        ready = graph.compile(checkpointer=saver)
        for _ in range(20):
            where = config(5)
            ready.invoke({"left": 1}, where, durability="sync")
            before = time.perf_counter()
            ready.invoke(Command(resume=0), where, durability="sync")
            found.append((moments[-1] - before) * 1000)
    return found


def timed(work: Any) -> float:
    before = time.perf_counter()
    work()
    return (time.perf_counter() - before) * 1000


def prepare() -> None:
    with PostgresSaver.from_conn_string(ADDRESS) as saver:
        saver.setup()


def size() -> int:
    with psycopg.connect(ADDRESS, autocommit=True) as connection:
        connection.execute("VACUUM FULL")
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])


if __name__ == "__main__":
    prepare()
    answer({"steps": steps, "many": many, "grown": grown, "woken": woken, "size": size})
