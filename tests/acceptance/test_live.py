"""What open pages hear, from the server that serves them."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from tests.acceptance.seed import PASSWORD
from tests.acceptance.site import Site, fresh_name
from tests.kit.waiting import until
from tests.sizes import size

pytestmark = pytest.mark.acceptance
Value = TypeVar("Value")


@dataclass
class Heard:
    """One server-sent event."""

    kind: str
    id: str
    data: dict[str, object]


@dataclass
class Ear:
    """An open stream."""

    status: int
    reader: asyncio.StreamReader

    async def next(self, *, seconds: float = 30) -> Heard:
        """The next event; comments are passed over."""
        while True:
            block = await asyncio.wait_for(self._block(), seconds)
            fields = dict(re.findall(r"^(\w+): (.*)$", block, re.MULTILINE))
            if "event" in fields:
                return Heard(fields["event"], fields.get("id", ""), json.loads(fields["data"]))

    async def ended(self, *, seconds: float = 30) -> bool:
        """Whether nothing more comes."""
        rest = await asyncio.wait_for(self.reader.read(), seconds)
        return b"event:" not in rest

    async def _block(self) -> str:
        lines: list[str] = []
        while True:
            line = (await self.reader.readline()).decode()
            if line in ("\r\n", "\n", ""):
                if any(":" in kept for kept in lines):
                    return "".join(lines)
                assert line, "the stream ended"
                lines = []
            elif not re.fullmatch(r"[0-9a-f]+\r\n", line):  # the length of a chunk
                lines.append(line)


def told(story: Coroutine[Any, Any, Value]) -> Value:
    """Runs a story to its end, in a thread of its own: in this one a browser's event loop may be running."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, story).result()


def signed_in(site: Site) -> str:
    """The cookie of frida's session."""
    with httpx.Client(base_url=site.stack.url, trust_env=False, follow_redirects=True) as client:
        page = client.get("/sign-in/").text
        token = re.search(r'csrfmiddlewaretoken" value="([^"]+)', page)
        assert token is not None
        form = {"username": "frida", "password": PASSWORD, "csrfmiddlewaretoken": token[1]}
        client.post("/sign-in/", data=form, headers={"Referer": site.stack.url})
        return "; ".join(f"{name}={value}" for name, value in client.cookies.items())


@asynccontextmanager
async def listening(site: Site, path: str, cookie: str, *, last: str = "") -> AsyncIterator[Ear]:
    host, port = site.stack.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    again = f"Last-Event-ID: {last}\r\n" if last else ""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n{again}\r\n".encode())
    try:
        status = int((await asyncio.wait_for(reader.readline(), 30)).split()[1])
        while (await reader.readline()).strip():
            pass
        yield Ear(status, reader)
    finally:
        writer.close()


def test_a_run_is_followed_to_its_end_and_a_reconnect_repeats_nothing(site: Site) -> None:
    """C92, the server's side: the position is carried, the stream of an ended run ends."""
    name = fresh_name()
    site.ledger.open(name)
    run_id = site.start("gated", name=name, value=1)
    approval = site.approval(run_id)
    cookie = signed_in(site)

    async def story() -> None:
        async with listening(site, f"/live/runs/{run_id}", cookie) as ear:
            first = await ear.next()
            assert first.data["status"] == "waiting"
        async with listening(site, f"/live/runs/{run_id}", cookie, last=first.id) as ear:
            await asyncio.to_thread(site.decide, approval)
            heard = [await ear.next()]
            while heard[-1].kind != "end":
                heard.append(await ear.next())
            seqs = [int(str(event.data["seq"])) for event in heard if event.kind == "changed"]
            assert first.id not in [event.id for event in heard]
            assert seqs == sorted(seqs)
            assert heard[-2].data["status"] == "completed"
            assert await ear.ended()

    told(story())


def test_lists_hear_that_something_has_changed(site: Site) -> None:
    cookie = signed_in(site)

    async def story() -> None:
        async with (
            listening(site, "/live/inbox", cookie) as inbox,
            listening(site, "/live/runs", cookie) as runs,
        ):
            before = await inbox.next(), await runs.next()
            name = fresh_name()
            site.ledger.open(name)
            await asyncio.to_thread(site.start, "gated", name=name, value=1)
            after = await inbox.next(), await runs.next()
            assert [event.data for event in after] == [{}, {}]
            assert {event.id for event in after}.isdisjoint(event.id for event in before)

    told(story())


