"""Parsers that are used again and again and remember heads say what fresh ones would."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from anew.net.http1.head import HeadParser, Refused, cached_bytes, cached_entries
from anew.net.seam import WireLimits

limits = WireLimits(max_body=100_000, max_headers=6)

field_lines = st.sampled_from(
    [
        b"Host: h",
        b"host: h",
        b"Host: a b",
        b"A: b",
        b"a: c \t",
        b"B:",
        b"Content-Length: 0",
        b"Content-Length: 3",
        b"content-length: 90000",
        b"Content-Length: 100001",
        b"Content-Length: +3",
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: gzip, chunked",
        b"Connection: close",
        b"Connection: keep-alive",
        b"Connection: Upgrade",
        b"Connection: upgrade, close",
        b"Upgrade: h2c",
        b"Expect: 100-continue",
        b" folded",
        b"A : b",
        b"A: \0",
        b"A: b\nC: d",
        b"A: b\rC: d",
        b"Proxy-Connection: close",
    ]
)
blocks = st.lists(field_lines, max_size=7).map(b"\r\n".join)
request_lines = st.sampled_from(
    [
        b"GET / HTTP/1.1",
        b"POST /a?b HTTP/1.1",
        b"GET / HTTP/1.0",
        b"HEAD / HTTP/1.1",
        b"PRI * HTTP/1.1",
        b"PRI * HTTP/2.0",
        b"CONNECT a:1 HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"GET http://h/ HTTP/1.1",
        b"GET  / HTTP/1.1",
        b"FOO / HTTP/1.1",
        b"GET /\0 HTTP/1.1",
        b"GET /\r HTTP/1.1",
        b"SOURCE /ice HTTP/1.1",
        b"",
    ]
)


def read_line(parser: HeadParser, raw: bytes) -> object:
    try:
        line = parser.line(raw)
    except Refused as refused:
        return refused.status, refused.reason
    return line.method, line.path, line.query, line.modern, line.authority, line.plain


def read_block(parser: HeadParser, raw: bytes) -> object:
    try:
        fields = parser.block(raw)
    except Refused as refused:
        return refused.status, refused.reason
    return fields.headers, fields.length, fields.closes, fields.keeps, fields.expect, fields.plain


@given(st.lists(st.tuples(request_lines, blocks), min_size=2, max_size=8))
@settings(max_examples=300, deadline=None)
def test_what_came_before_does_not_matter(heads: list[tuple[bytes, bytes]]) -> None:
    used = HeadParser(limits)
    for line, block in heads:
        assert read_line(used, line) == read_line(HeadParser(limits), line)
        assert read_block(used, block) == read_block(HeadParser(limits), block)
        assert (used.plain_line(line) is not None) == (
            read_line(used, line)
            in (
                (b"GET", b"/", b"", True, None, True),
                (b"POST", b"/a", b"b", True, None, True),
            )
        )


def test_what_is_remembered_is_bounded() -> None:
    parser = HeadParser(WireLimits())
    for n in range(3 * cached_entries):
        parser.line(b"GET /%d HTTP/1.1" % n)
        parser.block(b"Host: h\r\nX: %d" % n)
        assert max(len(parser.lines), len(parser.fields)) <= cached_entries
    long = b"x" * cached_bytes
    assert parser.line(b"GET /" + long + b" HTTP/1.1").path == b"/" + long
    assert parser.block(b"Host: h\r\nX: " + long).headers[b"x"] == long
    assert all(len(raw) <= cached_bytes for raw in (*parser.lines, *parser.fields))


def test_a_line_with_an_id_is_read_and_not_remembered() -> None:
    parser = HeadParser(WireLimits())
    line = parser.plain_line(b"POST /jobs/0k3v9x2mz00000000000000ff/success HTTP/1.1")
    assert line is not None
    assert line.path == b"/jobs/0k3v9x2mz00000000000000ff/success"
    assert not parser.lines
    assert parser.plain_line(b"POST /jobs HTTP/1.1") is parser.lines[b"POST /jobs HTTP/1.1"]


def test_only_plain_heads_are_remembered() -> None:
    parser = HeadParser(WireLimits())
    for line in (b"HEAD / HTTP/1.1", b"GET / HTTP/1.0", b"GET http://h/ HTTP/1.1"):
        parser.line(line)
    for block in (
        b"",
        b"Host: h\r\nConnection: close",
        b"Host: h\r\nExpect: x",
    ):
        parser.block(block)
    assert not parser.lines
    assert not parser.fields


pieces = st.one_of(
    st.binary(max_size=6),
    st.sampled_from(
        [b"Host: h", b"\r\n", b"\r", b"\n", b": ", b"Content-Length", b"chunked", b" ", b"GET / HTTP/1.1"]
    ),
)


@given(st.lists(pieces, max_size=12).map(b"".join))
@settings(max_examples=500, deadline=None)
def test_reliability_43_any_bytes_are_a_head_or_a_refusal(raw: bytes) -> None:
    """What is accepted has one reading: lines end with CRLF alone, names are tokens, values have no control characters."""
    parser = HeadParser(limits)
    read_line(parser, raw)
    fields = read_block(parser, raw)
    if isinstance(fields, tuple) and isinstance(fields[0], dict):
        for line in raw.split(b"\r\n") if raw else []:
            name, colon, value = line.partition(b":")
            assert colon
            assert name.lower() in fields[0]
            assert name.strip(b" \t\r\n\0") == name
            assert not any(byte < 32 and byte != 9 for byte in value)
