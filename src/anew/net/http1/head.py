"""Request heads: bytes in, a validated request line and header fields out, or a refusal. No socket here.

Framing is decided by the head alone, and strictly: whatever two parsers could read in two ways is refused, because that is how a
request is smuggled past a proxy (RFC 9112, 6 and 11.2). A head is checked against RFC 9112's grammar byte by byte; the lenient
parts of that grammar (folded lines, bare LF, white space before a colon, lists of equal lengths) are refused as well. The two
halves of a head that a client sends again and again are remembered: comparing bytes is faster than parsing them.
"""

from __future__ import annotations

import re

from anew.errors import MalformedRequest
from anew.net.head import (
    Rule,
    bad_host,
    bad_target,
    is_host,
    is_target,
    large_body,
    large_head,
    large_target,
    no_proxy,
    stated_length,
)
from anew.net.seam import WireLimits

cached_entries = 1024
cached_bytes = 1024
"""Bounds of what is remembered: this many of each half, none longer than this (so at most 2 MiB)."""

cached_line_bytes = 40
"""The same for lines: longer ones have a job's id in them and hardly come again."""

chunked_length = -1
"""`Fields.length` of a body that comes in chunks."""

plain_line = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) (/[A-Za-z0-9/_.~%,=&?+:-]*) HTTP/1\.1")
"""Lines with nothing special about them; the id in an acknowledgement's path makes each of them new."""

any_line = re.compile(rb"([A-Z][A-Z-]{0,31}) ([!-~]+) HTTP/([0-9])\.([0-9])")
absolute_target = re.compile(rb"https?://([^/?#@]+)([/?][!\"$-~]*)?", re.IGNORECASE)
field_line = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t -~\x80-\xff]*)")

given_once = frozenset((b"content-length", b"host", b"transfer-encoding"))


