"""Names and types of files: labels that do no harm, and images that are known by their bytes."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.engine.files import ANYTHING, IMAGES, MAX_NAME, File, name_of, type_of

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
WEBP = b"RIFF\x00\x00\x00\x00WEBPVP8 "


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("plan.pdf", "plan.pdf"),
        ("Übersicht 2026.pdf", "Übersicht 2026.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\a.png", "a.png"),
        ("..", "file"),
        ("/", "file"),
        ("", "file"),
        ("evil\u202egnp.exe", "evil_gnp.exe"),
        ("a\x00b\r\nc", "a_b__c"),
        ("\ud800.txt", "_.txt"),
        ("n" * 300 + ".pdf", "n" * 196 + ".pdf"),
        ("n" * 300, "n" * 200),
        ("." + "n" * 300, "n" * 200),
    ],
)
def test_a_name_is_made_harmless(told: str, name: str) -> None:
    assert name_of(told) == name


@given(st.text(max_size=600))
def test_a_name_is_always_one_that_can_be_stored_and_seen(told: str) -> None:
    name = name_of(told)
    assert 0 < len(name) <= MAX_NAME
    assert not {"/", "\\"} & set(name)
    assert name not in (".", "..")
    assert all(one == " " or unicodedata.category(one)[0] not in "CZ" for one in name)


@pytest.mark.parametrize(
    ("body", "told", "type"),
    [
        (PNG, None, "image/png"),
        (PNG, "text/html", "image/png"),
        (b"\xff\xd8\xff\xe0", "application/pdf", "image/jpeg"),
        (b"GIF89a...", None, "image/gif"),
        (WEBP, None, "image/webp"),
        (b"<svg onload='alert(1)'>", "image/svg+xml", "image/svg+xml"),
        (b"<script>", "image/png", ANYTHING),
        (b"%PDF-1.7", "Application/PDF; charset=x", "application/pdf"),
        (b"", None, ANYTHING),
        (b"x", "text/html\r\nSet-Cookie: a=b", ANYTHING),
        (b"x", "no type", ANYTHING),
    ],
)
def test_only_bytes_make_an_image(body: bytes, told: str | None, type: str) -> None:
    assert type_of(body, told) == type
    assert "image/svg+xml" not in IMAGES


def test_a_reference_says_what_it_is() -> None:
    file = File.of("a/b.txt", b"abc", "text/plain")
    assert file.reference("1") == {
        "$attachment": "1",
        "name": "b.txt",
        "type": "text/plain",
        "size": 3,
        "digest": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    }
