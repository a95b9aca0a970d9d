"""JSON as the protocol reads it: faulty characters replaced, values that are kept as text checked and made compact.

What is kept may have many megabytes, so nothing here looks at it byte by byte in Python, all work grows with its length, and what
takes long is a work in chunks.
"""

from __future__ import annotations

import re
from codecs import utf_8_decode
from collections.abc import Iterator
from io import BytesIO
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

from anew.errors import MalformedRequest
from anew.jobs.payload_limits import MOST_DIGITS, judging
from anew.net.chunks import Work, at_once

T = TypeVar("T")

WINDOW: Final = 64 << 10
"""Bytes of a text that are decoded in one go, 3 ms if none of them is UTF-8."""

ESCAPES: Final = 2_000
"""Escapes that are looked at in one go, some 1 ms."""

_TO_LOOK_AT: Final = b" \t\r\neE"
"""What a text has that may be longer than it need be, or have a number that is too large."""
_LARGE_EXPONENT: Final = re.compile(rb"[eE]\+?[0-9]{3}")
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_ESCAPES: Final = re.compile(rb"(?:\\(?:u[0-9a-fA-F]{4}|[^u]))+", re.DOTALL)

_any: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()


def repaired(line: bytes) -> bytes:
    """Replace what is not UTF-8 by U+FFFD."""
    return line if line.isascii() else at_once(repairing(line))


def repairing(line: bytes) -> Work[bytes]:
    """Do what `repaired` does, a window at a time."""
    if line.isascii():
        return line
    try:
        for _ in _decoded(line, "strict"):
            yield
    except UnicodeDecodeError:
        parts: list[bytes] = []
        for part in _decoded(line, "replace"):
            parts.append(part.encode())
            yield
        return b"".join(parts)
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
    except (msgspec.DecodeError, RecursionError):
        return at_once(decoding(decoder, text))  # which meets it again


def decoding(decoder: msgspec.json.Decoder[T], text: bytes | memoryview) -> Work[T]:
    """Do what `decode` does, in chunks but for the decoder's own work: 2 ms a mebibyte at most where values are left as text."""
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        refused = _refused(error)
    paired = yield from _pairing(text)
    if paired is None:
        raise refused
    try:
        return decoder.decode(paired)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _refused(error) from None


def _pairing(text: bytes | memoryview) -> Work[bytes | None]:
    """Replace the escapes of lone surrogates by that of U+FFFD; None if there are none."""
    paired, at = BytesIO(), 0
    for number, escape in enumerate(_ESCAPE.finditer(text)):
        if not number % ESCAPES:
            yield
        if escape[1]:
            paired.write(text[at : escape.start()])
            paired.write(b"\\ufffd")
            at = escape.end()
    if not at:
        return None
    paired.write(text[at:])
    return paired.getvalue()


def _refused(error: Exception) -> MalformedRequest:
    return MalformedRequest("nested too deeply" if isinstance(error, RecursionError) else str(error))


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
    if (
        text[:1] == opening
        and len(text) <= MOST_DIGITS
        and len(text.translate(None, _TO_LOOK_AT)) == len(text)
    ):
        return text
    return at_once(keeping(value, opening, name))


def keeping(value: Raw, opening: bytes, name: str) -> Work[bytes | None]:
    """Do what `kept` does, in chunks but for taking out space: 5 ms a mebibyte."""
    text = bytes(value)
    if text[:1] != opening:
        if not text or text == b"null":
            return None
        raise MalformedRequest(f"expected {'an array' if opening == b'[' else 'an object'} - at `$.{name}`")
    if len(text) > MOST_DIGITS or ((b"e" in text or b"E" in text) and _LARGE_EXPONENT.search(text)):
        yield from judging(text, name)
    if b" " in text or b"\t" in text or b"\r" in text or b"\n" in text:
        yield
        return msgspec.json.format(text, indent=-1)
    return text


def unescaped(text: bytes) -> bytes:
    """Write the strings of valid JSON with as few escapes as can be, so that equal ones are equal bytes."""
    return _ESCAPES.sub(_plain, text) if b"\\u" in text or b"\\/" in text else text


def _plain(escapes: re.Match[bytes]) -> bytes:
    return msgspec.json.encode(_any.decode(b'"%b"' % escapes[0]))[1:-1]
