"""POST /api/v1/runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from runs.engine import Workflow
from runs.models import IdempotencyRecord, Run
from tests.integration.api.conftest import Api, House, api_of, at_once, denials, token_of
from tests.sizes import size


def echo(**input: Any) -> dict[str, Any]:
    return {"workflow": "echo", "input": input}


def raw_input(text: str) -> str:
    return f'{{"workflow": "echo", "input": {text}}}'


def test_a_submitted_run_is_answered_with_its_address(shop: Api) -> None:
    reply = shop.post("runs", {**echo(name="one"), "labels": {"shop": "berlin"}})
    assert reply.status == 201
    assert reply.headers["Location"] == f"/api/v1/runs/{reply.body['id']}"
    assert reply.body["status"] == "queued"
    assert reply.body["labels"] == {"shop": "berlin"}
    assert reply.body["input"] == {"name": "one"}
    assert reply.body["requester"]["username"] == "shop"
    assert "Idempotent-Replayed" not in reply.headers
    assert Run.objects.count() == 1


def test_a_version_may_be_named_as_text_or_number(shop: Api) -> None:
    assert shop.post("runs", {**echo(), "version": "1"}).status == 201
    assert shop.post("runs", {**echo(), "version": 1}).status == 201


def test_an_unknown_workflow_or_version_is_named(shop: Api) -> None:
    reply = shop.post("runs", {"workflow": "nope", "input": {}})
    assert (reply.status, reply.code) == (404, "unknown_workflow")
    assert "echo" in reply.body["detail"]
    assert shop.post("runs", {**echo(), "version": "99"}).code == "unknown_workflow"
    assert Run.objects.count() == 0


def test_an_unknown_field_is_refused_and_the_known_ones_are_named(shop: Api) -> None:
    """K10."""
    reply = shop.post("runs", {**echo(), "wrokflow": "x"})
    assert (reply.status, reply.code, reply.paths) == (400, "unknown_field", ["/wrokflow"])
    assert "workflow, input, version, labels" in reply.body["errors"][0]["message"]
    assert Run.objects.count() == 0


def test_a_wrong_type_is_refused_with_its_place(shop: Api) -> None:
    for body, path in [
        ({"workflow": 5, "input": {}}, "/workflow"),
        ({"workflow": "echo", "input": [1]}, "/input"),
        ({"workflow": "echo", "input": {}, "labels": {"a": 1}}, "/labels/a"),
        ({"workflow": "echo", "input": {}, "version": True}, "/version"),
    ]:
        reply = shop.post("runs", body)
        assert (reply.status, reply.code, reply.paths[0]) == (400, "bad_request", path), reply.text


def test_a_missing_workflow_is_refused(shop: Api) -> None:
    reply = shop.post("runs", {"input": {}})
    assert (reply.status, reply.paths, reply.codes) == (400, ["/workflow"], ["missing"])


@pytest.mark.parametrize("body", [{"workflow": "echo", "input": None}, {"workflow": "echo"}])
def test_no_input_is_not_an_empty_input(shop: Api, body: dict[str, Any]) -> None:
    """C09: null and absent are refused, {} is an input."""
    reply = shop.post("runs", body)
    assert (reply.status, reply.code) == (400, "input_required")
    assert shop.post("runs", {"workflow": "echo", "input": {}}).status == 201


def test_an_input_that_breaks_the_schema_is_told_by_its_own_pointers(shop: Api) -> None:
    reply = shop.post("runs", echo(done=["a", 7]))
    assert (reply.status, reply.code, reply.paths) == (422, "schema_violation", ["/done/1"])
    assert reply.body["errors"][0]["in"] == "input"
    assert Run.objects.count() == 0


@pytest.mark.parametrize(
    "raw", ["", "   ", "[]", '"x"', "5", "null", "{", "{'a': 1}", '{"a": 1} x', "\ufeff{}"]
)
def test_what_is_no_json_object_is_refused(shop: Api, raw: str) -> None:
    reply = shop.ask("POST", "runs", raw=raw)
    assert reply.status == 400
    assert reply.code in ("bad_request", "invalid_json", "input_required")


def test_a_syntax_error_is_told_with_line_and_column(shop: Api) -> None:
    reply = shop.ask("POST", "runs", raw='{"workflow":\n  x}')
    assert (reply.status, reply.code, reply.codes) == (400, "invalid_json", ["syntax"])
    assert (reply.body["line"], reply.body["column"]) == (2, 3)


def test_bytes_that_are_not_utf8_are_refused(shop: Api) -> None:
    assert shop.ask("POST", "runs", raw=b'{"workflow": "\xff"}').codes == ["not_utf8"]


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_another_content_type_than_json_is_refused(shop: Api, kind: str) -> None:
    reply = shop.ask("POST", "runs", raw='{"workflow": "echo", "input": {}}', content_type=kind)
    assert (reply.status, reply.code) == (415, "unsupported_media_type")


def test_a_compressed_body_is_refused(shop: Api) -> None:
    headers = {"Content_Encoding": "gzip"}
    assert shop.ask("POST", "runs", raw=raw_input("{}"), headers=headers).code == "unsupported_media_type"


def test_a_charset_in_the_content_type_is_fine(shop: Api) -> None:
    kind = "application/json; charset=utf-8"
    assert shop.ask("POST", "runs", raw=raw_input("{}"), content_type=kind).status == 201


# ---- what a document may hold


def test_nul_characters_are_all_named_and_the_key_is_not_used_up(shop: Api) -> None:
    """C01 a."""
    raw = raw_input(r'{"t": "a\u0000b", "n": [{"k\u0000": 1}]}')
    reply = shop.ask("POST", "runs", raw=raw, headers={"Idempotency_Key": "K"})
    assert (reply.status, reply.code) == (400, "invalid_json")
    assert reply.paths == ["/t", r"/n/0/k\u0000"]
    assert set(reply.codes) == {"nul_character"}
    assert {fault["in"] for fault in reply.body["errors"]} == {"input"}
    assert Run.objects.count() == IdempotencyRecord.objects.count() == 0
    assert shop.post("runs", echo(), Idempotency_Key="K").status == 201


def test_six_characters_that_look_like_an_escape_are_text(shop: Api) -> None:
    """C01 e."""
    reply = shop.ask("POST", "runs", raw=raw_input(r'{"name": "a\\u0000b"}'))
    assert reply.status == 201
    assert reply.body["input"]["name"] == r"a\u0000b"


def test_a_lone_surrogate_is_refused(shop: Api) -> None:
    reply = shop.ask("POST", "runs", raw=raw_input(r'{"name": "\ud800"}'))
    assert (reply.status, reply.codes, reply.paths) == (400, ["lone_surrogate"], ["/name"])


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400"])
def test_numbers_that_are_not_finite_are_refused(shop: Api, literal: str) -> None:
    """C02."""
    reply = shop.ask("POST", "runs", raw=raw_input(f'{{"value": {literal}}}'))
    assert (reply.status, reply.codes, reply.paths) == (400, ["non_finite_number"], ["/value"])


@pytest.mark.parametrize(
    "literal", ['"nan"', '"Infinity"', "1e+308", "5e-324", "-0.0", "1.0", "0.2345678901234568"]
)
def test_other_numbers_and_texts_come_back_as_they_were(shop: Api, literal: str) -> None:
    """C02."""
    reply = shop.ask("POST", "runs", raw=raw_input(f'{{"value": {literal}}}'))
    assert reply.status == 201
    assert f'"value":{literal}'.encode() in shop.get(f"runs/{reply.body['id']}").text.encode()


@pytest.mark.parametrize(
    "digits", ["9007199254740993", "18446744073709551615", "-9223372036854775809", "1" + "0" * 76, "7" * 4000]
)
def test_integers_keep_all_their_digits(shop: Api, digits: str) -> None:
    """C03, C05."""
    reply = shop.ask("POST", "runs", raw=raw_input(f'{{"value": {digits}}}'))
    assert reply.status == 201
    assert f'"value":{digits}}}' in shop.get(f"runs/{reply.body['id']}").text


def test_an_integer_of_five_thousand_digits_is_refused(shop: Api) -> None:
    """C05."""
    reply = shop.ask("POST", "runs", raw=raw_input(f'{{"value": {"9" * 5000}}}'))
    assert (reply.status, reply.codes, reply.paths) == (400, ["number_too_long"], ["/value"])


def test_a_key_that_stands_twice_is_refused(shop: Api) -> None:
    """C10 c."""
    reply = shop.ask("POST", "runs", raw=raw_input('{"amount": 1, "amount": 9}'))
    assert (reply.status, reply.codes, reply.paths) == (400, ["duplicate_key"], ["/amount"])


def nested(depth: int, opening: str, closing: str) -> str:
    return opening * depth + closing * depth


def test_an_input_may_be_a_hundred_levels_deep(shop: Api) -> None:
    """C11: the input's own levels count, not those of the body around it."""
    for innermost in (nested(99, "[", "]"), '{"a":' * 98 + "{}" + "}" * 98):
        reply = shop.ask("POST", "runs", raw=raw_input(f'{{"value": {innermost}}}'))
        assert reply.status == 201, reply.text[:300]
        assert shop.get(f"runs/{reply.body['id']}").status == 200


