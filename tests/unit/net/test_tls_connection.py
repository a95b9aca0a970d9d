"""TLS below the wires: handshakes that fail or never end, whom they hold up, and what a listener says of itself in them.

That everything else is the same with TLS as without, the other tests of this folder show: each runs both ways.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import ssl
import weakref
from pathlib import Path
from typing import Any, cast

import pytest

from anew.clock import ManualClock
from anew.net import peer
from anew.net.bounded_log import EVERY_MS
from anew.net.certificate import HTTP_ALPN, Certificate, TlsFiles
from anew.net.http1.connection import Http1Connection
from anew.net.seam import WireLimits
from anew.net.tls_connection import Handshakes, TlsConnection, linger_ms, max_handshake
from tests.unit.net.http1_peer import fetch, get
from tests.unit.net.loopback import (
    CERTIFICATES,
    Client,
    SecureClient,
    Site,
    certificate,
    loops,
    run,
    trusting,
    until,
)

STARTED = b"\x16\x03\x01\x02\x00\x01"
"""The first bytes of a handshake."""


@pytest.fixture(params=sorted(loops))
def loop(request: pytest.FixtureRequest) -> str:
    return f"{request.param} with TLS"


async def bare(site: Site) -> Client:
    """Connect without a handshake."""
    client = site.joined(*await asyncio.open_connection(site.host, site.port))
    await until(lambda: site.is_shaking(client))
    return client


def secured(**others: Any) -> Certificate:
    """The tests' certificate, with other terms."""
    files = certificate().files
    return Certificate(TlsFiles(cert=files.cert, key=files.key, **others), HTTP_ALPN)


