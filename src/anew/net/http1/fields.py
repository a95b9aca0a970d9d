"""Header fields: a block of header lines in, names and values and the body's framing out, or a refusal."""

from __future__ import annotations

from collections.abc import Iterable

import httptools

from anew.net.http1.line import host_value
from anew.net.http1.refused import (
    Refused,
    bad_encoding,
    bad_host,
    bad_length,
    large_body,
    large_head,
    malformed,
    two_framings,
)
from anew.net.seam import WireLimits

chunked_length = -1
"""`Fields.length` of a body that comes in chunks."""

names_known = 512
longest_known_name = 64

watched = frozenset((b"connection", b"content-length", b"host", b"transfer-encoding"))
rare = frozenset((b"connection", b"expect", b"transfer-encoding"))

skipped = bytes(64 << 10)
"""Stands for the body when a parser is to be used again."""


class Fields:
    """The header fields of one request and what they say about framing.

    Attributes:
        headers: Lower-case names to values, the first of each name. Shared between requests: read only.
        length: Bytes of body, or `chunked_length`.
        closes: ``Connection: close`` was said.
        keeps: ``Connection: keep-alive`` was said (matters for HTTP/1.0).
        expect: The Expect field in lower case, if any.
        plain: One Host, nothing said about closing, no expectation.
    """

    __slots__ = ("closes", "expect", "headers", "keeps", "length", "plain")

    def __init__(self, headers: dict[bytes, bytes], length: int) -> None:
        self.headers = headers
        self.length = length
        self.closes = self.keeps = False
        self.expect: bytes | None = None
        self.plain = b"host" in headers


class _Names(dict[bytes, bytes]):
    """Header names as sent to lower case; learns, within bounds."""

    def __missing__(self, raw: bytes) -> bytes:
        name = raw.lower()
        if len(raw) <= longest_known_name:
            if len(self) >= names_known:
                self.clear()
            self[raw] = name
        return name


class _Collector:
    """What a fresh parser calls: keeps every line, repeated names too."""

    __slots__ = ("lines",)

    def __init__(self) -> None:
        self.lines: list[tuple[bytes, bytes]] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.lines.append((name, value))


class _Listener:
    """What the parser for all blocks calls: a dictionary's own method, so that no Python runs for a line."""

    __slots__ = ("on_header",)

    def __init__(self, found: dict[bytes, bytes]) -> None:
        self.on_header = found.setdefault


class FieldsParser:
    """Parses blocks of header lines.

    Making a parser costs more than parsing, so one is used again and again. Whenever it refuses, or has found
    another number of names than there are lines, a fresh parser has the word.

    Args:
        limits: `max_head`, `max_headers` and `max_body` bind.
    """

    __slots__ = ("_found", "_limits", "_listener", "_names", "_parser")

    def __init__(self, limits: WireLimits) -> None:
        self._limits = limits
        self._names = _Names()
        self._found: dict[bytes, bytes] = {}
        self._listener = _Listener(self._found)
        self._parser = httptools.HttpRequestParser(self._listener)

    def parse(self, raw: bytes) -> Fields:
        """Parse one block.

        Args:
            raw: The lines without the CRLF of the last.

        Raises:
            Refused: 400, 413 or 431.
        """
        count = raw.count(b"\r\n") + 1 if raw else 0
        if len(raw) + 2 > self._limits.max_head or count > self._limits.max_headers:
            raise large_head(self._limits)
        found = self._found
        found.clear()
        try:
            self._parser.feed_data(_message(raw))
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            found.clear()
        if len(found) != count or not count:
            self._renew()
            return self._read(self._collect(raw, count))
        try:
            fields = self._read_quickly(count) or self._read(found.items())
        except Refused:
            self._renew()
            raise
        self._reuse(fields)
        return fields

    def _reuse(self, fields: Fields) -> None:
        """Bring the parser to the end of the message, where it takes another."""
        length = fields.length
        if fields.closes or not 0 <= length <= len(skipped):
            self._renew()
        elif length:
            self._parser.feed_data(skipped[:length])

    def _renew(self) -> None:
        self._parser = httptools.HttpRequestParser(self._listener)

    def _collect(self, raw: bytes, count: int) -> list[tuple[bytes, bytes]]:
        collector = _Collector()
        try:
            httptools.HttpRequestParser(collector).feed_data(_message(raw))
        except httptools.HttpParserUpgrade:
            pass  # the head is complete and valid; a server may ignore Upgrade (RFC 9110, 7.8), and we do
        except httptools.HttpParserError:
            raise _why_refused(raw) from None
        if len(collector.lines) != count:
            raise malformed("a header line is malformed")
        return collector.lines

    def _read_quickly(self, count: int) -> Fields | None:
        """Read what most clients send, or give None: there is more that must be looked at line by line."""
        names = self._names
        headers = {names[name]: value.rstrip(b" \t") for name, value in self._found.items()}
        if len(headers) != count or not rare.isdisjoint(headers):
            return None
        host, length = headers.get(b"host"), headers.get(b"content-length")
        if host is not None and not host_value.fullmatch(host):
            raise bad_host()
        return Fields(headers, 0 if length is None else self._length(length))

    def _read(self, lines: Iterable[tuple[bytes, bytes]]) -> Fields:
        names = self._names
        headers: dict[bytes, bytes] = {}
        length = 0
        connection = b""
        for raw_name, padded in lines:
            name = names[raw_name]
            value = padded.rstrip(b" \t")
            if name in watched:
                if name == b"connection":
                    connection += b"," + value
                elif name in headers:
                    raise _twice(name)
                elif name == b"content-length":
                    length = self._length(value)
                elif name == b"host":
                    if not host_value.fullmatch(value):
                        raise bad_host()
                else:
                    if value.lower() != b"chunked":
                        raise bad_encoding()
                    length = chunked_length
            if name not in headers:
                headers[name] = value
        if b"transfer-encoding" in headers and b"content-length" in headers:
            raise two_framings()
        return _with_manners(Fields(headers, length), connection)

    def _length(self, value: bytes) -> int:
        if not value.isdigit() or len(value) > 18:
            raise bad_length()
        length = int(value)
        if length > self._limits.max_body:
            raise large_body(self._limits)
        return length


def _message(block: bytes) -> bytes:
    """Give a parser something whole to parse."""
    return b"POST / HTTP/1.1\r\n%b\r\n" % (block and block + b"\r\n")


def _with_manners(fields: Fields, connection: bytes) -> Fields:
    """Note what Connection and Expect say."""
    tokens = [token.strip() for token in connection.lower().split(b",")]
    fields.closes = b"close" in tokens
    fields.keeps = b"keep-alive" in tokens
    expect = fields.headers.get(b"expect")
    if expect is not None:
        fields.expect = expect.lower()
    if fields.closes or expect is not None:
        fields.plain = False
    return fields


def _twice(name: bytes) -> Refused:
    if name == b"host":
        return bad_host()
    return bad_length() if name == b"content-length" else bad_encoding()


def _why_refused(raw: bytes) -> Refused:
    """Name the reason for the counter; the parser itself has decided already."""
    lower = b"\n" + raw.lower()
    has_length, has_encoding = b"\ncontent-length:" in lower, b"\ntransfer-encoding:" in lower
    if has_length and has_encoding:
        return two_framings()
    if has_length:
        return bad_length()
    return bad_encoding() if has_encoding else malformed("a header line is malformed")