@pytest.mark.parametrize("depth", [100, 1_000, 20_000, 200_000])
def test_a_deeper_input_is_refused(shop: Api, depth: int) -> None:
    """C11."""
    for innermost in (nested(depth, "[", "]"), '{"a":' * depth + "1" + "}" * depth):
        reply = shop.ask("POST", "runs", raw=raw_input(f'{{"value": {innermost}}}'))
        assert reply.status in (400, 413)
        assert reply.code in ("invalid_json", "too_large")
        assert reply.status == 413 or set(reply.codes) == {"too_deep"}


def test_a_body_of_one_mebibyte_is_taken_and_one_byte_more_is_not(shop: Api) -> None:
    """C11."""
    empty = raw_input('{"name": ""}')
    fits = raw_input(f'{{"name": "{"x" * (2**20 - len(empty))}"}}')
    assert len(fits) == 2**20
    assert shop.ask("POST", "runs", raw=fits).status == 201
    reply = shop.ask("POST", "runs", raw=fits + " ")
    assert (reply.status, reply.code, reply.body["limit"]) == (413, "too_large", 2**20)
    assert shop.ask("POST", "runs", raw=" " * (2**20 + 1)).code == "too_large"


def test_a_body_far_beyond_every_limit_is_not_even_read_whole(shop: Api) -> None:
    assert shop.ask("POST", "runs", raw=b" " * (9 * 2**20)).code == "too_large"


