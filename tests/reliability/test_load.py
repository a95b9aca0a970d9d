"""Storms, huge payloads and overload: what is promised to the others holds meanwhile.

Latencies are printed and held against three times the figure that the benchmark demands, because a test may
share its processors with anything.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.waiting import until

from .load import AS_PROMISED, GENEROSITY, JOB, Background, count, enqueue, fill, measure, probe, quantile
from .offering import Report
from .server import Server
from .wire import Address, Client, Taker, encode

pytestmark = pytest.mark.alone

HELD = 1_000
"""Jobs that wait to be settled while others are offered."""


def test_reliability_34_a_hundred_thousand_jobs_due_in_one_instant(tmp_path: Path) -> None:
    """The last one is ready in time, and other enqueues go on meanwhile.

    One job in a thousand is watched: those lie in a queue of their own, spread over the whole order.
    """
    jobs, watched = 100_000, 100
    with (
        Server(tmp_path / "data", "--global-in-flight-limit", "0") as server,
        Client(server.address) as client,
    ):
        far = int(time.time() * 1000) + 3_600_000
        spell_s = fill(server.address, 10_000, queue="far", ready_at=far)
        due_at = int((time.time() + 1.0 + 2 * spell_s * jobs / 10_000) * 1000)
        bulk = [JOB | {"ready_at": due_at}] * (jobs // watched)
        bulk[-1] = bulk[-1] | {"queue": "watched"}
        for _ in range(watched // 10):
            assert client.request("POST", "/jobs/bulk", {"jobs": bulk * 10}).status == 201
        assert time.time() * 1000 < due_at, "filled too slowly to measure anything"

        late_ms: list[float] = []

        def watch(stopping: threading.Event) -> None:
            with Taker(server.address, queue="watched", prefetch=watched) as taker:
                while len(late_ms) < watched and not stopping.is_set():
                    arrived = taker.take(watched)
                    late_ms.extend([time.time() * 1000 - due_at] * len(arrived))

        with Background(watch):
            until(lambda: time.time() * 1000 > due_at - 20, within_s=60, what="the instant", pause_s=0.005)
            storm = probe(server.address, lambda _: len(late_ms) >= watched)
    assert min(late_ms) >= 0
    p99 = quantile(storm, 0.99)
    print(f"{jobs} due at once: the last {max(late_ms):.0f} ms late")
    p50 = quantile(storm, 0.5)
    print(f"{len(storm)} enqueues meanwhile: p50 {p50:.2f}, p99 {p99:.2f}, max {max(storm):.1f} ms")
    assert max(late_ms) < AS_PROMISED * 1500
    assert p99 < AS_PROMISED * 8


@pytest.mark.parametrize("megabytes", [1, 10])
def test_small_jobs_beside_huge_payloads(tmp_path: Path, megabytes: int) -> None:
    request = encode("POST", "/jobs", JOB | {"queue": "huge", "payload": "x" * (megabytes * 1_000_000)})
    with Server(tmp_path / "data") as server:

        def send(stopping: threading.Event) -> int:
            sent = 0
            with Client(server.address) as client:
                while not stopping.is_set():
                    client.socket.sendall(request)
                    assert client.receive().status == 201
                    sent += 1
            return sent

        ends = time.monotonic() + 2.0
        with Background(send) as sender:
            waits = probe(server.address, lambda _: time.monotonic() > ends)
        sent = sender.stop()
    p99 = quantile(waits, 0.99)
    p50 = quantile(waits, 0.5)
    print(f"beside {sent} payloads of {megabytes} MB: small enqueues p50 {p50:.2f}, p99 {p99:.2f} ms")
    assert sent >= 2
    assert p99 < GENEROSITY * 30


@pytest.mark.parametrize(
    ("text", "statuses"), [("def f: f; f", {400}), ("[range(1e9)]", {400}), (".n == -1", {200})]
)
def test_reliability_49_enqueues_beside_filters(tmp_path: Path, text: str, statuses: set[int]) -> None:
    """Expressions that take all that they may, or all payloads, from as many clients as are admitted."""
    bulk = {"jobs": [JOB | {"queue": "searched", "payload": {"n": n}} for n in range(10_000)]}
    with Server(tmp_path / "data") as server, Client(server.address) as client:
        assert client.request("POST", "/jobs/bulk", bulk).status == 201
        quiet = quantile(measure(server.address), 0.99)

        def search(stopping: threading.Event) -> set[int]:
            met = set()
            with Client(server.address) as client:
                while not stopping.is_set():
                    target = "/jobs/count?queue=searched&filter=" + quote(text, safe="")
                    met.add(client.request("GET", target).status)
            return met

        ends = time.monotonic() + 3.0
        with contextlib.ExitStack() as stack:
            searchers = [stack.enter_context(Background(search)) for _ in range(18)]
            waits = probe(server.address, lambda _: time.monotonic() > ends)
            for searcher in searchers:
                searcher.stopping.set()
        met = set().union(*(searcher.stop() for searcher in searchers))
    p99 = quantile(waits, 0.99)
    print(f"beside {text}: enqueues p99 {quiet:.2f} -> {p99:.2f} ms")
    assert met == statuses
    assert p99 < GENEROSITY * max(8, 2 * quiet)


@contextlib.contextmanager
def settling(address: Address) -> Iterator[Background]:
    """Take some jobs and settle them one after another meanwhile; the result is the statuses that came."""
    fill(address, HELD, queue="held")
    with Taker(address, queue="held", prefetch=HELD) as taker:
        jobs: list[str] = []
        while len(jobs) < HELD:
            jobs += [job["id"] for job in taker.take(HELD)]

        def settle(stopping: threading.Event) -> list[int]:
            statuses = []
            with Client(address) as settler:
                while jobs and not stopping.is_set():
                    statuses.append(settler.request("POST", f"/jobs/{jobs.pop()}/success").status)
            return statuses

        with Background(settle) as background:
            yield background


def offer(address: Address, **order: object) -> Report:
    """Have a process of its own offer enqueues; see `Order`."""
    given = {"address": address, "body": JOB | {"payload": "x" * 300}} | order
    command = [sys.executable, "-m", "tests.reliability.offering", json.dumps(given)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    return Report(**json.loads(done.stdout))


def held_to_promises(address: Address, report: Report, statuses: list[int]) -> None:
    """What is promised of overload whatever the machine: see `test_reliability_45_twice_the_sustainable_load`."""
    refused = sum(report.refused.values())
    print(
        f"{report.accepted} of {report.offered} accepted in {report.seconds:.1f} s, {refused} refused",
        end="; ",
    )
    print(f"p99 until stored {report.stored_p99:.0f}, until answered {report.kept_p99:.0f} ms", end="; ")
    print(f"since due {report.due_p99:.0f} ms; {len(statuses)} settled meanwhile")
    assert report.accepted + refused == report.offered
    assert set(report.refused) <= {"429", "503"}
    assert not report.silent, "a refusal says when to come again"
    assert statuses
    assert set(statuses) == {204}, "settling is never refused"
    with Client(address) as client:
        assert count(client, "queue=q") == report.stored + report.accepted, "stored is what was accepted"
        until(lambda: enqueue(client).status == 201, within_s=30, what="normal service afterwards")


@pytest.mark.parametrize(("http2", "depth"), [(False, 1), (True, 8)])
def test_reliability_45_twice_the_sustainable_load(tmp_path: Path, http2: bool, depth: int) -> None:
    """By the clock: what is accepted is quick, the rest is told early to come again, settling is never refused.

    The bound is the benchmark's own, without generosity: the rate follows the machine, and the client's own
    delays are not counted.
    """
    with Server(tmp_path / "data") as server:
        with settling(server.address) as settler:
            order = {"connections": 100, "http2": http2, "depth": depth}
            report = offer(server.address, **order, sustain_s=1.5, offer_s=3, times=2)
            statuses = settler.stop()
        print(f"{report.sustained:.0f} a second sustained", end="; ")
        held_to_promises(server.address, report, statuses)
        assert report.accepted >= 0.05 * report.offered, "refusing must leave time for work"
        assert report.kept_p99 < 250


def test_reliability_45_thousands_who_ask_again_at_once(tmp_path: Path) -> None:
    """Each of 3,000 clients sends its next request as soon as it has an answer, a refusal too: far more than can be served.

    What is accepted meanwhile is held against what 100 of them get just before; the client's own share is in both. The machine may
    have been others' in one of the two: the best of three such pairs counts.
    """
    shares: list[float] = []
    least = 0.8 if AS_PROMISED == 1 else 0.5
    while len(shares) < 3 and max(shares, default=0.0) < least:
        shares.append(share_of_thousands(tmp_path / str(len(shares))))
    assert max(shares) >= least, shares


def share_of_thousands(data: Path) -> float:
    """Look that nothing else is broken meanwhile, and give what 3,000 clients get as a share of what 100 do."""
    with Server(data) as server:
        few = offer(server.address, connections=100, sustain_s=2)
        with settling(server.address) as settler:
            many = offer(server.address, connections=3_000, sustain_s=4)
            statuses = settler.stop()
        print(f"{few.sustained:.0f} a second for 100 clients, {many.sustained:.0f} for 3,000")
        assert not many.silent, "a refusal says when to come again"
        assert set(statuses) == {204}, "settling is never refused"
        with Client(server.address) as client:
            assert count(client, "queue=q") == few.stored + many.stored, "stored is what was accepted"
            until(lambda: enqueue(client).status == 201, within_s=30, what="normal service afterwards")
    return many.sustained / few.sustained


def test_reliability_45_a_burst_is_refused_early(tmp_path: Path) -> None:
    """400 clients send 64 requests each in one instant: more than can be stored in time.

    Answers to a pipelining client that is slow to read are joined in the kernel, so the instant of storing counts.
    """
    with Server(tmp_path / "data") as server:
        before = server.peak_bytes()
        with settling(server.address) as settler:
            report = offer(server.address, connections=400, burst=64)
            statuses = settler.stop()
        held_to_promises(server.address, report, statuses)
        grown = server.peak_bytes() - before
        print(f"{report.offered * 450 >> 20} MiB sent, {grown >> 20} MiB of memory more")
        assert report.stored_p99 < 250
        assert grown < 64 << 20
