"""What the server and its helper process say to each other: MessagePack, each message behind its length."""

from __future__ import annotations

from typing import Final

import msgspec

LENGTH_BYTES: Final = 4
MAX_ANSWER: Final = 32 << 20
"""Bytes of one answer; a page has a few hundred thousand."""


class Ask(msgspec.Struct, frozen=True, array_like=True):
    """A page to be made.

    Attributes:
        query: The raw query string, which holds the whole state.
        partial: Only what changes when a value changes, for a page that is open already.
        problem: Why nothing can be computed; the page then shows the form and this sentence. "" computes.
    """

    query: bytes
    partial: bool = False
    problem: str = ""


class Made(msgspec.Struct, frozen=True, array_like=True):
    """A page.

    Attributes:
        html: Its bytes; empty if it could not be made.
        problem: Why there is none, for people; "" if there is.
        trace: The same for the log; "" if nothing is wrong with the program.
    """

    html: bytes
    problem: str = ""
    trace: str = ""


def framed(message: msgspec.Struct) -> bytes:
    """Give a message as it goes through a pipe."""
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


READY: Final = Made(b"ready")
"""What the helper says first: all it needs is loaded, and its bounds are set."""
