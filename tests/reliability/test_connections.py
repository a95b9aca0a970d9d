"""Surplus, silent and slow connections: refused, tolerated, cut off."""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import until

from .load import AS_PROMISED, enqueue, measure, quantile
from .server import Server, server_command
from .wire import Client, encode

pytestmark = pytest.mark.alone


def test_reliability_46_connections_beyond_the_limit_are_refused_clearly(tmp_path: Path) -> None:
    """20 take streams, which are never idle; the one more is refused, and let in when one of them has gone."""
    with Server(tmp_path / "data", "--max-connections", "20") as server, contextlib.ExitStack() as stack:
        takers = [stack.enter_context(Client(server.address)) for _ in range(20)]
        for taker in takers:
            taker.socket.sendall(encode("GET", "/jobs/take"))
            assert taker.socket.recv(12) == b"HTTP/1.1 200"
        with Client(server.address, timeout=5) as one_more:
            assert one_more.receive().status == 503
            assert one_more.closed_within(5)
        takers[0].close()
        until(lambda: _health(server) == 200, within_s=5, what="a place for one more connection")


def test_reliability_46_silent_connections_keep_nobody_out(tmp_path: Path) -> None:
    """200 of them where the process may hold 400 files: each newcomer takes the place of the one that is idle for longest."""
    limited = ["sh", "-c", 'ulimit -n 400; exec "$@"', "sh", *server_command()]
    with Server(tmp_path / "data", command=limited) as server, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(Client(server.address)) for _ in range(200)]
        for _ in range(5):
            with Client(server.address, timeout=5) as client:
                assert enqueue(client).status == 201
        assert silent[-1].request("GET", "/health").status == 200


def _health(server: Server) -> int:
    try:
        with Client(server.address, timeout=5) as client:
            return client.request("GET", "/health").status
    except OSError:
        return 0


@pytest.fixture
def many_descriptors() -> Iterator[int]:
    """Raise the limit of open files as far as it goes; the server inherits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield 1 << 20 if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_reliability_46_5000_idle_connections_change_nothing(tmp_path: Path, many_descriptors: int) -> None:
    idle = min(5000, many_descriptors // 2 - 500)
    with Server(tmp_path / "data") as server, contextlib.ExitStack() as stack:
        before, rss_before = measure(server.address), server.rss_bytes()
        clients = [stack.enter_context(Client(server.address)) for _ in range(idle)]
        assert clients[-1].request("GET", "/health").status == 200
        each = (server.rss_bytes() - rss_before) / idle
        after = measure(server.address)
        assert clients[0].request("GET", "/health").status == 200
    was, now = quantile(before, 0.99), quantile(after, 0.99)
    print(f"{idle} idle connections: {each / 1000:.1f} kB each; enqueue p99 {was:.2f} -> {now:.2f} ms")
    assert each < 30_000
    assert now < AS_PROMISED * 2 * max(was, 1.0)


def test_reliability_47_slow_headers_are_cut_off_and_silence_is_not(tmp_path: Path) -> None:
    with Server(tmp_path / "data", "--header-timeout", "300ms") as server, Client(server.address) as silent:
        with Client(server.address) as halfway, Client(server.address) as drip:
            halfway.socket.sendall(b"POST /jobs HTTP/1.1\r\nhost: 127.0.0.1\r\n")
            begun = time.monotonic()
            head = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n" + b"x-slow: 1\r\n" * 1000
            _drip(drip, head, gap_s=0.05, within_s=5)
            assert halfway.closed_within(5)
            assert time.monotonic() - begun < 5
        assert silent.request("GET", "/health").status == 200  # longer than the time-out without a byte


def test_reliability_47_slow_bodies_are_cut_off(tmp_path: Path) -> None:
    """Below 1 KiB/s over the last seconds, after the grace that headers have."""
    with Server(tmp_path / "data", "--header-timeout", "300ms") as server:
        with Client(server.address) as drip:
            drip.socket.sendall(b"POST /jobs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100000\r\n\r\n")
            _drip(drip, b"{" + b" " * 99_999, gap_s=0.05, within_s=15)
        with Client(server.address) as steady:
            body = b'{"type":"t","queue":"q","payload":"' + b"x" * 40_000 + b'"}'
            head = f"POST /jobs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
            steady.socket.sendall(head.encode())
            for start in range(0, len(body), 2000):  # 20 pieces, 40 kB/s
                steady.socket.sendall(body[start : start + 2000])
                assert start + 2000 >= len(body) or not steady.closed_within(0.05)
            assert steady.receive().status == 201


def _drip(client: Client, data: bytes, *, gap_s: float, within_s: float) -> None:
    """Send byte after byte until the server hangs up, which it must do in time."""
    ends = time.monotonic() + within_s
    for byte in data:
        try:
            client.socket.sendall(bytes([byte]))
        except OSError:
            return
        if client.closed_within(gap_s):
            return
        assert time.monotonic() < ends, "each byte bought more time"
    raise AssertionError("the server took it all")
