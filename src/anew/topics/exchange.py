"""One HTTP exchange with a subscriber: what is sent, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

ExchangeError = Literal[
    "dns",  # its name has no address
    "refused",
    "reset",  # the connection ended before the answer did
    "unreachable",
    "tls",  # the handshake failed, or its certificate is not valid for its name
    "connect_timeout",  # nothing had been sent yet
    "timeout",  # the whole exchange took too long: it may have been processed
    "protocol",  # what came is no HTTP
    "blocked_address",  # the guard allows no address of it
    "invalid_request",  # its URL, or a header, cannot be sent
    "proxy",  # our own proxy does not work
]
"""Why no whole answer came."""

ATTEMPT_HEADERS = (
    "retry-after", "webhook-delivery", "webhook-challenge", "webhook-allowed-origin", "webhook-allowed-rate",
    "content-type", "date", "server",
)  # fmt: skip
"""The headers of an answer that are kept."""

EXCERPT_BYTES = 4_096
"""How much of an answer's body is kept."""

READ_BYTES = 65_536
"""How much of it is read at most."""


class Outgoing(Struct, frozen=True, kw_only=True):
    """What is sent.

    Attributes:
        url: Whole, as its owner wrote it.
        body: The exact bytes.
        headers: By name, as they are to be sent.
        timeout_ms: From the first look at its name to the last byte of the answer.
        connect_timeout_ms: For name, connection and TLS together.
        method: POST, or OPTIONS for the consent of CloudEvents.
    """

    url: str
    body: bytes
    headers: Mapping[str, str]
    timeout_ms: int
    connect_timeout_ms: int
    method: Literal["POST", "OPTIONS"] = "POST"


class Answer(Struct, frozen=True, kw_only=True):
    """What came of it.

    Attributes:
        status: Of HTTP; None where no head of an answer came.
        error: Why no whole answer came. Beside a status its body was cut off, or broken, or came too slowly. One that is only too
            long is no error.
        headers: Those of `ATTEMPT_HEADERS` that came, by lower-case name.
        excerpt: The first `EXCERPT_BYTES` of its body, as text; empty for a blocked address.
        address: Whom it was connected to; empty where it was not.
        duration_ms: Of the whole exchange.
        dns_ms, connect_ms, tls_ms, ttfb_ms: Its parts, where they took place; `ttfb_ms` is from the connection, which
            takes the request at once, to the head of the answer. None on a connection used before, but for `ttfb_ms`.
    """

    status: int | None = None
    error: ExchangeError | None = None
    headers: Mapping[str, str] = {}
    excerpt: str = ""
    address: str = ""
    duration_ms: int = 0
    dns_ms: int | None = None
    connect_ms: int | None = None
    tls_ms: int | None = None
    ttfb_ms: int | None = None
