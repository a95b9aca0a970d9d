"""What a subscriber may make us connect to, and which headers it may have sent: URLs, addresses and names are judged here.

Pure: names are resolved elsewhere (`anew.topics.resolver`). Section 3.9 of the contract is the source of the rules.
Python's own ``is_private`` and ``is_global`` do not serve: on 3.11 they pass 100.64.0.0/10, 64:ff9b::7f00:1 and 2002:7f00:1::.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal

from msgspec import Struct
from msgspec.structs import force_setattr

from anew.errors import BlockedAddress, InvalidConfig, InvalidInput

MAX_URL = 2_048
"""Characters of a URL."""

BLOCKED_TEXT = "the address is not allowed"
"""What is said of every address that is blocked, so that nobody learns what is behind it."""

BLOCKED_NETWORKS = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",  # carriers' NAT
    "127.0.0.0/8",
    "168.63.129.16/32",  # a cloud's host service, on a public address
    "169.254.0.0/16",  # link-local: the metadata services of clouds
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/96",  # unspecified, loopback, IPv4-compatible
    "64:ff9b::/96",  # NAT64
    "64:ff9b:1::/48",
    "100::/64",
    "2001::/23",  # Teredo is in it
    "2001:db8::/32",
    "2002::/16",  # 6to4
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
)
"""Addresses that nobody is delivered to, unless the operator allows it."""

RESERVED_NAMES = ("localhost", "local", "internal")
"""Neither these names nor any name below them."""

_FRAMING = ("host", "content-length", "transfer-encoding", "connection", "te", "upgrade", "proxy-*")
_METADATA = ("metadata-flavor", "x-aws-ec2-metadata-token*", "metadata")
_NOT_OURS_EITHER = (*_FRAMING, *_METADATA)
_OURS = ("webhook-*", "anew-*", "content-type", "user-agent")
"""With a star: whatever begins so."""

_URL = re.compile(r"(https?)://([^/?#]*)(/[^?#]*)?(\?[^#]*)?", re.ASCII | re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?", re.ASCII)
_UNPRINTABLE = re.compile(r"[^!-~]|[\\]")
_NAME = re.compile(
    r"(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?",
    re.ASCII,
)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")

_Address = IPv4Address | IPv6Address
_Range = tuple[int, int, int]
"""Version, first and last address of a network, as numbers."""


class GuardSettings(Struct, frozen=True, kw_only=True):
    """What the operator allows beyond the rules; no subscriber can.

    Attributes:
        allow_http: Whether plain http may be used.
        allow_cidrs: Networks whose addresses are allowed even where they are blocked, as "10.1.0.0/16".
        allow_hosts: Names or literal addresses that are allowed whatever they resolve to; "*.corp.internal" is every name below.

    Raises:
        InvalidConfig: A network is none.
    """

    allow_http: bool = False
    allow_cidrs: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "allow_hosts", tuple(map(_usual, self.allow_hosts)))
        for cidr in self.allow_cidrs:
            try:
                ip_network(cidr)
            except ValueError as error:
                raise InvalidConfig(
                    f"allow_cidrs: {cidr!r} is no network; expected one such as '10.1.0.0/16'",
                    field="allow_cidrs",
                    value=cidr,
                ) from error


class Target(Struct, frozen=True, kw_only=True):
    """What a URL points to.

    Attributes:
        url: In the form to request it: host in lower case and in ASCII, path and query as they were given.
        scheme: Of the URL.
        host: A name in ASCII without a last dot, or a literal address without brackets.
        port: As given, or the scheme's own.
        address: The literal address to connect to; None for a name, which has to be resolved.
    """

    url: str
    scheme: Literal["http", "https"]
    host: str
    port: int
    address: str | None = None


def judge_url(url: str, settings: GuardSettings, pointer: str = "") -> Target:
    """Give what a URL points to, if it may be delivered to.

    Args:
        url: As its owner wrote it.
        settings: What the operator allows.
        pointer: Where the URL stands in what was given, for the error's ``field``.

    Raises:
        BlockedAddress: Its host is an address, or a name, that nobody is delivered to.
        InvalidInput: It cannot be used in this form.
    """
    parts = _URL.fullmatch(url)
    if len(url) > MAX_URL or parts is None:
        raise _refused(
            pointer, url, f"expected https://host/path of at most {MAX_URL} characters, no fragment"
        )
    scheme: Literal["http", "https"] = "http" if parts[1].lower() == "http" else "https"
    if scheme == "http" and not settings.allow_http:
        raise _refused(pointer, url, "expected https")
    tail = (parts[3] or "/") + (parts[4] or "")
    if _UNPRINTABLE.search(tail):
        raise _refused(pointer, url, "expected a path and query of printable ASCII, all else percent-encoded")
    if "@" in parts[2]:
        raise _refused(pointer, url, "expected no user or password in it")
    authority = _AUTHORITY.fullmatch(parts[2])
    if authority is None or not authority[1]:
        raise _refused(pointer, url, "expected a host, perhaps with a port")
    port = int(authority[2]) if authority[2] else (80 if scheme == "http" else 443)
    if port not in (80, 443) and not 1_024 <= port <= 65_535:
        raise _refused(pointer, url, "expected port 80, 443, or 1024 to 65535")

    host, address = _judge_host(authority[1], url, pointer)
    named = f"[{host}]" if ":" in host else host
    shown = named if authority[2] is None else f"{named}:{port}"
    target = Target(
        url=f"{scheme}://{shown}{tail}",
        scheme=scheme,
        host=host,
        port=port,
        address=None if address is None else str(_plain(address)),
    )
    if not _is_allowed_host(host, settings):
        if target.address is not None:
            judge_addresses(target, (target.address,), settings, pointer)
        if any(host == name or host.endswith(f".{name}") for name in RESERVED_NAMES):
            raise BlockedAddress(BLOCKED_TEXT, field=pointer, value=url)
    return target


def judge_addresses(
    target: Target, addresses: Iterable[str], settings: GuardSettings, pointer: str = ""
) -> tuple[str, ...]:
    """Give the addresses that a target's name has, each in the form to connect to, if all of them are allowed.

    Raises:
        BlockedAddress: One of them is not allowed, or is no address; whichever it is, the text is the same.
    """
    free = _is_allowed_host(target.host, settings)
    checked = []
    for text in addresses:
        plain, blocked = _verdict(text, settings.allow_cidrs)
        if plain == "" or (blocked and not free):
            raise BlockedAddress(BLOCKED_TEXT, field=pointer, value=target.url)
        checked.append(plain)
    return tuple(checked)


def can_be_sent(headers: Mapping[str, str]) -> bool:
    """Say whether a request's headers, ours included, leave its framing alone."""
    return not _CONTROL.search("".join(headers.values())) and all(
        _is_sendable(name, _NOT_OURS_EITHER) for name in headers
    )


