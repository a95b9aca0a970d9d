"""Replies as bytes: bulk strings, the null reply, errors."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

OK = b"+OK\r\n"
NULL = b"$-1\r\n"
"""The answer of a FETCH without a job; an empty bulk string in its place makes some clients fail."""

LINE_TOO_LONG = "line too long"
BAD_PASSWORD = "Invalid password"  # noqa: S105  a message
NOT_UNIQUE = "NOTUNIQUE"
"""The only code of an error beside ``ERR``: some clients fail on any other."""

MOST_ECHOED = 64 << 10
"""Characters of a request that an error repeats at most."""

_LINE_ENDS = str.maketrans("\r\n", "  ")
_TO_ESCAPE = re.compile(r'[\\"\x00-\x1f\x7f]')
_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


def bulk(data: bytes) -> bytes:
    """Write a bulk string."""
    return b"$%d\r\n%b\r\n" % (len(data), data)


def error(text: str, code: str = "ERR") -> bytes:
    """Write an error; line ends in it become spaces."""
    return b"-%b %b\r\n" % (code.encode(), _line(text))


def refused_jobs(errors: Mapping[str, str]) -> bytes:
    """Write the answer of a PUSHB.

    Args:
        errors: The jid of each refused job to its error, without ``ERR``, but with any other code.
    """
    return bulk(msgspec.json.encode(dict(sorted(errors.items()))))


def echoed(argument: bytes | memoryview) -> str:
    """Make what came fit to be repeated in an error."""
    return bytes(argument[: 4 * MOST_ECHOED]).decode("utf-8", "replace")[:MOST_ECHOED]


def quoted(text: str) -> str:
    """Quote a value in an error: ``\\`` and ``"`` are escaped, and so is what cannot be printed."""
    text = text[:MOST_ECHOED]
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    escaped = _TO_ESCAPE.sub(lambda found: _ESCAPES.get(found[0]) or f"\\x{ord(found[0]):02x}", text)
    if not escaped.isprintable():
        escaped = "".join(letter if letter.isprintable() else _as_number(letter) for letter in escaped)
    return f'"{escaped}"'


def _as_number(letter: str) -> str:
    code = ord(letter)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _line(text: str) -> bytes:
    return text.translate(_LINE_ENDS).encode("utf-8", "replace")