class Refused(MalformedRequest):
    """A request that is answered by the wire itself, after which the connection closes.

    Args:
        status: HTTP status of the answer.
        reason: Short fixed word for the counter.
        message: What was expected; goes into the answer's body, so it holds nothing from the peer.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


bad_encoding = (400, "transfer_encoding", "the only Transfer-Encoding is one chunked")
bad_field = (400, "malformed", "a header line is a name, a colon and a value without control characters")
bad_length = (400, "content_length", "a request has one Content-Length, a plain decimal number")
bad_line = (400, "malformed", "a request line is a method, a target and a version, with one space between")
bad_version = (505, "version", "this port speaks HTTP/1.0, HTTP/1.1 and HTTP/2")
two_framings = (400, "framing", "a request has a Content-Length or a Transfer-Encoding, not both")
"""Arguments of `Refused`, as those of `anew.net.head`."""


class RequestLine:
    """One request line.

    Attributes:
        modern: HTTP/1.1 (True) or HTTP/1.0.
        authority: Host and port of an absolute target; it overrides the Host field (RFC 9112, 3.2.2).
        plain: HTTP/1.1, a path for target, not HEAD: nothing special about the answer.
    """

    __slots__ = ("authority", "method", "modern", "path", "plain", "query")

    def __init__(self, method: bytes, target: bytes, modern: bool, authority: bytes | None) -> None:
        self.method = method
        self.path, _, self.query = target.partition(b"?")
        self.modern = modern
        self.authority = authority
        self.plain = modern and authority is None and method != b"HEAD"


class Fields:
    """The header fields of one request and what they say about framing.

    Attributes:
        headers: Lower-case names to values, the first of each name. Shared between requests: read only.
        length: Bytes of body, or `chunked_length`.
        closes: ``Connection: close`` was said.
        keeps: ``Connection: keep-alive`` was said (matters for HTTP/1.0).
        upgrades: ``Connection: upgrade`` was said.
        expect: The Expect field in lower case, if any.
        plain: One Host, nothing said about closing, no expectation.
    """

    __slots__ = ("closes", "expect", "headers", "keeps", "length", "plain", "upgrades")

    def __init__(self, headers: dict[bytes, bytes], length: int, connection: bytes = b"") -> None:
        self.headers = headers
        self.length = length
        tokens = [token.strip() for token in connection.lower().split(b",")] if connection else ()
        self.closes = b"close" in tokens
        self.keeps = b"keep-alive" in tokens
        self.upgrades = b"upgrade" in tokens
        expect = headers.get(b"expect")
        self.expect = None if expect is None else expect.lower()
        self.plain = b"host" in headers and not self.closes and expect is None


class HeadParser:
    """Parses heads for all HTTP/1 connections of one port.

    Args:
        limits: `max_target`, `max_head`, `max_headers` and `max_body` bind.

    Attributes:
        lines: Remembered request lines, plain ones only.
        fields: Remembered blocks of header lines, plain ones only.
    """

    __slots__ = ("_limits", "fields", "lines")

    def __init__(self, limits: WireLimits) -> None:
        self._limits = limits
        self.lines: dict[bytes, RequestLine] = {}
        self.fields: dict[bytes, Fields] = {}

    def line(self, raw: bytes) -> RequestLine:
        """Parse a request line, given without its CRLF.

        Raises:
            Refused: 400, 414, 501 or 505.
        """
        return self.lines.get(raw) or self.plain_line(raw) or parse_line(raw, self._limits)

    def plain_line(self, raw: bytes) -> RequestLine | None:
        """Parse a request line that is not remembered; None if there is anything special about it, be it good or bad."""
        found = plain_line.fullmatch(raw)
        if found is None or len(raw) > self._limits.max_target:
            return None
        line = RequestLine(found[1], found[2], True, None)
        if len(raw) <= cached_line_bytes:
            if len(self.lines) >= cached_entries:
                self.lines.clear()
            self.lines[raw] = line
        return line

    def block(self, raw: bytes) -> Fields:
        """Parse a block of header lines, given without the CRLF of the last.

        Raises:
            Refused: 400, 413 or 431.
        """
        fields = self.fields.get(raw)
        if fields is None:
            fields = parse_fields(raw, self._limits)
            if fields.plain and len(raw) <= cached_bytes:
                if len(self.fields) >= cached_entries:
                    self.fields.clear()
                self.fields[raw] = fields
        return fields

    def plain_block(self, raw: bytes) -> Fields | None:
        """Parse a block of header lines; None if there is anything special about it, be it good or bad."""
        try:
            fields = self.block(raw)
        except Refused:
            return None
        return fields if fields.plain else None

    def unfinished(self, raw: bytes) -> None:
        """Look at a head of which the end has not come yet: no other protocol's bytes are waited for, and none that are too many.

        Raises:
            Refused: 400, 414 or 431.
        """
        limits = self._limits
        if raw != b"\r" and not b"A" <= raw[:1] <= b"Z":  # an empty line may come before it
            raise Refused(*bad_line)
        eol = raw.find(b"\r\n", 0, limits.max_target + 32)  # the longest method, two spaces and the version
        if eol < 0 and len(raw) > limits.max_target + 32:
            raise Refused(*large_target(limits))
        if eol >= 0 and (len(raw) - eol - 2 > limits.max_head or raw.count(b"\r\n") > limits.max_headers + 1):
            raise Refused(*large_head(limits))


def parse_line(raw: bytes, limits: WireLimits) -> RequestLine:
    """Parse any request line; the same errors as `HeadParser.line`."""
    found = any_line.fullmatch(raw)
    if found is None:
        raise Refused(*bad_line)
    method, target, major, minor = found.groups()
    if major != b"1" or minor not in b"01":
        raise Refused(*bad_version)
    if len(target) > limits.max_target:
        raise Refused(*large_target(limits))
    if method == b"CONNECT":
        raise Refused(*no_proxy)
    modern = minor == b"1"
    if is_target(target, method):
        return RequestLine(method, target, modern, None)
    absolute = absolute_target.fullmatch(target)
    if absolute is None or not is_host(absolute[1]):
        raise Refused(*bad_target)
    rest = absolute[2] or (b"*" if method == b"OPTIONS" else b"/")
    return RequestLine(method, b"/" + rest if rest.startswith(b"?") else rest, modern, absolute[1])


def parse_fields(raw: bytes, limits: WireLimits) -> Fields:
    """Parse a block of header lines; the same errors as `HeadParser.block`."""
    lines = raw.split(b"\r\n") if raw else []
    if len(raw) + 2 > limits.max_head or len(lines) > limits.max_headers:
        raise Refused(*large_head(limits))
    headers: dict[bytes, bytes] = {}
    connection = b""
    for line in lines:
        found = field_line.fullmatch(line)
        if found is None:
            raise Refused(*bad_field)
        name, value = found[1].lower(), found[2].strip(b" \t")
        if name == b"connection":
            connection += b"," + value
        if name not in headers:
            headers[name] = value
        elif name in given_once:
            raise Refused(*_twice(name))
    host = headers.get(b"host")
    if host is not None and not is_host(host):
        raise Refused(*bad_host)
    return Fields(headers, _body_length(headers, limits), connection)


def check(line: RequestLine, fields: Fields) -> Fields:
    """Check what line and fields say together.

    Returns:
        The fields, with the Host that counts. HTTP/1.0 may come without one.

    Raises:
        Refused: 400 or 417.
    """
    headers = fields.headers
    if line.modern:
        if b"host" not in headers:
            raise Refused(*bad_host)
        if fields.expect not in (None, b"100-continue"):
            raise Refused(417, "expectation", "the only expectation that can be met is 100-continue")
    elif fields.length == chunked_length:
        raise Refused(400, "framing", "HTTP/1.0 has no Transfer-Encoding")
    if line.authority is None:
        return fields
    # An absolute target's authority replaces the Host.
    changed = Fields({**headers, b"host": line.authority}, fields.length)
    changed.closes, changed.keeps = fields.closes, fields.keeps
    return changed


def _twice(name: bytes) -> Rule:
    if name == b"host":
        return bad_host
    return bad_length if name == b"content-length" else bad_encoding


def _body_length(headers: dict[bytes, bytes], limits: WireLimits) -> int:
    given = headers.get(b"content-length")
    encoding = headers.get(b"transfer-encoding")
    if encoding is not None:
        if given is not None:
            raise Refused(*two_framings)
        if encoding.lower() != b"chunked":
            raise Refused(*bad_encoding)
        return chunked_length
    if given is None:
        return 0
    if not given.isdigit():
        raise Refused(*bad_length)
    length = stated_length(given)
    if length > limits.max_body:
        raise Refused(*large_body(limits))
    return length
