"""Request heads: bytes in, a validated request line and header fields out, or a refusal. No socket here.

Framing is decided by the head alone, and strictly: whatever two parsers could read in two ways is refused,
because that is how a request is smuggled past a proxy (RFC 9112, 6 and 11.2). Every byte of a head is
validated by httptools; what that is known to let pass is checked beside it. The two halves of a head that a
client sends again and again, byte for byte, are remembered: comparing bytes is faster than parsing them.
"""

from __future__ import annotations

import re

from anew.net.http1.fields import Fields, FieldsParser, chunked_length
from anew.net.http1.line import Line, LineParser
from anew.net.http1.refused import Refused, bad_host, large_head, large_target, malformed
from anew.net.seam import WireLimits

cached_entries = 1024
cached_bytes = 1024
"""Bounds of what is remembered: this many of each half, none longer than this (so at most 2 MiB)."""

cached_line_bytes = 40
"""The same for lines: longer ones have a job's id in them and hardly come again."""

control_characters = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class HeadParser:
    """Parses heads for all connections of one server.

    Args:
        limits: `max_target`, `max_head`, `max_headers` and `max_body` bind.

    Attributes:
        lines: Remembered request lines, plain ones only.
        fields: Remembered blocks of header lines, plain ones only.
    """

    __slots__ = ("_fields_parser", "_limits", "_line_parser", "fields", "lines")

    def __init__(self, limits: WireLimits) -> None:
        self._limits = limits
        self._line_parser = LineParser(limits)
        self._fields_parser = FieldsParser(limits)
        self.lines: dict[bytes, Line] = {}
        self.fields: dict[bytes, Fields] = {}

    def line(self, raw: bytes) -> Line:
        """Parse a request line, given without its CRLF.

        Raises:
            Refused: 400, 414, 501 or 505.
        """
        return self.lines.get(raw) or self.plain_line(raw) or self._line_parser.parse(raw)

    def block(self, raw: bytes) -> Fields:
        """Parse a block of header lines, given without the CRLF of the last.

        Raises:
            Refused: 400, 413 or 431.
        """
        fields = self.fields.get(raw)
        if fields is None:
            fields = self._fields_parser.parse(raw)
            if fields.plain and len(raw) <= cached_bytes:
                if len(self.fields) >= cached_entries:
                    self.fields.clear()
                self.fields[raw] = fields
        return fields

    def plain_line(self, raw: bytes) -> Line | None:
        """Parse a request line that is not remembered; None if there is anything special about it, be it good or bad."""
        line = self._line_parser.parse_plain(raw)
        if line is not None and len(raw) <= cached_line_bytes:
            if len(self.lines) >= cached_entries:
                self.lines.clear()
            self.lines[raw] = line
        return line

    def plain_block(self, raw: bytes) -> Fields | None:
        """Parse a block of header lines; None if there is anything special about it, be it good or bad."""
        try:
            fields = self.block(raw)
        except Refused:
            return None
        return fields if fields.plain else None

    def unfinished(self, raw: bytes, seen: int = 0) -> None:
        """Look at a head of which the end has not come yet, so that a hopeless one is refused at once.

        Args:
            raw: All bytes of it so far.
            seen: How many of them were looked at before; a head that comes byte by byte is not searched anew
                for each.

        Raises:
            Refused: 400, 414 or 431.
        """
        limits = self._limits
        start = max(0, seen - 2)
        if start and raw[start] == 10:  # the LF of a CRLF that was found good
            start -= 1
        refuse_illegal(raw[start:].removesuffix(b"\r"))
        eol = raw.find(b"\r\n")
        if eol < 0:
            # 32 bytes cover the longest method, two spaces and the version.
            if len(raw) > 32 and b" " not in raw[:32]:
                raise malformed("a request begins with a method")
            if len(raw) > limits.max_target + 32:
                raise large_target(limits)
        elif len(raw) - eol - 2 > limits.max_head or raw.count(b"\r\n") - 1 > limits.max_headers:
            raise large_head(limits)


def refuse_illegal(raw: bytes) -> None:
    """Refuse what is nowhere in a head: control characters, a bare CR, a bare LF, folded lines.

    Raises:
        Refused: 400.
    """
    ends = raw.count(b"\r\n")
    bare = raw.count(b"\r") != ends or raw.count(b"\n") != ends
    if bare or b"\n " in raw or b"\n\t" in raw or control_characters.search(raw):
        raise malformed("a head has no control characters, bare CR or LF, or folded lines")


def check(line: Line, fields: Fields) -> Fields:
    """Check what line and fields say together.

    Returns:
        The fields, with the Host that counts.

    Raises:
        Refused: 400 or 417.
    """
    headers = fields.headers
    if line.modern:
        if b"host" not in headers:
            raise bad_host()
        if fields.expect not in (None, b"100-continue"):
            raise Refused(417, "expectation", "the only expectation that can be met is 100-continue")
    elif fields.length == chunked_length:
        raise Refused(400, "framing", "HTTP/1.0 has no Transfer-Encoding")
    if line.authority is None:
        return fields  # HTTP/1.0 may come without a Host
    # An absolute target's authority replaces the Host.
    changed = Fields({**headers, b"host": line.authority}, fields.length)
    changed.closes, changed.keeps, changed.expect = fields.closes, fields.keeps, fields.expect
    return changed
