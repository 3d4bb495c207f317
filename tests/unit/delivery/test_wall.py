"""C91: where a webhook may go. No name is looked up for real; the resolver is the test's."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs import wall
from runs.errors import ForbiddenTarget

Resolver = Callable[[str, int], list[str]]


@pytest.fixture(autouse=True)
def closed(settings: Any) -> None:
    settings.HITL_WEBHOOK_ALLOWED_NETS = []
    settings.HITL_WEBHOOK_HTTP = False


def leads_to(*addresses: str) -> Resolver:
    return lambda host, port: list(addresses)


REFUSED = [
    "http://127.0.0.1:6379/",
    "http://169.254.169.254/",
    "http://[::ffff:10.0.0.5]/",
    "http://0x7f000001/",
    "http://user:pw@10.0.0.1/",
    "http://localhost.",
    "file:///etc/passwd",
    "https://127.0.0.1/",
    "https://127.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.1/",
    "https://0177.0.0.1/",
    "https://127.0.0.01/",
    "https://10.0.0.5/",
    "https://172.16.0.1/",
    "https://192.168.1.1/",
    "https://100.64.0.1/",
    "https://100.100.100.200/",
    "https://168.63.129.16/",
    "https://169.254.169.254/latest/meta-data/",
    "https://0.0.0.0/",
    "https://224.0.0.1/",
    "https://255.255.255.255/",
    "https://198.18.0.1/",
    "https://[::1]/",
    "https://[::]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:8.8.8.8]/",
    "https://[::8.8.8.8]/",
    "https://[64:ff9b::a00:5]/",
    "https://[64:ff9b::808:808]/",
    "https://[2002:a00:5::1]/",
    "https://[2001:0:1::1]/",
    "https://[fe80::1]/",
    "https://[fe80::1%25eth0]/",
    "https://[fd00:ec2::254]/",
    "https://[fc00::1]/",
    "https://[ff02::1]/",
    "https://localhost/",
    "https://localhost./",
    "https://a.localhost/",
    "https://metadata.google.internal/",
    "https://printer.local/",
    "https://user@example.org/",
    "https://user:pw@example.org/",
    "https://example.org/#part",
    "https://example.org\\@10.0.0.1/",
    "https://example.org:0/",
    "https://example.org:99999/",
    "https://exa mple.org/",
    "https://ex\u0430mple.org/",
    "https://example.org\r\nHost: 10.0.0.1/",
    "https://-example.org/",
    "https://example..org/",
    "https://example.org./",
    "https:///path",
    "https://",
    "//example.org/",
    "example.org",
    "",
    "http://example.org/",
    "ftp://example.org/",
    "gopher://example.org/",
    "javascript:alert(1)",
    "https://example.org/" + "a" * 2_000,
]


@pytest.mark.parametrize("url", REFUSED)
def test_what_is_refused(url: str) -> None:
    with pytest.raises(ForbiddenTarget) as refused:
        wall.check_url(url, resolver=leads_to("93.184.216.34"))
    assert refused.value.http_status == 400
    assert refused.value.errors[0].path == "/url"


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/hooks?a=b",
        "https://EXAMPLE.org:8443/",
        "https://93.184.216.34/",
        "https://[2606:2800:220:1::1]/",
    ],
)
def test_what_is_allowed(url: str) -> None:
    assert wall.check_url(url, resolver=leads_to("93.184.216.34")).scheme == "https"


@pytest.mark.parametrize(
    "addresses",
    [
        ["93.184.216.34", "10.0.0.5"],
        ["10.0.0.5"],
        ["93.184.216.34", "::1"],
        ["::ffff:10.0.0.5"],
        ["fe80::1%2"],
        ["169.254.169.254"],
    ],
)
def test_a_name_with_one_address_inside_is_refused(addresses: list[str]) -> None:
    with pytest.raises(ForbiddenTarget):
        wall.check_url("https://example.org/", resolver=leads_to(*addresses))


def test_a_name_that_nobody_knows_is_refused_when_it_is_saved() -> None:
    def nobody(host: str, port: int) -> list[str]:
        raise OSError("unknown")

    with pytest.raises(ForbiddenTarget):
        wall.check_url("https://example.org/", resolver=nobody)


def test_private_networks_can_be_opened_and_link_local_never(settings: Any) -> None:
    settings.HITL_WEBHOOK_ALLOWED_NETS = ["10.0.0.0/8", "169.254.0.0/16", "0.0.0.0/0", "::/0"]
    for url in ("https://10.0.0.5/", "http://10.0.0.5:8080/hooks", "https://127.0.0.1/"):
        wall.check_url(url, resolver=leads_to("10.0.0.5"))
    wall.check_url("https://inside.internal/", resolver=leads_to("10.0.0.5"))
    for url in (
        "https://169.254.169.254/",
        "https://[fe80::1]/",
        "https://[fd00:ec2::254]/",
        "https://[::ffff:10.0.0.5]/",
    ):
        with pytest.raises(ForbiddenTarget):
            wall.check_url(url, resolver=leads_to("10.0.0.5"))
    with pytest.raises(ForbiddenTarget):
        wall.check_url("https://example.org/", resolver=leads_to("169.254.169.254"))


def test_one_opened_network_opens_no_other(settings: Any) -> None:
    settings.HITL_WEBHOOK_ALLOWED_NETS = ["10.0.0.0/8"]
    for address in ("192.168.0.1", "127.0.0.1", "172.16.0.1"):
        with pytest.raises(ForbiddenTarget):
            wall.check_address(ip_address(address))


def test_http_is_for_those_who_ask_for_it(settings: Any) -> None:
    settings.HITL_WEBHOOK_HTTP = True
    assert wall.check_url("http://example.org/", resolver=leads_to("93.184.216.34")).port == 80


@given(st.ip_addresses())
def test_only_what_is_on_the_internet_passes(address: Any) -> None:
    """Whatever passes is a global unicast address, in the form in which it is written and in no other."""
    try:
        wall.check_address(address)
    except ForbiddenTarget:
        return
    assert address.is_global
    assert not address.is_multicast
    assert not address.is_link_local
    if address.version == 6:
        assert address.ipv4_mapped is None
        assert address.sixtofour is None
        assert address.teredo is None


@given(st.text(max_size=60))
def test_any_text_is_judged_without_an_accident(text: str) -> None:
    for url in (text, f"https://{text}/", f"https://example.org/{text}"):
        try:
            found = wall.target(url)
        except ForbiddenTarget:
            continue
        assert found.host
        assert found.path.startswith("/")