def test_quotes_that_are_never_closed_are_refused_at_once(shop: Api) -> None:
    """A scan that begins anew at each quote would compute for minutes; the processor's time is the same on a busy machine."""
    began = time.thread_time()
    assert shop.ask("POST", "runs", raw='{"a": "' + '\\"' * 500_000).code == "invalid_json"
    assert time.thread_time() - began < 10


# ---- Idempotency-Key


def test_the_same_key_and_body_lead_to_the_same_run(shop: Api) -> None:
    """C10 a: the order of keys does not matter."""
    first = shop.ask(
        "POST",
        "runs",
        raw=raw_input('{"name": "n", "value": {"z": 1, "y": 2}}'),
        headers={"Idempotency_Key": "K"},
    )
    other_order = '{"input": {"value": {"y": 2, "z": 1}, "name": "n"}, "workflow": "echo"}'
    again = shop.ask("POST", "runs", raw=other_order, headers={"Idempotency_Key": "K"})
    assert (first.status, again.status) == (201, 200)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.body["id"] == first.body["id"]
    assert Run.objects.count() == 1


def test_the_same_key_with_another_body_is_refused(shop: Api) -> None:
    """C105."""
    shop.post("runs", echo(value=1), Idempotency_Key="K")
    for other in (echo(value=2), echo(value=1.0), {**echo(value=1), "labels": {"a": "b"}}):
        reply = shop.post("runs", other, Idempotency_Key="K")
        assert (reply.status, reply.code) == (422, "key_reused")
    assert Run.objects.count() == 1


@pytest.mark.parametrize("key", ["", "   ", "x" * 256, "schlüssel", "a\tb", "a%00b", "a\x7fb"])
def test_an_impossible_key_is_refused(shop: Api, key: str) -> None:
    """C105, C01 b."""
    reply = shop.post("runs", echo(), Idempotency_Key=key)
    assert (reply.status, reply.code) == (400, "invalid_idempotency_key")
    assert reply.body["errors"][0]["in"] == "header"
    assert Run.objects.count() == 0