@pytest.mark.parametrize(
    "path", ["/live/inbox", "/live/runs", "/live/runs/00000000-0000-4000-8000-000000000000"]
)
def test_a_stream_is_for_people_who_are_signed_in_and_may_see_it(site: Site, path: str) -> None:
    async def status(cookie: str) -> int:
        async with listening(site, path, cookie) as ear:
            return ear.status

    assert told(status("")) == 401
    assert told(status(signed_in(site))) == (404 if path.count("/") == 3 else 200)


def test_many_open_streams_hold_neither_threads_nor_connections(site: Site) -> None:
    """500 at full size; and the server still ends within seconds."""
    cookie = signed_in(site)
    web = site.stack.children["web"]

    def threads() -> int:
        return len(list(Path(f"/proc/{web.pid}/task").iterdir()))

    def connections() -> int:
        return len(site.sql("SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"))

    async def story() -> tuple[int, int]:
        async with AsyncExitStack() as held:
            ears = [
                await held.enter_async_context(listening(site, "/live/inbox", cookie))
                for _ in range(size("open streams"))
            ]
            for ear in ears:
                assert (await ear.next(seconds=60)).kind == "changed"
            during = threads(), connections()
            begun = time.monotonic()
            ended = await asyncio.to_thread(site.stack.end, "web", grace=20)
            assert ended is not None, "the server had to be killed"
            assert time.monotonic() - begun < 20
            return during

    _warm(site, cookie)
    before = threads(), connections()
    try:
        during = told(story())
    finally:
        site.stack.start_web()
        site.stack.wait_for_web()
    assert during[0] - before[0] <= 20  # the pool of pages and asyncio's own, whatever the number of streams
    assert during[1] - before[1] <= 18


def test_without_redis_pages_hear_of_changes_from_postgres(site: Site) -> None:
    cookie = signed_in(site)
    name = fresh_name()
    site.ledger.open(name)
    run_id = site.start("gated", name=name, value=1)
    site.approval(run_id)

    async def story() -> None:
        async with listening(site, f"/live/runs/{run_id}", cookie) as ear:
            await ear.next()
            await asyncio.to_thread(site.stack.stop_redis)
            try:
                await asyncio.to_thread(_cancel, site, run_id)
                assert (await ear.next(seconds=30)).data["status"] == "cancelled"
                assert (await ear.next()).kind == "end"
            finally:
                await asyncio.to_thread(site.stack.start_redis)

    told(story())


def test_a_person_who_is_deactivated_hears_nothing_more(site: Site) -> None:
    """C89, the streams: rights are looked at again at every heartbeat."""
    cookie = signed_in(site)

    async def story() -> None:
        async with listening(site, "/live/inbox", cookie) as ear:
            await ear.next()
            site.sql("UPDATE runs_user SET is_active = false WHERE username = 'frida'")
            assert (await ear.next(seconds=40)).kind == "signed-out"
            assert await ear.ended()

    try:
        told(story())
    finally:
        site.sql("UPDATE runs_user SET is_active = true WHERE username = 'frida'")


def test_pages_of_a_person_whom_an_admin_deactivates_close_at_once(site: Site) -> None:
    """C89: the page is told, and does not wait for its heartbeat, which comes after fifteen seconds."""
    cookie = signed_in(site)
    name = fresh_name()
    site.ledger.open(name)
    run_id = site.start("gated", name=name, value=1)
    site.approval(run_id)
    ada = site.as_("ada")

    async def story() -> None:
        async with (
            listening(site, "/live/inbox", cookie) as inbox,
            listening(site, f"/live/runs/{run_id}", cookie) as run,
        ):
            await inbox.next()
            await run.next()
            answer = await asyncio.to_thread(ada.post, "/members/frida/deactivate", json={})
            assert answer.status_code == 200, answer.text
            for ear in (inbox, run):
                heard = await ear.next(seconds=10)
                while heard.kind == "changed":
                    heard = await ear.next(seconds=10)
                assert heard.kind == "signed-out"
                assert await ear.ended()

    try:
        told(story())
    finally:
        assert ada.post("/members/frida/reactivate", json={}).status_code == 200


def _cancel(site: Site, run_id: str) -> None:
    answer = site.as_("olga").post(f"/runs/{run_id}/cancel", json={})
    assert answer.status_code == 200, answer.text


def _warm(site: Site, cookie: str) -> None:
    """Let the pool of pages be there before anything is counted."""
    with httpx.Client(base_url=site.stack.url, headers={"Cookie": cookie}, trust_env=False) as client:
        answers: Callable[[], bool] = lambda: client.get("/inbox/").status_code == 200  # noqa: E731
        until(answers, what="pages answer")
