"""Requests as a peer of HTTP/1.1 writes them, byte by byte."""

from __future__ import annotations

get = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"


def post(body: bytes, path: bytes = b"/a", extra: bytes = b"") -> bytes:
    """A body of a stated length."""
    return b"POST %b HTTP/1.1\r\nHost: h\r\n%bContent-Length: %d\r\n\r\n%b" % (path, extra, len(body), body)


def fetch(path: bytes, extra: bytes = b"") -> bytes:
    """No body; further fields each with their line end."""
    return b"GET %b HTTP/1.1\r\nHost: h\r\n%b\r\n" % (path, extra)


def fields(raw: bytes, body: bytes = b"") -> bytes:
    """These fields, and behind them whatever is given."""
    return b"POST / HTTP/1.1\r\nHost: h\r\n" + raw + b"\r\n\r\n" + body


def chunks(raw: bytes) -> bytes:
    """A chunked body as it is given."""
    return fields(b"Transfer-Encoding: chunked", raw)