async def hello(site: Site, context: ssl.SSLContext) -> asyncio.StreamWriter:
    """Connect as an ordinary client does."""
    _, writer = await asyncio.open_connection(site.host, site.port, ssl=context)
    return writer


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n", "tls_plaintext"),
        (b"HELLO {}\r\n", "tls_plaintext"),
        (b"\x80\x2e\x01\x03\x01", "tls_plaintext"),
        (STARTED + bytes(600), "tls_handshake"),
        (b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", "tls_handshake"),
    ],
)
def test_who_speaks_no_tls_gets_no_answer(
    loop: str, said: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await bare(site)
            client.send(said)
            rest = await client.rest()
            assert b"HTTP" not in rest
            assert rest[:1] in (b"", b"\x15")  # nothing, or an alert
            assert (site.refused, site.app.seen) == ({reason: 1}, [])

    run(test, loop)
    assert [record.message for record in caplog.records] == ["a TLS handshake has failed"]
    assert caplog.records[0].levelno == logging.WARNING
    assert caplog.records[0].exc_info is None


def test_handshakes_that_fail_in_crowds_are_counted_and_logged_now_and_then(
    loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with Site(clock=clock) as site:
            for crowd in (50, 1):
                for _ in range(crowd):
                    client = await bare(site)
                    client.send(b"GET / HTTP/1.1\r\n\r\n")
                    await client.rest()
                    client.writer.close()
                clock.advance(EVERY_MS)
            assert site.refused == {"tls_plaintext": 51}

    run(test, loop)
    assert [cast(Any, record).since_the_last_line for record in caplog.records] == [1, 50]
    assert cast(Any, caplog.records[0]).peer == "127.0.0.1"


def test_a_handshake_that_does_not_end_is_cut_and_holds_up_nobody(loop: str) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with Site(WireLimits(header_timeout_ms=500), clock=clock) as site:
            # One that allows for a handshake what a head may take; the site's own allows more.
            _, site.port = await site.server.listen("127.0.0.1", 0, site.http.connection, tls=certificate())
            silent, begun = await bare(site), await bare(site)
            begun.send(STARTED)
            client = await site.connect()
            assert (await client.exchange(get)).status == 200
            assert site.server.counters.connections == 3
            clock.advance(499)
            site.server.sweep()
            assert site.refused == {}
            clock.advance(1)
            site.server.sweep()
            assert await cut(silent)
            assert await cut(begun)
            await site.emptied(1)
            assert site.refused == {"slow_handshake": 2}
            assert (await client.exchange(get)).status == 200

    run(test, loop)


async def cut(client: Client) -> bool:
    """Whether the server has hung up without a word."""
    try:
        return await client.rest() == b""
    except ConnectionError:
        return True


def test_a_listener_may_have_less_patience_than_the_others(loop: str) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with Site(clock=clock) as site:
            _, site.port = await site.server.listen(
                "127.0.0.1", 0, site.http.connection, tls=certificate(), handshake_ms=2_000
            )
            silent = await bare(site)
            clock.advance(2_000)
            site.server.sweep()
            assert await cut(silent)

    run(test, loop)


def test_handshakes_count_against_the_limit_and_make_room_first(loop: str) -> None:
    async def test() -> None:
        async with Site(WireLimits(max_connections=2)) as site:
            served = await site.connect()
            assert (await served.exchange(get)).status == 200
            silent = await bare(site)
            other = await site.connect()
            assert await cut(silent)
            assert (await other.exchange(get)).status == 200
            assert (await served.exchange(get)).status == 200
            assert site.server.counters.connections == 2

    run(test, loop)


def test_a_refused_peer_that_does_not_hang_up_is_cut(loop: str) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with Site(clock=clock) as site:
            quiet, loud = await bare(site), await bare(site)
            quiet.send(b"GET / HTTP/1.1\r\n\r\n")
            loud.send(b"GET / HTTP/1.1\r\n\r\n")
            await quiet.rest()
            await loud.rest()
            loud.send(bytes(2 * max_handshake))
            await site.emptied(1)
            clock.advance(linger_ms)
            site.server.sweep()
            await site.emptied()

    run(test, loop)


def test_a_handshake_without_end_is_not_kept(loop: str) -> None:
    """130,000 bytes of a hello are announced, within what OpenSSL takes, in records that are never the last."""

    async def test() -> None:
        async with Site() as site:
            client = await bare(site)
            message = b"\x01" + (130_000).to_bytes(3, "big") + bytes(100_000)
            records = b"".join(
                b"\x16\x03\x01\x00\x01" + message[at : at + 1] for at in range(max_handshake // 5)
            )
            client.send(records)
            assert await cut(client)
            await site.emptied()

    run(test, loop)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["h2", "http/1.1"], "h2"),
        (["http/1.1", "h2"], "h2"),
        (["http/1.1"], "http/1.1"),
        (["spdy/1"], None),
        ([], None),
    ],
)
def test_the_protocol_is_agreed_on(loop: str, offered: list[str], chosen: str | None) -> None:
    async def test() -> None:
        context = ssl.create_default_context(cafile=CERTIFICATES / "root.pem")
        if offered:
            context.set_alpn_protocols(offered)
        async with Site() as site:
            writer = await hello(site, context)
            assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == chosen
            writer.close()

    run(test, loop)


