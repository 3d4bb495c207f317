"""Documents that are compressed where that is worth it: what comes back is what went in, and damage is seen."""

from __future__ import annotations

import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.engine import canonical
from runs.engine.canonical import Json
from runs.models.packed import MARK, OLDER, WORTH_IT, PackedText, pack, unpack

LONG = canonical.dumps(["0123456789abcdef"] * 200)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 3))
def test_what_was_packed_comes_back(text: str, power: int) -> None:
    document = canonical.dumps([text] * 10**power)
    assert unpack(pack(document)) == document


def test_a_short_text_stays_readable_and_a_long_one_gets_shorter() -> None:
    assert pack('{"x":1}') == b'{"x":1}'
    assert len(LONG) > WORTH_IT > len(pack(LONG))
    assert pack(LONG)[0] == MARK


def test_no_json_begins_like_a_compressed_text() -> None:
    documents: list[Json] = [{}, [], "x", 1, -1, True, False, None]
    for document in documents:
        assert canonical.dumps(document).encode()[0] not in (MARK, OLDER)


def test_what_zlib_packed_is_read_as_before() -> None:
    assert unpack(zlib.compress(LONG.encode(), 1)) == LONG


def test_threads_pack_beside_each_other() -> None:
    texts = [canonical.dumps([str(number) * 4_000] * 20) for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: unpack(pack(text)), texts * 5)) == texts * 5


@pytest.mark.parametrize(
    "damaged", [pack(LONG)[:-9], b"x", b"\xff\xfe", pack(LONG)[:40] + b"?" + pack(LONG)[41:]]
)
def test_damage_is_no_document(damaged: bytes) -> None:
    """Whoever reads it fails by name, as with any text that is no JSON."""
    with pytest.raises(ValueError, match="Expecting value"):
        canonical.loads(unpack(damaged))


def test_the_field_keeps_null_apart_from_text() -> None:
    field = PackedText(null=True)
    assert field.get_prep_value(None) is None
    assert field.from_db_value(None, None, None) is None
    assert field.from_db_value(memoryview(pack(LONG)), None, None) == LONG
