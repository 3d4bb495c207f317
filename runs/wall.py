"""Where a webhook may go: the wall between what an admin types and the network that we stand in.

A target is judged twice by the same rules: when it is saved, and for every attempt just before its connection is made, which
then goes to the address that was judged and to no other. So a name that leads somewhere else later leads nowhere.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooSlow
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

from runs.errors import ForbiddenTarget, Problem

MAX_URL: Final = 2_000
RESOLVERS: Final = (
    8  # names that may be looked up at once; one that hangs keeps its thread until the system gives up
)
RESOLVE_SECONDS: Final = 5.0
PORTS: Final = {"http": 80, "https": 443}

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolver = Callable[[str, int], list[str]]

# Nothing opens these: what a machine tells itself about itself, and forms in which one address hides another.
NEVER: Final[tuple[Network, ...]] = tuple(
    ip_network(net)
    for net in (
        "0.0.0.0/8",
        "169.254.0.0/16",  # link-local, and the metadata of most clouds
        "100.100.100.200/32",  # metadata
        "168.63.129.16/32",  # metadata, in a public range
        "192.0.0.192/32",  # metadata
        "192.88.99.0/24",  # 6to4 relays
        "224.0.0.0/4",
        "240.0.0.0/4",
        "::/96",  # unspecified, loopback is judged before, IPv4-compatible
        "::ffff:0:0/96",  # IPv4-mapped
        "::ffff:0:0:0/96",  # IPv4-translated
        "64:ff9b::/96",  # NAT64
        "64:ff9b:1::/48",
        "2001::/32",  # Teredo
        "2002::/16",  # 6to4
        "fd00:ec2::254/128",  # metadata
        "fd20:ce::254/128",  # metadata
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
    )
)
_HOST = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*")
_NUMBER = re.compile(
    r"(0x[0-9a-f]*|[0-9]+)"
)  # what some resolvers read as an address although it is not written as one
_PRINTABLE = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class Target:
    """A URL taken apart: where to, and what the request says."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """As the header Host wants it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def target(url: str) -> Target:
    """Take a URL apart. Raises `ForbiddenTarget` for one that is not plainly written, or leads where nothing may."""
    if len(url) > MAX_URL or not _PRINTABLE.fullmatch(url):
        raise _no("is not a plain address of at most 2,000 printable ASCII characters")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise _no("is no address") from None
    if parts.scheme not in PORTS:
        raise _no("is not an https address")
    if parts.scheme == "http" and not settings.HITL_WEBHOOK_HTTP and not _is_opened(host):
        raise _no("is not https; HITL_WEBHOOK_HTTP allows http")
    if "@" in parts.netloc or parts.fragment or "\\" in url:
        raise _no("holds a user, a password, a fragment or a backslash")
    if port == 0:
        raise _no("names the port 0")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    found = Target(parts.scheme, host, port or PORTS[parts.scheme], path)
    _check_host(found.host)
    return found


def _is_opened(host: str) -> bool:
    """Whether a host is an address of a private network that was opened."""
    try:
        return any(ip_address(host) in net for net in opened())
    except ValueError:
        return False


def _check_host(host: str) -> None:
    if ":" in host:
        check_address(_address(host))
        return
    if not _HOST.fullmatch(host):
        raise _no("names no host in the usual way")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        check_address(_address(host))
    elif host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
        check_local_name(host)


def check_local_name(host: str) -> None:
    """A name of this machine or its own network: of use only where such networks were opened."""
    if not opened():
        raise _no(f"names {host}, which is not on the Internet")


def _address(text: str) -> Address:
    try:
        return ip_address(text)
    except ValueError:
        raise _no("writes an address in an odd way") from None


def check_address(address: Address) -> None:
    """Raises `ForbiddenTarget` for an address that is not on the public Internet, unless its network was opened."""
    hidden = isinstance(address, IPv6Address) and address.ipv4_mapped is not None
    if address.is_loopback and not hidden:
        inside = _is_in(address, opened())
    elif _is_in(address, NEVER) or address.is_multicast or getattr(address, "scope_id", None):
        raise _no(f"leads to {address}, which is never allowed")
    else:
        inside = address.is_global or _is_in(address, opened())
    if not inside:
        raise _no(
            f"leads to {address}, which is not on the Internet; HITL_WEBHOOK_ALLOWED_NETS opens networks"
        )


def _is_in(address: Address, nets: Sequence[Network]) -> bool:
    return any(address.version == net.version and address in net for net in nets)


def opened() -> tuple[Network, ...]:
    """The private networks that the environment opens."""
    return _networks(tuple(settings.HITL_WEBHOOK_ALLOWED_NETS))


@cache
def _networks(names: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ip_network(name) for name in names)


def system_resolver(host: str, port: int) -> list[str]:
    """Every address of a name, as the system finds them; those of IPv4 first."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return sorted({str(entry[4][0]) for entry in found}, key=lambda text: (":" in text, text))


_resolving: Final = ThreadPoolExecutor(RESOLVERS, thread_name_prefix="resolver")


def addresses(
    target: Target, *, resolver: Resolver | None = None, seconds: float = RESOLVE_SECONDS
) -> list[Address]:
    """The addresses of a target, each of them judged. One that is forbidden forbids the name.

    Raises `ForbiddenTarget`; a name that is not found, or not in time, raises `OSError`.
    """
    looked_up = _resolving.submit(resolver or system_resolver, target.host, target.port)
    try:
        found = [_address(text) for text in looked_up.result(timeout=seconds)]
    except TooSlow:
        raise TimeoutError(f"{target.host} was not looked up in time") from None
    except UnicodeError:
        raise _no("names no host in the usual way") from None
    if not found:
        raise OSError(f"{target.host} has no address")
    for address in found:
        check_address(address)
    return found


def check_url(url: str, *, resolver: Resolver | None = None) -> Target:
    """What is asked when a target is saved. A name that nobody knows just now is refused too."""
    found = target(url)
    try:
        addresses(found, resolver=resolver)
    except OSError:
        raise _no(f"names {found.host}, which is not found") from None
    return found


def _no(why: str) -> ForbiddenTarget:
    message = f"A webhook cannot go there: the address {why}."
    return ForbiddenTarget(message, errors=[Problem("/url", "forbidden_target", message)])
