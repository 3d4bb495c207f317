"""The outbox with real processes: a sender killed while it sends, and one that is told to end."""

from __future__ import annotations

import pytest
from standardwebhooks.webhooks import Webhook

from tests.acceptance.site import MakeSite
from tests.kit.receiver import receiving

pytestmark = pytest.mark.acceptance


def test_a_sender_killed_while_it_sends_leaves_one_more_attempt_under_the_same_id(
    make_site: MakeSite,
) -> None:
    """C107: the receiver has it, and nobody wrote that down. Another sender goes on once the lease is over."""
    nets = {"HITL_WEBHOOK_ALLOWED_NETS": "127.0.0.0/8", "HITL_WEBHOOK_HTTP": "true"}
    with receiving() as receiver:
        site = make_site(env=nets, workers=["w1"])
        site.stack.sql(
            "UPDATE runs_member SET roles = roles || '{admin}'::varchar[] WHERE NOT 'admin' = ANY(roles) RETURNING id"
        )
        told = {"url": receiver.url, "events": ["run.completed"]}
        made = site.as_("olga").post("/webhooks", json=told).json()
        receiver.stall()
        site.stack.start_deliver()
        run_id = site.start("echo")
        site.wait(run_id)
        receiver.wait_for(1)
        site.stack.kill("deliver")
        receiver.free.set()
        site.stack.start_deliver("deliver2")
        site.stack.sql(
            "UPDATE runs_delivery SET due_at = now() RETURNING id"
        )  # the minute of the lease is over
        first, second = receiver.wait_for(2)
        assert (first.id, first.body) == (second.id, second.body)
        assert [first.attempt, second.attempt] == [1, 2]
        for got in (first, second):
            message = Webhook(made["secret"]).verify(got.body, got.headers)
            assert message["data"]["run"]["id"] == run_id
        assert site.stack.end("deliver2") == 0
        [delivery] = site.as_("olga").get("/deliveries").json()["items"]
        assert (delivery["status"], delivery["attempts"]) == ("delivered", 2)
