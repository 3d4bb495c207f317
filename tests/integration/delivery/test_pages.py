"""Webhooks and deliveries in the browser; what a person is told, and what they want to hear."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from runs import operations
from runs.delivery import Sender
from runs.models import Delivery, Endpoint, Notice
from runs.policies import Actor
from tests.integration.core.conftest import House
from tests.integration.delivery.conftest import Hook, parked, pump
from tests.kit.receiver import Receiver

Define = Callable[..., Any]


def browser(actor: Actor) -> Client:
    client = Client()
    client.force_login(actor.user)
    return client


def page(client: Client, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status, answer.content.decode()[-2000:]
    return answer.content.decode()


def test_an_admin_adds_an_endpoint_and_reads_its_secret_once(ada: Actor, receiver: Receiver) -> None:
    client = browser(ada)
    page(client, "/webhooks/")
    sent = {"url": receiver.url, "events": ["run.completed"], "description": "books"}
    made = client.post("/webhooks/", sent)
    assert made.status_code == 303
    first = page(client, made.headers["Location"])
    secret = re.search(r"whsec_[\w+/=]+", first)
    assert secret
    assert "whsec_" not in page(client, made.headers["Location"])
    assert secret.group() not in str(list(Endpoint.objects.values()))
    assert receiver.url in page(client, "/webhooks/")


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/", "file:///etc/passwd", "http://10.0.0.1/", "nonsense"]
)
def test_a_target_that_is_refused_keeps_what_was_typed(ada: Actor, url: str) -> None:
    client = browser(ada)
    answer = client.post("/webhooks/", {"url": url, "events": ["run.completed"]})
    assert answer.status_code == 400
    text = answer.content.decode()
    assert f'value="{url}"' in text
    assert "A webhook cannot go there" in text


def test_the_verbs_of_an_endpoint(ada: Actor, hook: Hook, sender: Sender, receiver: Receiver) -> None:
    client, place = browser(ada), f"/webhooks/{hook.endpoint.pk}/"
    client.post(place, {"verb": "test"})
    pump(sender)
    assert b"endpoint.test" in receiver.got[0].body
    assert "endpoint.test" in page(client, place)
    client.post(place, {"verb": "rotate"})
    assert "whsec_" in page(client, place)
    client.post(place, {"verb": "change", "url": receiver.url, "events": ["run.failed"]})
    client.post(place, {"verb": "disable"})
    assert "Nothing is sent there" in page(client, place)
    assert client.post(place, {"verb": "test"}).status_code == 409
    client.post(place, {"verb": "enable"})
    assert client.post(place, {"verb": "explode"}).status_code == 400
    client.post(place, {"verb": "delete"})
    page(client, place, 404)
    assert Endpoint.objects.get().events == ["run.failed"]


def test_the_ops_page_finds_what_failed_and_sends_it_again(
    house: House, define: Define, ada: Actor, hook: Hook, sender: Sender, receiver: Receiver
) -> None:
    receiver.say(410, b"<script>gone</script>")
    run, _ = parked(house, define)
    pump(sender)
    delivery = Delivery.objects.get()
    client = browser(house.olga)
    for query in (
        "",
        "?status=dead",
        f"?run={run.pk}",
        f"?endpoint={hook.endpoint.pk}",
        "?status=dead&run=nonsense",
    ):
        found = str(delivery.pk) in page(client, f"/deliveries/{query}")
        assert found == ("nonsense" not in query)
    assert str(delivery.pk) not in page(client, "/deliveries/?status=delivered")
    told = page(client, f"/deliveries/{delivery.pk}/")
    assert "gone (410)" in told
    assert "script&gt;gone" not in told  # what a receiver says is for admins
    assert "script&gt;gone" in page(browser(ada), f"/deliveries/{delivery.pk}/")
    assert client.post(f"/deliveries/{delivery.pk}/").status_code == 409
    operations.change_endpoint(actor=ada, endpoint_id=hook.endpoint.pk, enabled=True)
    assert client.post(f"/deliveries/{delivery.pk}/").status_code == 303
    pump(sender)
    assert "delivered" in page(client, f"/deliveries/{delivery.pk}/")


def test_nobody_else_sees_or_changes_any_of_it(house: House, define: Define, hook: Hook) -> None:
    parked(house, define)
    delivery = Delivery.objects.get()
    for somebody, status in ((house.frida, 403), (house.vera, 403)):
        client = browser(somebody)
        for path in (
            "/webhooks/",
            f"/webhooks/{hook.endpoint.pk}/",
            "/deliveries/",
            f"/deliveries/{delivery.pk}/",
        ):
            page(client, path, status)
            assert client.post(
                path, {"verb": "delete", "url": "https://example.org/", "events": ["run.failed"]}
            ).status_code in (403, 405)
    assert browser(house.olga).get("/webhooks/").status_code == 403
    assert Endpoint.objects.get().deleted_at is None


# ---- the bell


def unread(client: Client) -> int:
    found = re.search(r'id="_bell".*?</a>', page(client, "/tokens/"), re.DOTALL)
    assert found
    number = re.search(r'aria-hidden="true">(\d+)\+?</span>', found.group())
    return int(number.group(1)) if number else 0


def test_the_bell_counts_what_the_list_shows_as_unread(house: House, define: Define) -> None:
    parked(house, define)
    client = browser(house.frida)
    assert unread(client) == 1
    listed = page(client, "/notifications/")
    assert listed.count("(unread)") == 1
    [notice] = Notice.objects.filter(user=house.frida.user)
    client.post("/notifications/", {"only": notice.pk})
    assert unread(client) == 0
    assert unread(browser(house.felix)) == 1


def test_all_is_read_up_to_what_was_on_the_page(house: House, define: Define) -> None:
    parked(house, define)
    seen = Notice.objects.filter(user=house.frida.user).latest("pk").pk
    house.parked("pay", x=2)
    client = browser(house.frida)
    client.post("/notifications/", {"up_to": seen})
    assert unread(client) == 1


def test_what_somebody_else_has_answered_asks_nobody_any_more(house: House, define: Define) -> None:
    _, approval = parked(house, define)
    house.answer(approval, "approve")
    assert unread(browser(house.felix)) == 0


def test_nobody_reads_the_notices_of_others(house: House, define: Define) -> None:
    parked(house, define)
    [mine] = Notice.objects.filter(user=house.frida.user)
    browser(house.felix).post("/notifications/", {"only": mine.pk})
    mine.refresh_from_db()
    assert mine.read_at is None


def test_what_one_does_not_want_to_hear_is_not_shown(house: House, define: Define) -> None:
    client = browser(house.frida)
    page(client, "/notifications/settings/")
    assert client.post("/notifications/settings/", {"app": ["ended"], "when": "now"}).status_code == 303
    parked(house, define)
    assert unread(client) == 0
    assert unread(browser(house.felix)) == 1
    assert client.post("/notifications/settings/", {"app": ["nonsense"]}).status_code == 400


def test_the_bell_is_part_of_what_a_stream_compares(house: House, define: Define) -> None:
    client = browser(house.frida)
    before = client.get("/live/state/notices").json()["mark"]
    shown = re.search(r'data-live="/live/notices" data-after="([^"]*)"', page(client, "/tokens/"))
    assert shown
    assert shown.group(1) == before
    parked(house, define)
    assert client.get("/live/state/notices").json()["mark"] != before
    assert 'id="_bell"' in page(client, "/notifications/bell/")
    for path, state in (("/inbox/", "inbox"), ("/runs/", "runs")):
        marked = re.search(r'data-after="([^"]*)"', page(client, path))
        assert marked
        assert marked.group(1) == client.get(f"/live/state/{state}").json()["mark"]
