"""JSON as the protocol reads it: faulty characters replaced, values that are kept as text checked and made compact.

What is kept may have many megabytes, so nothing here looks at it byte by byte in Python, and all work grows with its length.
"""

from __future__ import annotations

import re
from codecs import utf_8_decode
from collections.abc import Iterator
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

from anew.errors import MalformedRequest
from anew.jobs.payload_limits import MOST_DIGITS, judging

T = TypeVar("T")

WINDOW: Final = 1 << 20
"""Bytes of a text that are decoded at once: as characters they may take four times as much."""

_TO_LOOK_AT: Final = b" \t\r\neE"
"""What a text has that may be longer than it need be, or have a number that is too large."""
_LARGE_EXPONENT: Final = re.compile(rb"[eE]\+?[0-9]{3}")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_ESCAPES: Final = re.compile(rb"(?:\\(?:u[0-9a-fA-F]{4}|[^u]))+", re.DOTALL)

_any: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()


def repaired(line: bytes) -> bytes:
    """Replace what is not UTF-8 by U+FFFD."""
    if line.isascii():
        return line
    try:
        for _ in _decoded(line, "strict"):
            pass
    except UnicodeDecodeError:
        return b"".join(part.encode() for part in _decoded(line, "replace"))
    return line


def _decoded(text: bytes, errors: str) -> Iterator[str]:
    view, at = memoryview(text), 0
    while at < len(text):
        part, used = utf_8_decode(view[at : at + WINDOW], errors, at + WINDOW >= len(text))
        yield part
        at += used


def decode(decoder: msgspec.json.Decoder[T], text: bytes | memoryview) -> T:
    """Decode JSON that is UTF-8; escapes of lone surrogates read as U+FFFD.

    Raises:
        MalformedRequest: It is no JSON, of another shape, or deeper than the decoder goes; the message says which.
    """
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        if not _SURROGATE.search(text):
            raise _refused(error) from None
    try:
        return decoder.decode(_ESCAPE.sub(_paired, text))
    except (msgspec.DecodeError, RecursionError) as error:
        raise _refused(error) from None


def _refused(error: Exception) -> MalformedRequest:
    return MalformedRequest("nested too deeply" if isinstance(error, RecursionError) else str(error))


def _paired(escape: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if escape[1] else escape[0]


def kept(value: Raw, opening: bytes, name: str) -> bytes | None:
    """Check a value that is kept as text, and make it compact.

    Args:
        value: As decoded by `decode`; empty if it was absent.
        opening: How it has to begin: ``[`` or ``{``.
        name: What it is called in the error.

    Returns:
        It without space between its parts, all else as it came; None if it is absent or null.

    Raises:
        MalformedRequest: Of another type, too deep, or with a number beyond the largest float.
    """
    text = bytes(value)
    if text[:1] != opening:
        if not text or text == b"null":
            return None
        raise MalformedRequest(f"expected {'an array' if opening == b'[' else 'an object'} - at `$.{name}`")
    if len(text.translate(None, _TO_LOOK_AT)) == len(text) <= MOST_DIGITS:
        return text
    if len(text) > MOST_DIGITS or ((b"e" in text or b"E" in text) and _LARGE_EXPONENT.search(text)):
        for _ in judging(text, name):
            pass
    if b" " in text or b"\t" in text or b"\r" in text or b"\n" in text:
        return msgspec.json.format(text, indent=-1)
    return text


def unescaped(text: bytes) -> bytes:
    """Write the strings of valid JSON with as few escapes as can be, so that equal ones are equal bytes."""
    return _ESCAPES.sub(_plain, text) if b"\\u" in text or b"\\/" in text else text


def _plain(escapes: re.Match[bytes]) -> bytes:
    return msgspec.json.encode(_any.decode(b'"%b"' % escapes[0]))[1:-1]
