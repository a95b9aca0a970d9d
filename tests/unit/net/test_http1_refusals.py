"""What HTTP/1.1 refuses, raw bytes on real sockets: malformed, smuggled, too large."""

from __future__ import annotations

import asyncio
import json

import pytest

from anew.clock import ManualClock
from anew.net.http1 import lingering
from anew.net.http1.connection import Http1Connection
from anew.net.seam import WireLimits
from tests.unit.net.http1_peer import chunks, fetch, fields, get, post
from tests.unit.net.loopback import Client, Site, limit_s, on_site, run, until


def line(raw: bytes) -> bytes:
    return raw + b"\r\nHost: h\r\n\r\n"


refusals: dict[str, tuple[int, str, bytes]] = {
    "length beside chunks": (
        400,
        "framing",
        fields(b"Content-Length: 3\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"),
    ),
    "chunks beside length": (
        400,
        "framing",
        fields(b"Transfer-Encoding: chunked\r\nContent-Length: 3", b"0\r\n\r\n"),
    ),
    "two lengths": (400, "content_length", fields(b"Content-Length: 3\r\nContent-Length: 4", b"abcd")),
    "two equal lengths": (400, "content_length", fields(b"Content-Length: 3\r\ncontent-length: 3", b"abc")),
    "two equal lengths spelled alike": (
        400,
        "content_length",
        fields(b"Content-Length: 3\r\nContent-Length: 3", b"abc"),
    ),
    "list of lengths": (400, "content_length", fields(b"Content-Length: 5, 5", b"abcde")),
    "plus": (400, "content_length", fields(b"Content-Length: +5", b"abcde")),
    "minus": (400, "content_length", fields(b"Content-Length: -1")),
    "hexadecimal length": (400, "content_length", fields(b"Content-Length: 0x5", b"abcde")),
    "empty length": (400, "content_length", fields(b"Content-Length: ")),
    "length with a space inside": (400, "content_length", fields(b"Content-Length: 1 2", b"abc")),
    "overflowing length": (413, "body_size", fields(b"Content-Length: 18446744073709551617")),
    "gzip, chunked": (400, "transfer_encoding", fields(b"Transfer-Encoding: gzip, chunked", b"0\r\n\r\n")),
    "chunked, chunked": (
        400,
        "transfer_encoding",
        fields(b"Transfer-Encoding: chunked, chunked", b"0\r\n\r\n"),
    ),
    "chunked twice": (
        400,
        "transfer_encoding",
        fields(b"Transfer-Encoding: chunked\r\nTransfer-encoding: chunked", b"0\r\n\r\n"),
    ),
    "xchunked": (400, "transfer_encoding", fields(b"Transfer-Encoding: xchunked", b"0\r\n\r\n")),
    "identity": (400, "transfer_encoding", fields(b"Transfer-Encoding: identity")),
    "empty encoding": (400, "transfer_encoding", fields(b"Transfer-Encoding:")),
    "vertical tab before chunked": (
        400,
        "malformed",
        fields(b"Transfer-Encoding: \x0bchunked", b"0\r\n\r\n"),
    ),
    "quoted chunked": (400, "transfer_encoding", fields(b'Transfer-Encoding: "chunked"', b"0\r\n\r\n")),
    "chunked in 1.0": (
        400,
        "framing",
        b"POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    "folded line": (400, "malformed", fields(b"A: b\r\n c")),
    "folded line by tab": (400, "malformed", fields(b"A: b\r\n\tc")),
    "folded first line": (400, "malformed", b"GET / HTTP/1.1\r\n A: b\r\nHost: h\r\n\r\n"),
    "bare CR in a value": (400, "malformed", fields(b"A: b\rC: d")),
    "bare CR for a line end": (400, "malformed", b"GET / HTTP/1.1\rHost: h\r\n\r\n"),
    "bare LF for a line end": (400, "malformed", fields(b"A: b\nC: d")),
    "bare LFs only": (400, "malformed", b"GET / HTTP/1.1\nHost: h\n\n"),
    "bare LF at the end": (400, "malformed", b"GET / HTTP/1.1\r\nHost: h\r\n\n"),
    "NUL in a value": (400, "malformed", fields(b"A: b\0c")),
    "NUL in a name": (400, "malformed", fields(b"A\0: b")),
    "NUL in the target": (400, "malformed", line(b"GET /\0 HTTP/1.1")),
    "control character": (400, "malformed", fields(b"A: b\x01")),
    "DEL": (400, "malformed", fields(b"A: b\x7f")),
    "space before the colon": (400, "malformed", fields(b"A : b")),
    "space before the colon of a length": (
        400,
        "malformed",
        fields(b"Content-Length : 3\r\nContent-Length: 3", b"abc"),
    ),
    "no colon": (400, "malformed", fields(b"A")),
    "no name": (400, "malformed", fields(b": b")),
    "name beyond ASCII": (400, "malformed", fields(b"\xc3\xa9: b")),
    "two spaces": (400, "malformed", line(b"GET  / HTTP/1.1")),
    "tab for a space": (400, "malformed", line(b"GET\t/\tHTTP/1.1")),
    "space after the version": (400, "malformed", line(b"GET / HTTP/1.1 ")),
    "no version": (400, "malformed", line(b"GET /")),
    "not a version": (400, "malformed", line(b"GET / HTTPS/1.1")),
    "lower case method": (400, "malformed", line(b"get / HTTP/1.1")),
    "long method": (400, "malformed", line(b"A" * 33 + b" / HTTP/1.1")),
    "method that is no word": (400, "malformed", line(b"G(T / HTTP/1.1")),
    "TLS hello": (400, "malformed", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    "no HTTP at all": (400, "malformed", b"x" * 40),
    "version 0.9": (505, "version", line(b"GET / HTTP/0.9")),
    "version 1.2": (505, "version", line(b"GET / HTTP/1.2")),
    "version 2.0": (505, "version", line(b"GET / HTTP/2.0")),
    "preface of another protocol": (505, "version", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"),
    "PRI in 1.1": (400, "target", line(b"PRI * HTTP/1.1")),
    "asterisk of GET": (400, "target", line(b"GET * HTTP/1.1")),
    "authority form": (400, "target", line(b"GET h:80 HTTP/1.1")),
    "fragment": (400, "target", line(b"GET /a#b HTTP/1.1")),
    "user in the URL": (400, "target", line(b"GET http://u@h/ HTTP/1.1")),
    "other scheme": (400, "target", line(b"GET ftp://h/ HTTP/1.1")),
    "CONNECT": (501, "method", line(b"CONNECT h:80 HTTP/1.1")),
    "no host": (400, "host", b"GET / HTTP/1.1\r\n\r\n"),
    "no host, other fields": (400, "host", b"GET / HTTP/1.1\r\nA: b\r\n\r\n"),
    "two hosts": (400, "host", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    "two equal hosts": (400, "host", b"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n"),
    "list of hosts": (400, "host", b"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"),
    "host with a path": (400, "host", b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    "host with a port above all": (400, "host", b"GET / HTTP/1.1\r\nHost: 127.0.0.1:99999999\r\n\r\n"),
    "host with a port above the last": (400, "host", b"GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n"),
    **{
        f"length of {zeros} zeros and {digits} digits": (
            413,
            "body_size",
            fields(b"Content-Length: " + b"0" * zeros + b"9" * digits),
        )
        for zeros in (0, 1, 5_000)
        for digits in (19, 20, 100, 4_301, 9_000)
    },
    "URL beyond ASCII": (400, "malformed", line(b"GET /\xc3\xa9 HTTP/1.1")),
    "host with a user": (400, "host", b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
    "URL without host field": (400, "host", b"GET http://a/ HTTP/1.1\r\n\r\n"),
    "other expectation": (417, "expectation", fields(b"Expect: 200-ok\r\nContent-Length: 3")),
    "negative chunk": (400, "chunk", chunks(b"-1\r\n")),
    "overflowing chunk": (413, "body_size", chunks(b"ffffffffffffffff1\r\n")),
    "huge chunk": (413, "body_size", chunks(b"fffffffffffffff\r\n")),
    "hexadecimal prefix": (400, "chunk", chunks(b"0x5\r\nabcde\r\n")),
    "chunk without size": (400, "chunk", chunks(b"\r\nabc")),
    "chunk longer than said": (400, "chunk", chunks(b"3\r\nabcd\r\n0\r\n\r\n")),
    "chunk ended by LF": (400, "chunk", chunks(b"3\nabc\n0\n\n")),
    "space after a chunk size": (400, "chunk", chunks(b"3 \r\nabc\r\n")),
    "space before a chunk size": (400, "chunk", chunks(b" 3\r\nabc\r\n")),
    "NUL in an extension": (400, "chunk", chunks(b"3;a\0\r\nabc\r\n")),
    "bare CR in an extension": (400, "chunk", chunks(b"3;a\rb\r\nabc\r\n")),
    "long extension": (400, "chunk", chunks(b"3;" + b"a" * 300)),
    "bad trailer": (400, "chunk", chunks(b"0\r\nA : b\r\n\r\n")),
    "folded trailer": (400, "chunk", chunks(b"0\r\nA: b\r\n c\r\n\r\n")),
}


codes = {
    400: "malformed_request",
    413: "too_large",
    417: "not_supported",
    501: "not_supported",
    505: "not_supported",
}
"""As `docs/http-api.md` has them."""


@pytest.mark.parametrize("name", refusals)
def test_refused_with_status_reason_and_close(name: str) -> None:
    status, reason, raw = refusals[name]

    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(raw + get)
            reply = await client.reply()
            assert (reply.status, site.refused) == (status, {reason: 1})
            assert reply.headers["connection"] == "close"
            assert reply.headers["content-type"] == "application/json"
            assert json.loads(reply.body)["code"] == codes[status]
            assert await client.rest() == b""
            assert site.app.seen == []
            # The parsers that all connections share take no harm.
            other = await site.connect()
            assert (await other.exchange(post(b"ok"))).body == b"ok"

    run(test, "uvloop")


@pytest.mark.parametrize("name", ["two lengths", "folded line", "bad trailer", "no host"])
def test_a_refusal_comes_after_the_answers_that_are_due(loop: str, name: str) -> None:
    status, _, raw = refusals[name]

    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(fetch(b"/later") + get + raw + get)
            await site.app.until(lambda: len(site.app.seen) == 1)
            site.app.later[0].reply(200, b"first")
            assert (await client.reply()).body == b"first"
            assert (await client.reply()).status == 200
            assert (await client.reply()).status == status
            assert await client.rest() == b""

    run(test, loop)


small = WireLimits(max_body=1000, max_target=200, max_head=300, max_headers=5)


@pytest.mark.parametrize(
    ("status", "raw"),
    [
        (413, fields(b"Content-Length: 1001")),
        (413, fields(b"Expect: 100-continue\r\nContent-Length: 1001")),
        (413, chunks(b"3e9\r\n")),
        (413, chunks(b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\n")),
        (414, b"GET /" + b"x" * 200 + b" HTTP/1.1\r\nHost: h\r\n\r\n"),
        (414, b"GET /" + b"x" * 300),
        (431, fields(b"A: " + b"x" * 300)),
        (431, fields(b"\r\n".join([b"A: b"] * 5))),
        (431, b"GET / HTTP/1.1\r\nA: " + b"x" * 300),
        (431, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 6),
        (431, chunks(b"0\r\n" + b"A: b\r\n" * 6)),
        (431, chunks(b"0\r\nA: " + b"x" * 300)),
        (431, chunks((b"1;" + b"x" * 200 + b"\r\na\r\n") * 2)),
    ],
)
@on_site(small)
async def test_limits_are_kept_before_the_bytes_are_read(site: Site, status: int, raw: bytes) -> None:
    client = await site.connect()
    reply = await client.exchange(raw)
    assert reply.status == status
    assert await client.rest() == b""
    assert site.app.seen == []


@on_site(small)
async def test_what_is_just_within_the_limits(site: Site) -> None:
    client = await site.connect()
    assert (await client.exchange(post(b"x" * 1000))).status == 200
    assert (await client.exchange(chunks(b"3e8\r\n" + b"x" * 1000 + b"\r\n0\r\n\r\n"))).status == 200
    assert (await client.exchange(fetch(b"/" + b"x" * 199))).status == 200
    # "Host: h" is 9 bytes with its end, "A: " and the end 5.
    assert (await client.exchange(fetch(b"/", b"A: " + b"x" * 286 + b"\r\n"))).status == 200
    assert (await client.exchange(fetch(b"/", b"A: b\r\n" * 4))).status == 200


@on_site(small)
async def test_a_client_that_goes_on_sending_can_still_read_why_it_was_refused(site: Site) -> None:
    client = await site.connect()
    client.send(fields(b"Content-Length: 30000000", b"x" * 30_000_000))
    assert (await client.reply()).status == 413


def sending(length: int) -> bytes:
    """Give a request that is refused at its head, with all of its body behind it."""
    return fields(b"Content-Length: %d" % length, b"x" * length)


async def sent_all(client: Client) -> None:
    async with asyncio.timeout(limit_s):
        await client.writer.drain()


@on_site(small)
async def test_a_client_that_reads_nothing_before_it_has_sent_all_is_told_too(site: Site) -> None:
    client = await site.connect()
    client.pause()
    client.writer.transport.set_write_buffer_limits(0)
    client.send(sending(50_000_000))
    await sent_all(client)
    client.resume()
    assert (await client.reply()).status == 413
    assert await client.rest() == b""
    (connection,) = site.server._connections
    assert isinstance(connection, Http1Connection)
    client.writer.close()
    await site.emptied()
    connection._paused_ms = 1  # it was lost between two turns
    connection.go_on()
    assert site.http.discarding == 0


async def goes_on(site: Site, clock: ManualClock, client: Client, times: int) -> None:
    """Have a client send a little, so many times, 900 ms before the next look at the clock."""
    for _ in range(times):
        (connection,) = site.server._connections
        before = connection._lingering.dropped  # type: ignore[attr-defined]
        client.send(b"x")
        await until(lambda: connection._lingering.dropped > before)  # type: ignore[attr-defined]  # noqa: B023
        clock.advance(900)
        site.server.sweep()
        await asyncio.sleep(0)


@pytest.mark.parametrize(("drains", "times"), [(False, 5), (True, 1)])
def test_who_sends_without_end_is_hung_up_on(loop: str, drains: bool, times: int) -> None:
    """After five seconds, or one if the server is about to end."""

    async def test() -> None:
        clock = ManualClock()
        async with Site(small, clock=clock) as site:
            client = await site.connect()
            assert (await client.exchange(sending(1_000_000))).status == 413
            await until(lambda: site.http.discarding)
            draining = asyncio.create_task(site.server.drain(60_000)) if drains else None
            await asyncio.sleep(0)
            await goes_on(site, clock, client, times)
            assert site.server.counters.connections == 1
            await goes_on(site, clock, client, 1)
            await site.emptied()
            if draining is not None:
                await draining

    run(test, loop)


@on_site(small)
async def test_not_everybody_may_go_on_sending(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lingering, "max_discarding", 1)
    first, second = await site.connect(), await site.connect()
    first.send(sending(1_000_000))
    assert (await first.reply()).status == 413
    await until(lambda: site.http.discarding)
    second.send(sending(1_000_000))
    assert (await second.reply()).status == 413
    await until(lambda: sum(bool(one._paused_ms) for one in site.server._connections) == 1)  # type: ignore[attr-defined]
    assert site.http.discarding == 1


@pytest.mark.parametrize("ends", [False, True])
def test_who_does_not_read_its_answers_keeps_no_place_among_those_who_go_on_sending(
    loop: str, ends: bool
) -> None:
    """Its connection stays until it reads or has stood still for too long; nothing that it sends is read any more."""

    async def test() -> None:
        clock = ManualClock()
        limits = WireLimits(max_body=1000, write_buffer=1 << 30, stall_timeout_ms=60_000)
        async with Site(limits, clock=clock) as site:
            client = await site.connect_small()
            client.send(fetch(b"/large?30000000") + sending(1_000_000))
            await until(lambda: site.http.discarding)
            if ends:
                client.half_close()
            else:
                clock.advance(6_000)
                site.server.sweep()
            await until(lambda: not site.http.discarding)
            assert site.server.counters.connections == 1

    run(test, loop)
