"""TLS to an address that was judged: the name is asked for and its certificate checked, wherever the connection goes."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpcore
import pytest
import trustme

from runs import operations
from runs.delivery import Sender, http
from runs.models import Attempt, Delivery
from runs.policies import Actor
from runs.wall import Resolver
from tests.integration.core.conftest import House
from tests.integration.delivery.conftest import EVENTS, parked, pump
from tests.kit.receiver import Receiver, receiving

NAME = "hooks.example.org"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def believed(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The authority of the test is one of those in SSL_CERT_FILE."""
    file = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    http.certificates.cache_clear()
    yield
    http.certificates.cache_clear()


@pytest.fixture
def secure(authority: trustme.CA) -> Iterator[Receiver]:
    """A receiver that is the host of the name, and of no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(NAME).configure_cert(context)
    with receiving(tls=context) as found:
        yield found


def here(host: str, port: int) -> list[str]:
    """Whatever the name, its address is this machine."""
    return ["127.0.0.1"]


def post(receiver: Receiver, host: str = NAME, *, resolver: Resolver = here) -> http.Answer:
    url = f"https://{host}:{receiver.port}/hooks"
    return http.post(url, b"{}", {"Content-Length": "2"}, resolver=resolver)


def test_the_name_is_asked_for_and_checked_while_the_address_is_pinned(
    believed: None, secure: Receiver
) -> None:
    assert post(secure).status == 204
    assert secure.names == [NAME]
    assert secure.got[0].headers["host"] == f"{NAME}:{secure.port}"


def test_a_certificate_of_another_name_is_refused_before_a_byte_is_sent(
    believed: None, secure: Receiver
) -> None:
    with pytest.raises(httpcore.ConnectError, match=r"certificate is not valid for 'other\.example\.org'"):
        post(secure, "other.example.org")
    assert secure.names == ["other.example.org"]
    assert secure.got == []


def test_a_certificate_for_the_address_does_not_stand_in_for_the_name(
    believed: None, authority: trustme.CA
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with receiving(tls=context) as receiver:
        with pytest.raises(httpcore.ConnectError, match=r"not valid for 'hooks\.example\.org'"):
            post(receiver)
        assert receiver.got == []


def test_an_authority_that_nobody_named_is_not_believed(secure: Receiver) -> None:
    with pytest.raises(httpcore.ConnectError, match="unable to get local issuer certificate"):
        post(secure)
    assert secure.got == []


def test_a_delivery_over_tls_arrives_and_a_redirect_is_not_followed(
    believed: None,
    secure: Receiver,
    house: House,
    define: Callable[..., Any],
    ada: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runs.wall.system_resolver", here)
    url = f"https://{NAME}:{secure.port}/hooks"
    operations.create_endpoint(actor=ada, url=url, events=EVENTS)
    secure.say(307, Location=url)
    parked(house, define)
    sender = Sender(resolver=here)
    pump(sender)
    sender.close()
    assert len(secure.got) == 1
    assert Attempt.objects.get().outcome == "redirect_refused"
    assert Delivery.objects.get().status == "pending"