def may_be_set(name: str) -> bool:
    """Say whether a text is the name of a header that a policy may have: Anew writes some, the connection or a cloud's host
    service heeds others."""
    return _is_sendable(name, (*_NOT_OURS_EITHER, *_OURS))


def plain_address(text: str) -> str:
    """Give an address in its one usual form, an IPv4-mapped one as IPv4; "" for what is none."""
    return _verdict(text, ())[0]


def _refused(pointer: str, url: str, expected: str) -> InvalidInput:
    return InvalidInput(f"URL {url[:200]!r}: {expected}", field=pointer, value=url)


def _judge_host(text: str, url: str, pointer: str) -> tuple[str, _Address | None]:
    """Give a host in its one usual form, and the address that it is, if it is one."""
    if text.startswith("["):
        try:
            address = IPv6Address("" if "%" in text else text[1:-1])
        except ValueError:
            raise _refused(pointer, url, "expected an IPv6 address without a zone in the brackets") from None
        return str(address), address
    host = _in_ascii(text).lower().removesuffix(".")
    if _NAME.fullmatch(host) is None:
        raise _refused(pointer, url, "expected the name of a host")
    # Whatever resolves a name takes one that ends in a number as an address, in whatever form: 0x7f.1, 2130706433.
    if _NUMBER.fullmatch(host.rpartition(".")[2]) is None:
        return host, None
    try:
        ipv4 = IPv4Address(host)
    except ValueError:
        raise _refused(pointer, url, "expected an IPv4 address as four decimal numbers") from None
    return str(ipv4), ipv4


def _in_ascii(host: str) -> str:
    """Give a name as IDNA 2008 writes it; "" where it cannot."""
    if host.isascii():
        return host
    import idna  # comes with aiohttp; a server without topics does without

    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except UnicodeError:
        return ""


def _usual(allowed: str) -> str:
    """Give an allowed host in the form in which `judge_url` gives one."""
    star = "*." if allowed.startswith("*.") else ""
    return star + _in_ascii(allowed.removeprefix(star).strip("[]")).lower().removesuffix(".")


def _is_allowed_host(host: str, settings: GuardSettings) -> bool:
    return any(
        host.endswith(allowed[1:]) if allowed.startswith("*.") else host == allowed
        for allowed in settings.allow_hosts
    )


def _plain(address: _Address) -> _Address:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def _ranges(networks: Iterable[str]) -> tuple[_Range, ...]:
    parsed: list[IPv4Network | IPv6Network] = [ip_network(text) for text in networks]
    return tuple((one.version, int(one.network_address), int(one.broadcast_address)) for one in parsed)


_BLOCKED = _ranges(BLOCKED_NETWORKS)


def _is_in(address: _Address, ranges: Collection[_Range]) -> bool:
    version, number = address.version, int(address)
    return any(version == of and first <= number <= last for of, first, last in ranges)


@lru_cache(maxsize=16_384)
def _verdict(text: str, allow_cidrs: tuple[str, ...]) -> tuple[str, bool]:
    """Give an address in its one usual form, "" for what is none, and whether it is blocked."""
    try:
        address = _plain(ip_address("" if "%" in text else text))
    except ValueError:
        return "", True
    return str(address), _is_in(address, _BLOCKED) and not _is_in(address, _ranges(allow_cidrs))


@lru_cache(maxsize=4_096)
def _is_sendable(name: str, denied: tuple[str, ...]) -> bool:
    """Say whether a text is a header's name, and not one of those denied."""
    lower = name.lower()
    return _TOKEN.fullmatch(name) is not None and not any(
        lower.startswith(one[:-1]) if one.endswith("*") else lower == one for one in denied
    )
