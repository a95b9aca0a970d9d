"""Header lists to request heads, and answers to header blocks; both are kept and found again by what they came from.

Source:
    RFC 9113 sections 8.1 to 8.3; RFC 9110 sections 5 and 7.2.
"""

from __future__ import annotations

import re
from functools import lru_cache

from anew.net.head import (
    Rule,
    answer_to,
    bad_host,
    bad_target,
    is_host,
    is_target,
    large_head,
    large_target,
    no_proxy,
    stated_length,
)
from anew.net.http2.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    Code,
    ConnectionFault,
    frame_head,
)
from anew.net.http2.hpack import Field, HeaderDecoder, encode_field, encode_status
from anew.net.seam import Headers, Refusal, WireLimits, bodiless

_token = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch
_lower_token = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+").fullmatch
_value = re.compile(rb"(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?").fullmatch
_digits = re.compile(rb"[0-9]+").fullmatch

_pseudo = frozenset((b":method", b":scheme", b":path", b":authority"))
_of_connections = frozenset(
    (b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade")
)

# Fields that were checked before: a new path then costs no check of the rest of its head.
_good: set[Field] = set()
_good_most = 1024
_good_bytes = 128

_known_most = 1024
_known_bytes = 2048

_answers_most = 2048

max_block_bytes = 1 << 15
"""Bytes of a header block over all its frames; above the limit of a head, so that 431 can be said."""

max_block_frames = 32
"""Frames of one header block (CVE-2024-27316 and its kin)."""


# ---- requests


class MalformedHead(Exception):
    """The list is not a request: RST_STREAM with PROTOCOL_ERROR (RFC 9113 section 8.1.1)."""


class Head:
    """A checked request head. Requests share it, so nobody changes it.

    Attributes:
        method: As sent.
        path: Raw path without the query.
        query: Raw query without the question mark.
        headers: As the seam wants them.
        length: Of content-length, `above_every_limit` for one of too many digits, -1 if there is none.
        expects: True if the client waits for "100 Continue" before it sends the body.
        refusal: The answer, if the request is refused for its head; the other attributes then say nothing but the method.
    """

    __slots__ = ("expects", "headers", "length", "method", "path", "query", "refusal")

    def __init__(self, method: bytes, path: bytes, query: bytes, headers: dict[bytes, bytes]) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        length = headers.get(b"content-length")
        self.length = -1 if length is None else stated_length(length)
        self.expects = b"expect" in headers and headers[b"expect"].lower() == b"100-continue"
        self.refusal: Refusal | None = None


def _refused(method: bytes, rule: Rule) -> Head:
    head = Head(method, b"", b"", {})
    head.refusal = answer_to(rule)
    return head


def _check_field(field: Field) -> None:
    name, value = field
    if _lower_token(name) is None:
        raise MalformedHead("a field name is empty, in upper case or not a token")
    if _value(value) is None:
        raise MalformedHead("a field value has control characters or blanks around it")
    if name in _of_connections or (name == b"te" and value.lower() != b"trailers"):
        raise MalformedHead("a field belongs to HTTP/1.1 connections only")
    if len(name) + len(value) <= _good_bytes:
        if len(_good) >= _good_most:
            _good.clear()
        _good.add(field)


def parse_head(fields: list[Field], limits: WireLimits) -> Head:
    """Check a request's header list and give what the seam needs of it.

    Raises:
        MalformedHead: It breaks a rule whose breach makes the message malformed.
    """
    pseudo: dict[bytes, bytes] = {}
    headers: dict[bytes, bytes] = {}
    hosts = 0
    for field in fields:
        name, value = field
        if name[:1] == b":":
            if headers or name in pseudo or name not in _pseudo:
                raise MalformedHead("a pseudo-header is unknown, given twice or behind a field")
            pseudo[name] = value
            continue
        if field not in _good:
            _check_field(field)
        if name == b"host":
            hosts += 1
        elif name == b"content-length" and (name in headers or _digits(value) is None):
            raise MalformedHead("content-length is given twice or is not a number")
        headers.setdefault(name, value)
    return _assemble(pseudo, headers, hosts, limits)


def _assemble(
    pseudo: dict[bytes, bytes], headers: dict[bytes, bytes], hosts: int, limits: WireLimits
) -> Head:
    method = pseudo.get(b":method", b"")
    if _token(method) is None:
        raise MalformedHead(":method is missing or not a token")
    if method == b"CONNECT":
        return _refused(method, no_proxy)
    target = pseudo.get(b":path", b"")
    if not target or _token(pseudo.get(b":scheme", b"")) is None:
        raise MalformedHead(":path or :scheme is missing or empty")
    if len(target) > limits.max_target:
        return _refused(method, large_target(limits))
    if not is_target(target, method):
        return _refused(method, bad_target)
    authority, host = pseudo.get(b":authority", b""), headers.get(b"host", b"")
    differ = hosts and authority and authority.lower() != host.lower()
    if hosts > 1 or differ or not (authority or host) or not is_host(authority or host):
        return _refused(method, bad_host)
    headers[b"host"] = authority or host
    path, _, query = target.partition(b"?")
    return Head(method, path, query, headers)


class HeaderBlock:
    """A block whose CONTINUATIONs are due.

    Attributes:
        stream_id: The stream.
        ends: Non-zero if the block's stream ends with it.
        data: What has come of the block.
    """

    __slots__ = ("_frames", "data", "ends", "stream_id")

    def __init__(self, stream_id: int, ends: int, data: bytes) -> None:
        self.stream_id = stream_id
        self.ends = ends
        self.data = bytearray(data)
        self._frames = 0

    def continues(self, kind: int, stream_id: int) -> bool:
        """Whether a frame is the CONTINUATION that is due; no other may come before it."""
        return kind == CONTINUATION and stream_id == self.stream_id

    def add(self, data: bytes) -> None:
        """Take a CONTINUATION.

        Raises:
            ConnectionFault: ENHANCE_YOUR_CALM.
        """
        self.data += data
        self._frames += 1
        if len(self.data) > max_block_bytes or self._frames > max_block_frames:
            reason = "a header block is too large or in too many pieces"
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, reason)


