"""An acknowledgement and the end of its lease at one moment, in two processes' engines: one of them counts, and never both."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from anew.engine import Batch, Call, ThreadCommit
from anew.engine.upkeep import lapse
from anew.jobs import NewJob, State
from anew.jobs.outcomes import HoldKind
from anew.store.protocol import Hold
from anew.tasks.opening import open_engine
from tests.postgres import empty_database

RACES = 100_000 if os.environ.get("ANEW_NIGHTLY") else 90


def taken(engine: ThreadCommit) -> tuple[int, int]:
    """Have a job in flight whose lease is over; give its key and token."""

    def verb(batch: Batch) -> tuple[int, int]:
        token = batch.new_token()
        hold = Hold(HoldKind.STREAM, token, batch.store.session, batch.now, batch.now)
        (row,) = batch.take_under(hold, ["q"], 1, 1 << 20)
        return row[0], token

    engine.enqueue([NewJob(type="t", queue="q", payload=msgspec.Raw(b"1"))])
    found: tuple[int, int] = engine.apply(Call(verb, lambda _: None))
    return found


def raced(first: Callable[[], None], second: Callable[[], None], together: bool) -> None:
    """Do two things in two threads: at one moment, or one after the other."""
    start = threading.Barrier(2)

    def run(work: Callable[[], None]) -> None:
        start.wait(20)
        work()

    if not together:
        first()
        second()
        return
    threads = [threading.Thread(target=run, args=(work,)) for work in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.parametrize("place", ["file", "postgres"])
def test_reliability_18_an_acknowledgement_or_the_end_of_its_lease_counts_and_never_both(
    tmp_path: Path, place: str
) -> None:
    path = str(tmp_path / "jobs.db") if place == "file" else empty_database()
    worker, other = open_engine(path), open_engine(path)
    won: Counter[str] = Counter()
    for race in range(RACES if place == "file" else RACES // 5):
        key, token = taken(worker)
        refused: list[list[int]] = []
        lapsed: list[int] = []

        def acknowledge(key: int = key, token: int = token, refused: list[list[int]] = refused) -> None:
            refused.append(worker.succeed([key], token))

        def reclaim(lapsed: list[int] = lapsed) -> None:
            lapsed.append(other.apply(Call(lapse, lambda _: None)))

        order = (acknowledge, reclaim) if race % 3 else (reclaim, acknowledge)
        raced(*order, together=race % 3 == 2)
        jobs = other.apply(Call(lambda batch, key=key: batch.store.load([key]), lambda _: None))
        if refused == [[]]:
            won["acknowledgement"] += 1
            assert (lapsed, jobs) == ([0], [])
        else:
            won["end of the lease"] += 1
            assert (refused, sum(lapsed) <= 1) == (
                [[key]],
                True,
            )  # each engine looks by itself too, once a second
            assert [(job.state, job.interruptions) for job in jobs] == [(State.READY, 1)]
            (again,) = worker.take(["q"], 1).rows
            assert again[0] == key
            worker.succeed([key])
    print(won)
    assert len(won) == 2
    worker.close()
    other.close()