@pytest.mark.parametrize("key", ["x", "x" * 255, "a b", "~!@#"])
def test_any_printable_key_will_do(shop: Api, key: str) -> None:
    assert shop.post("runs", echo(), Idempotency_Key=key).status == 201


def test_a_key_counts_for_a_day(shop: Api) -> None:
    """C105."""
    first = shop.post("runs", echo(), Idempotency_Key="K")
    IdempotencyRecord.objects.update(created_at=timezone.now() - timedelta(hours=23, minutes=59))
    assert shop.post("runs", echo(), Idempotency_Key="K").body["id"] == first.body["id"]
    IdempotencyRecord.objects.update(created_at=timezone.now() - timedelta(hours=24, minutes=1))
    assert shop.post("runs", echo(), Idempotency_Key="K").status == 201


def test_a_key_is_shared_by_the_tokens_of_a_project_and_by_nobody_else(
    house: House, shop: Api, outsider: Api
) -> None:
    """C105, C86."""
    first = shop.post("runs", echo(), Idempotency_Key="K")
    assert api_of(house.olga).post("runs", echo(), Idempotency_Key="K").body["id"] == first.body["id"]
    other = outsider.post("runs", echo(), Idempotency_Key="K")
    assert other.status == 201
    assert other.body["id"] != first.body["id"]


def test_requests_with_one_key_at_the_same_time_make_one_run(committed: None, shop: Api) -> None:
    """C105."""
    many = 8 if size("race rounds") < 10 else 50
    token = shop.secret
    replies = at_once([lambda: Api(token).post("runs", echo(value=1), Idempotency_Key="K")] * many)
    assert sorted(reply.status for reply in replies) == [200] * (many - 1) + [201]
    assert len({reply.body["id"] for reply in replies}) == 1
    assert Run.objects.count() == 1


def test_one_key_with_two_bodies_at_the_same_time_makes_one_run(committed: None, shop: Api) -> None:
    """C105."""
    token = shop.secret

    def send(value: int) -> Callable[[], Any]:
        return lambda: Api(token).post("runs", echo(value=value), Idempotency_Key="K")

    replies = at_once([send(1), send(1), send(2), send(2)])
    assert sorted(reply.status for reply in replies) == [200, 201, 422, 422]
    assert Run.objects.count() == 1


# ---- who may, and what is counted


def test_a_viewer_may_not_submit(vera: Api) -> None:
    reply = vera.post("runs", echo())
    assert (reply.status, reply.code) == (403, "forbidden")
    assert denials() == [("vera", "submit", "denied: forbidden")]


def test_a_token_without_the_scope_may_not_submit(house: House) -> None:
    reply = Api(token_of(house.shop, ["runs:read"])).post("runs", echo())
    assert (reply.status, reply.code, reply.body["scope"]) == (403, "missing_scope", "runs:submit")
    assert Run.objects.count() == 0


def test_a_database_that_refuses_answers_503_and_leaves_nothing(shop: Api) -> None:
    """C35: a fault at the commit of a run."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION test_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;"
            "CREATE TRIGGER test_refuse BEFORE INSERT ON runs_event FOR EACH ROW EXECUTE FUNCTION test_refuse()"
        )
    try:
        reply = shop.post("runs", echo(), Idempotency_Key="K")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TRIGGER test_refuse ON runs_event; DROP FUNCTION test_refuse()")
    assert (reply.status, reply.code, reply.headers["Retry-After"]) == (503, "database_error", "1")
    assert Run.objects.count() == IdempotencyRecord.objects.count() == 0
    assert shop.post("runs", echo(), Idempotency_Key="K").status == 201


def test_unknown_parameters_in_the_address_are_refused(shop: Api) -> None:
    assert shop.post("runs?dry_run=1", echo()).code == "unknown_field"


def test_more_labels_than_a_run_may_have_are_refused(shop: Api) -> None:
    reply = shop.post("runs", {**echo(), "labels": {str(n): "x" for n in range(51)}})
    assert (reply.status, reply.code) == (400, "bad_request")


def test_a_workflow_of_this_test_can_be_started(shop: Api, define: Callable[..., Workflow]) -> None:
    from runs import workflows

    flow = define("mine")

    @flow.node
    def only(state: Any, ctx: Any) -> None:
        return None

    workflows.register(flow)
    assert shop.post("runs", {"workflow": "mine", "input": {"x": 1}}).status == 201