@lru_cache(maxsize=16)
def _known_heads(limits: WireLimits) -> tuple[dict[bytes, Head], dict[bytes, Head]]:
    """Give the heads that all connections with these limits know, by their blocks.

    A client's requests to one route mostly have the same block, byte for byte, once its table is empty. What
    is kept means the same on every connection, but for literals that ask to be inserted: they are without effect only
    where the table is closed. Hence two: for connections with an open table, and with a closed one.
    """
    return {}, {}


class HeadReader:
    """Reads one connection's header blocks.

    Attributes:
        decoder: The connection's.
        known: The heads of blocks that need not be read again.
    """

    __slots__ = ("_both", "_limits", "decoder", "known")

    def __init__(self, limits: WireLimits) -> None:
        self._limits = limits
        self._both = _known_heads(limits)
        self.decoder = HeaderDecoder()
        self.known = self._both[False]

    def read(self, block: bytes) -> Head:
        """Decode and check a block that is not among the known.

        Raises:
            ConnectionFault: The block cannot be decoded.
            MalformedHead: It is no request.
        """
        limits = self._limits
        fields = self._decode(block, limits.max_headers + len(_pseudo))
        if self.decoder.oversized:
            method = dict(fields).get(b":method", b"GET")  # HEAD must get no body here either
            return _refused(method, large_head(limits))
        head = parse_head(fields, limits)
        if self.decoder.stateless and len(block) <= _known_bytes:
            if len(self.known) >= _known_most:
                self.known.clear()
            self.known[block] = head
        return head

    def read_trailers(self, block: bytes) -> None:
        """Decode and check the fields after a body, which are not kept; the same errors as `read`."""
        fields = self._decode(block, self._limits.max_headers)
        if self.decoder.oversized:
            raise MalformedHead("the trailers are too large")
        for field in fields:
            _check_field(field)

    def _decode(self, block: bytes, max_fields: int) -> list[Field]:
        fields = self.decoder.decode(block, self._limits.max_head, max_fields)
        self.known = self._both[self.decoder.closed]
        return fields


# ---- answers

_Key = tuple[int, bytes | None, Headers, int]
# An answer's frames but for stream number and body: HEADERS' first 5 bytes; the block and DATA's first 5.
_Template = tuple[bytes, bytes]


class AnswerBlocks:
    """The header blocks of answers, each with its Date, for all connections of one port.

    Args:
        always: What every answer carries.

    Attributes:
        templates: What `template` has built since the last second began.
    """

    __slots__ = ("_always", "_date", "templates")

    def __init__(self, always: Headers = ()) -> None:
        self.templates: dict[_Key, _Template] = {}
        self._always = b"".join([encode_field(*field) for field in always])
        self._date = self._always

    def new_date(self, date: bytes) -> None:
        """Begin another second."""
        self._date = encode_field(b"date", date) + self._always
        self.templates.clear()

    def block(self, status: int, content_type: bytes | None, extra: Headers, length: int | None) -> bytes:
        """Build a header block; 204 and 304 have neither content type nor length, a stream has no length."""
        parts = [encode_status(status)]
        if content_type is not None and status not in bodiless:
            parts.append(encode_field(b"content-type", content_type))
        if length is not None and status not in bodiless:
            parts.append(encode_field(b"content-length", b"%d" % length))
        parts.append(self._date)
        parts += [encode_field(name, value) for name, value in extra]
        return b"".join(parts)

    def template(self, key: _Key) -> _Template:
        """Build and remember the frames of an answer with a body of one frame."""
        block = self.block(*key)
        length = key[3]
        head = frame_head.pack(len(block) >> 16, len(block) & 0xFFFF, HEADERS, END_HEADERS, 0)[:5]
        data = frame_head.pack(length >> 16, length & 0xFFFF, DATA, END_STREAM, 0)[:5]
        if len(self.templates) >= _answers_most:
            self.templates.clear()
        self.templates[key] = (head, block + data)
        return head, block + data
