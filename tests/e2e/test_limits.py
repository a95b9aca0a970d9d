"""The global in-flight limit, and the rule that a ready job and a free slot never both wait."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable

import pytest

from .client import Client
from .storm import PATIENCE_S, Storm
from .stream import TakeStream

TRIALS = int(os.environ.get("ANEW_STRESS_TRIALS", "300"))
"""Trials of the storm in one run of the tests."""


def collect(streams: list[TakeStream], count: int) -> list[tuple[TakeStream, str]]:
    """Wait for ``count`` deliveries on any of the streams; one too many fails as one too few."""
    got: list[tuple[TakeStream, str]] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(got) < count:
        got += [(stream, job["id"]) for stream in streams for job in stream.arrived()]
        if len(got) >= count:
            break
        left = deadline - time.monotonic()
        assert left > 0, f"{count - len(got)} of {count} jobs lie ready beside a free slot"
        select.select(streams, [], [], left)
    assert len(got) == count
    return got


def test_zizq_51_the_global_limit_stops_all_streams(fresh: Callable[..., Client]) -> None:
    """In the peer one free place may go to each of two waiting takers."""
    client = fresh(global_in_flight_limit=5)
    client.enqueue_many("a", 6)
    client.enqueue_many("b", 6)
    with client.take("a", prefetch=3) as a, client.take("b", prefetch=0) as b:
        held = [job_id for _, job_id in collect([a, b], 5)]
        a.expect_idle()
        b.expect_idle()
        assert client.count(status="in_flight") == 5
        client.succeed(held[0])
        _, more = collect([a, b], 1)[0]
        a.expect_idle()
        b.expect_idle()
        client.succeed(*held[1:], more)
        collect([a, b], 5)
        assert client.count(status="in_flight") == 5


def test_zizq_51_the_end_of_a_stream_makes_room_for_others(fresh: Callable[..., Client]) -> None:
    client = fresh(global_in_flight_limit=2)
    client.enqueue_many("a", 2)
    other = client.enqueue("b")["id"]
    with client.take("a", prefetch=2) as a:
        a.next_jobs(2)
        with client.take("b") as b:
            b.expect_idle()
            a.close()
            assert b.next_job()["id"] == other


@pytest.mark.parametrize("attempt", range(5))
def test_takers_that_arrive_together_never_pass_the_global_limit(
    fresh: Callable[..., Client], attempt: int
) -> None:
    """The peer looks at the limit before the take: ten streams of 512 held 3,072 jobs at a limit of 1,024."""
    client = fresh(global_in_flight_limit=100)
    client.enqueue_many("q", 1000)
    wires = [client.wire() for _ in range(10)]
    try:
        for wire in wires:  # all requests are on their way before the first answer is read
            wire.send(b"GET /jobs/take?prefetch=50 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        streams = [TakeStream(wire, None) for wire in wires]
        collect(streams, 100)
        for stream in streams:
            stream.expect_idle(beats=1)
        assert client.count(status="in_flight") == 100
    finally:
        for wire in wires:
            wire.close()


def weather(client: Client, prefix: str, *, seed: int, trials: int, limit: int | None = None) -> None:
    """Run a storm to its end."""
    storm = Storm(client, prefix, seed=seed, limit=limit)
    try:
        for _ in range(trials):
            storm.trial()
        storm.check_counts()
    finally:
        storm.close()


@pytest.mark.parametrize("seed", range(6))
def test_no_ready_job_waits_beside_a_free_slot(client: Client, queue: str, seed: int) -> None:
    """Idle and busy takers, several jobs at once; the peer strands a job in one trial of twenty."""
    weather(client, queue, seed=seed, trials=TRIALS // 6)


def test_no_ready_job_waits_while_the_global_limit_has_room(fresh: Callable[..., Client]) -> None:
    weather(fresh(global_in_flight_limit=4), "q", seed=7, trials=TRIALS // 3, limit=4)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 110))
def test_no_ready_job_waits_beside_a_free_slot_in_10_000_trials(
    client: Client, queue: str, seed: int
) -> None:
    weather(client, queue, seed=seed, trials=1000)
