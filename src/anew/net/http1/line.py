"""Request lines: bytes in, method, path and query out, or a refusal."""

from __future__ import annotations

import re

import httptools

from anew.net.http1.refused import Refused, bad_target, bad_version, large_target, malformed
from anew.net.seam import WireLimits

host_value = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]*)(?::[0-9]*)?")
"""A host and perhaps a port, as Host and an absolute target have it (RFC 3986, 3.2), without the comma."""

absolute_target = re.compile(rb"https?://([^/?#@]+)([/?][^#]*)?", re.IGNORECASE)
plain_line = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) (/[A-Za-z0-9/_.~%,=&?+:-]*) HTTP/1\.1")
"""Lines that no parser has anything to say about; the id in an acknowledgement's path makes each of them new."""

version_like = re.compile(rb"HTTP/[0-9]\.[0-9]")


class Line:
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


class LineParser:
    """Parses request lines with one parser: without header lines a message ends with its head.

    Args:
        limits: `max_target` binds.
    """

    __slots__ = ("_limits", "_parser")

    def __init__(self, limits: WireLimits) -> None:
        self._limits = limits
        self._parser = httptools.HttpRequestParser(object())

    def parse_plain(self, raw: bytes) -> Line | None:
        """Parse one line that no parser has anything to say about; None if it is another."""
        found = plain_line.fullmatch(raw)
        if found is None or len(raw) > self._limits.max_target:
            return None
        return Line(found[1], found[2], True, None)

    def parse(self, raw: bytes) -> Line:
        """Parse any line.

        Args:
            raw: The line without its CRLF.

        Raises:
            Refused: 400, 414, 501 or 505.
        """
        parts = raw.split(b" ")
        if len(parts) != 3:
            raise malformed("a request line is a method, a target and a version, with one space between")
        method, target, version = parts
        modern = version == b"HTTP/1.1"
        if not modern and version != b"HTTP/1.0":
            raise bad_version() if version_like.fullmatch(version) else malformed("a version is HTTP/1.1")
        if len(target) > self._limits.max_target:
            raise large_target(self._limits)
        if method == b"CONNECT":
            raise Refused(501, "method", "this is no proxy")
        if method == b"PRI":  # HTTP/2's preface: a parser would wait for the rest of that
            raise malformed("PRI is no method")
        try:
            self._parser.feed_data(raw + b"\r\n\r\n")
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._ask_fresh(raw)
        if not modern:
            self._renew()  # a parser takes nothing after a message that ends its connection
        if target[0] == 47 and b"#" not in target:  # 47 is "/"
            return Line(method, target, modern, None)
        if target == b"*" and method == b"OPTIONS":
            return Line(method, target, modern, None)
        return self._absolute(method, target, modern)

    def _ask_fresh(self, raw: bytes) -> None:
        """Refuse only what a parser without a past refuses too."""
        self._renew()
        try:
            self._parser.feed_data(raw + b"\r\n\r\n")
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._renew()
            raise malformed("the request line is malformed") from None

    def _renew(self) -> None:
        self._parser = httptools.HttpRequestParser(object())

    def _absolute(self, method: bytes, target: bytes, modern: bool) -> Line:
        found = absolute_target.fullmatch(target)
        if found is None or not host_value.fullmatch(found[1]):
            raise bad_target()
        rest = found[2] or (b"*" if method == b"OPTIONS" else b"/")
        return Line(method, b"/" + rest if rest.startswith(b"?") else rest, modern, found[1])