def test_http2_goes_on_where_it_was_agreed_on(loop: str) -> None:
    async def test() -> None:
        context = ssl.create_default_context(cafile=CERTIFICATES / "root.pem")
        context.set_alpn_protocols(["h2"])
        async with Site() as site:
            reader, writer = await asyncio.open_connection(site.host, site.port, ssl=context)
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
            head = await reader.readexactly(9)
            assert head[3] == 4  # SETTINGS
            writer.close()

    run(test, loop)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_are_spoken_and_one_where_that_is_asked_for(loop: str, version: ssl.TLSVersion) -> None:
    async def test() -> None:
        context = ssl.create_default_context(cafile=CERTIFICATES / "root.pem")
        context.minimum_version = context.maximum_version = version
        async with Site() as site:
            (await hello(site, context)).close()
        async with Site(tls=secured(minimum="1.3")) as strict:
            if version is ssl.TLSVersion.TLSv1_3:
                (await hello(strict, context)).close()
                return
            with pytest.raises(ssl.SSLError, match="version"):
                await hello(strict, context)
            assert strict.refused == {"tls_handshake": 1}

    run(test, loop)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_needs_a_certificate_where_an_authority_is_given(
    loop: str, version: ssl.TLSVersion, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        context = ssl.create_default_context(cafile=CERTIFICATES / "root.pem")
        context.minimum_version = context.maximum_version = version
        async with Site(tls=secured(client_ca=CERTIFICATES / "root.pem")) as site:
            reader, writer = await asyncio.open_connection(site.host, site.port, ssl=trusting())
            writer.write(get)
            with pytest.raises(ssl.SSLError, match=r"certificate|handshake"):
                await reader.read()
            assert (site.refused, site.app.seen) == ({"tls_handshake": 1}, [])
            context.load_cert_chain(CERTIFICATES / "client.pem", CERTIFICATES / "client.key")
            reader, writer = await asyncio.open_connection(site.host, site.port, ssl=context)
            writer.write(get)
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            writer.close()

    run(test, loop)
    assert cast(Any, caplog.records[0]).reason == "peer did not return a certificate"


def test_a_certificate_for_servers_or_of_a_foreign_authority_is_refused(
    loop: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        context = ssl.create_default_context(cafile=CERTIFICATES / "root.pem")
        context.load_cert_chain(CERTIFICATES / "client.pem", CERTIFICATES / "client.key")
        # An authority that has nothing to do with the client's.
        async with Site(tls=secured(client_ca=certificate().files.cert)) as site:
            reader, writer = await asyncio.open_connection(site.host, site.port, ssl=context)
            writer.write(get)
            with pytest.raises(ssl.SSLError):
                await reader.read()
            assert site.refused == {"tls_handshake": 1}

    run(test, loop)
    assert "its certificate is refused" in cast(Any, caplog.records[0]).reason


def test_a_client_that_does_not_trust_us_is_counted(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            with pytest.raises(ssl.SSLCertVerificationError):
                await hello(site, ssl.create_default_context())
            await until(lambda: site.refused == {"tls_handshake": 1})

    run(test, loop)


def test_a_connection_that_asks_for_nothing_at_all_is_no_failure(
    loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As a load balancer looks whether somebody listens."""

    async def test() -> None:
        async with Site() as site:
            client = await bare(site)
            client.writer.close()
            await site.emptied()
            assert site.refused == {}

    run(test, loop)
    assert caplog.records == []


def test_certificates_that_are_read_again_count_for_new_connections(loop: str) -> None:
    async def test() -> None:
        own = secured()
        async with Site(tls=own) as site:
            before = await site.connect()
            asks = secured(client_ca=CERTIFICATES / "root.pem")
            own.files = asks.files
            own.reload()
            assert (await before.exchange(get)).status == 200
            _, writer = await asyncio.open_connection(site.host, site.port, ssl=trusting())
            await until(lambda: site.refused == {"tls_handshake": 1})
            writer.close()

    run(test, loop)


def test_what_is_written_now_and_then_does_not_hide_that_nobody_reads(loop: str) -> None:
    """A record adds to what it carries: bytes that wait and bytes that were written are counted alike."""

    async def test() -> None:
        clock = ManualClock()
        limits = WireLimits(stall_timeout_ms=30_000, write_buffer=1 << 20)
        async with Site(limits, clock=clock) as site:
            client = await site.connect_small()
            client.send(fetch(b"/stream"))
            await site.app.until(lambda: bool(site.app.streams))
            stream = site.app.stream
            stream.write(bytes(900_000))
            (connection,) = site.server._connections
            transport = cast(Http1Connection, connection).transport
            await until(lambda: transport.get_write_buffer_size())
            written = 0
            while (
                not site.refused and written < 20
            ):  # the kernel may take some more once, which begins the 30 s anew
                stream.write(b"\n")
                site.server.sweep()
                clock.advance(3_000)
                written += 1
            assert written >= 10
            assert site.refused == {"stalled_reader": 1}

    run(test, loop)


@pytest.mark.parametrize(("rate", "status"), [(1_100, 200), (900, 408)])
def test_a_body_that_comes_in_long_records_may_be_as_slow_as_any(loop: str, rate: int, status: int) -> None:
    """1,024 bytes a second suffice, though a record of 16 KiB, which nobody can read before it is whole, takes 15 s then."""

    async def test() -> None:
        clock = ManualClock()
        async with Site(clock=clock) as site:
            client = await site.connect()
            assert isinstance(client, SecureClient)
            client.send(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 32768\r\n\r\n")
            (connection,) = site.server._connections
            await until(lambda: connection._stage)  # type: ignore[attr-defined]
            records = client.encrypted(bytes(16 << 10)) + client.encrypted(bytes(16 << 10))

            def has_come(size: int) -> bool:
                """Whether so much of the records has, or nothing is expected any more; a record has 22 bytes of its own."""
                incoming = cast(Http1Connection, connection)._incoming
                if incoming is None:
                    return True
                return (
                    peer.came(cast(Http1Connection, connection).transport, incoming.body.received)
                    >= size - 44
                )

            for at in range(0, len(records), rate):
                client.writer.write(records[at : at + rate])
                end = min(at + rate, len(records))
                await until(lambda: has_come(end))  # noqa: B023
                clock.advance(1_000)
                site.server.sweep()
            assert (await client.reply()).status == status

    run(test, loop)


def test_what_waits_to_be_sent_is_seen_whole(loop: str) -> None:
    """The loops' own TLS says that nothing waits."""

    async def test() -> None:
        async with Site() as site:
            client = await site.connect_small()
            client.send(fetch(b"/large?10000000"))
            await until(lambda: site.server.counters.unsent >= 10_000_000)

    run(test, loop)


def test_a_drain_does_not_wait_for_handshakes(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            silent = await bare(site)
            await site.server.drain(60_000)
            assert await cut(silent)

    run(test, loop)


def test_an_answer_ends_with_a_word_of_tls(loop: str) -> None:
    """Else whoever sits between could cut it short, and nobody would know."""

    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            assert isinstance(client, SecureClient)
            reply = await client.exchange(fetch(b"/", b"Connection: close\r\n"))
            assert reply.status == 200
            assert await client.rest() == b""
            assert client.ended

    run(test, loop)


def test_a_connection_that_is_lost_leaves_nothing_to_the_collector(loop: str) -> None:
    """OpenSSL's part of one is 15 KiB, and the collector comes seldom."""

    async def test() -> None:
        async with Site() as site:
            client, failed = await site.connect(), await bare(site)
            connections = [
                weakref.ref(
                    wire if isinstance(wire, TlsConnection) else cast(Http1Connection, wire).transport
                )
                for wire in site.server._connections
            ]
            assert (await client.exchange(get)).status == 200
            site.app.seen.clear()
            failed.send(STARTED + bytes(600))
            await failed.rest()
            client.writer.close()
            failed.writer.close()
            await site.emptied()
            for _ in range(5):
                await asyncio.sleep(0)
            assert [connection() for connection in connections] == [None, None]

    collects = gc.isenabled()
    gc.disable()
    try:
        run(test, loop)
    finally:
        if collects:
            gc.enable()


class Costly:
    """A handshake that takes some milliseconds."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.steps = 0

    def shake_hands(self) -> None:
        self.steps += 1
        self._clock.advance(2)


def test_handshakes_share_the_loop_with_everybody_else(loop: str) -> None:
    async def test() -> None:
        clock = ManualClock()
        turns = Handshakes(clock.monotonic)
        crowd = [Costly(clock) for _ in range(7)]
        for one in crowd:
            turns.queue_up(cast(TlsConnection, one))
        turns.forget(cast(TlsConnection, crowd[1]))
        done = []
        for _ in range(3):
            await asyncio.sleep(0)
            done.append(sum(one.steps for one in crowd))
        assert done == [3, 6, 6]  # 5 ms of each turn

    run(test, loop)


class Failing(Costly):
    """A handshake that meets with what nobody has thought of."""

    aborted = False

    def shake_hands(self) -> None:
        raise RuntimeError("planned")

    def abort(self) -> None:
        self.aborted = True


def test_a_handshake_that_fails_unforeseen_holds_up_no_other(
    loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        clock = ManualClock()
        turns = Handshakes(clock.monotonic)
        failing, well = Failing(clock), Costly(clock)
        for one in (failing, well):
            turns.queue_up(cast(TlsConnection, one))
        await asyncio.sleep(0)
        assert (failing.aborted, well.steps) == (True, 1)

    run(test, loop)
    assert [record.message for record in caplog.records] == ["unhandled error in a handshake"]
