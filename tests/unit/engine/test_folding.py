"""Jobs that are folded together: which one takes which payload in, and that a list that fails leaves no trace."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anew.engine import Entry, folding
from anew.errors import AnewError, InternalError, InvalidExpression, Overloaded
from anew.jobs import Job, State
from anew.jobs.codec import NewJob
from anew.jobs.zizq_ties import tied
from anew.store.sqlite import open_sqlite

from .rig import FaultyStore, Rig, enqueue, new_job, succeed


class Joined:
    """Stands for the language: joins payloads with a plus. `when` is no, or a text that the joined one must not pass in length.

    Attributes:
        asked: What it was asked, in order.
        error: What it raises.
    """

    most_bytes = 400_000

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, bytes]] = []
        self.error: AnewError | None = None

    def folded(self, when: str, fold: str, existing: bytes, new: bytes) -> bytes | None:
        self.asked.append((existing, new))
        if self.error is not None:
            raise self.error
        if fold == "fail":
            raise InvalidExpression("fold: no", field="fold")
        merged = existing + b"+" + new
        return merged if len(merged) <= int(when) else None

    def close(self) -> None: ...


@pytest.fixture
def joined() -> Joined:
    return Joined()


@pytest.fixture
def rig(joined: Joined) -> Rig:
    rig = Rig()
    rig.engine.parts.expressions = joined
    return rig


def foldable(payload: bytes, key: str = "k", when: int = 100, fold: str = "join", **fields: Any) -> NewJob:
    batch = b'{"key":"%b","when":"%d","fold":"%b"}' % (key.encode(), when, fold.encode())
    return tied(new_job("mail", payload, batch=msgspec.Raw(batch), **fields))


def payload_of(rig: Rig, key: int) -> bytes | None:
    (job,) = rig.store.load([key], payload=True)
    return job.payload


def test_jobs_of_one_list_and_of_one_batch_fold_in_order(rig: Rig) -> None:
    first, second = rig.apply(
        enqueue(foldable(b"1"), foldable(b"2"), new_job(payload=b"0")), enqueue(foldable(b"3"))
    )
    assert first.existing == {1: Entry.FOLDED}
    assert first.keys[0] == first.keys[1] == second.keys[0]
    assert second.existing == {0: Entry.FOLDED}
    assert payload_of(rig, first.keys[0]) == b"1+2+3"
    assert rig.store.counts()["mail"][State.READY] == 2


def test_keys_keep_apart_and_a_sealed_job_gives_way(rig: Rig) -> None:
    jobs = [foldable(b"1", "a", when=3), foldable(b"2", "b"), *(foldable(b"%d" % n, "a") for n in (3, 4, 5))]
    entered = rig.do(enqueue(*jobs, foldable(b"6", "b")))
    assert entered.existing == {2: Entry.FOLDED, 4: Entry.FOLDED, 5: Entry.FOLDED}
    payloads = {key: payload_of(rig, key) for key in entered.keys}
    assert list(payloads.values()) == [b"1+3", b"2+6", b"4+5"]


def test_a_list_that_cannot_be_folded_leaves_no_trace_and_hurts_no_other(rig: Rig, joined: Joined) -> None:
    (open_key,) = rig.put(foldable(b"1", fold="fail"))
    bad, good, other = rig.apply(
        enqueue(new_job(payload=b"0"), foldable(b"7", "other"), foldable(b"2")),
        enqueue(new_job(payload=b"8")),
        enqueue(foldable(b"9", "other")),
    )
    assert isinstance(bad, InvalidExpression)
    assert (good.existing, other.existing) == ({}, {})
    assert payload_of(rig, open_key) == b"1"
    assert rig.store.counts()["mail"][State.READY] == 3
    assert joined.asked == [(b"1", b"2")]


def test_a_batch_that_does_not_last_leaves_the_open_job_as_it_was(joined: Joined) -> None:
    store = FaultyStore(open_sqlite())
    rig = Rig(store)
    rig.engine.parts.expressions = joined
    (key,) = rig.put(foldable(b"1"))
    store.commits.append(RuntimeError("no"))
    assert isinstance(rig.do(enqueue(foldable(b"2"))), InternalError)
    assert payload_of(rig, key) == b"1"
    assert rig.do(enqueue(foldable(b"3"))).keys == [key]
    assert payload_of(rig, key) == b"1+3"


def test_a_job_that_ended_or_waits_for_its_time_is_not_asked(rig: Rig, joined: Joined) -> None:
    (taken,) = rig.put(foldable(b"1"))
    rig.worker(["mail"], prefetch=1)
    rig.do(succeed(taken))
    (later,) = rig.put(foldable(b"2", ready_at=rig.clock.now() + 1_000))
    rig.put(foldable(b"3"))
    rig.advance(1_000)
    assert rig.state(later) in (State.READY, State.IN_FLIGHT)
    assert joined.asked == []


def test_without_a_language_every_job_is_stored(rig: Rig) -> None:
    rig.engine.parts.expressions = None
    keys = rig.put(foldable(b"1"), foldable(b"2"))
    assert len(set(keys)) == 2


def test_a_payload_moves_between_the_row_and_its_own_parts(rig: Rig) -> None:
    long = b"x" * 300_000
    (key,) = rig.put(foldable(b"1", when=900_000))
    rig.put(foldable(long))
    assert payload_of(rig, key) == b"1+" + long
    rig.put(foldable(b"2"))
    assert payload_of(rig, key) == b"1+" + long + b"+2"
    worker = rig.worker(["mail"])
    assert worker.rows[0][-1] == b"1+" + long + b"+2"


@pytest.mark.parametrize("levels", [126, 127])
def test_a_fold_that_gives_what_nobody_could_send_is_refused(rig: Rig, levels: int) -> None:
    """A payload in MessagePack may have 1,008 levels."""
    (key,) = rig.put(foldable(b"[" * levels, when=9_000))
    entered = rig.do(enqueue(foldable(b"]" * levels)))
    if levels == 126:
        assert entered.keys == [key]
    else:
        assert isinstance(entered, InvalidExpression)
        assert str(entered) == "fold: payload nests more than 126 levels deep"


@pytest.mark.parametrize("error", [Overloaded("later"), InternalError("it does not start")])
def test_where_nothing_can_be_evaluated_a_list_is_refused_and_no_other(
    rig: Rig, joined: Joined, error: AnewError
) -> None:
    (key,) = rig.put(foldable(b"1"))
    joined.error = error
    refused, stored = rig.apply(enqueue(foldable(b"2")), enqueue(new_job(payload=b"3")))
    assert refused is joined.error
    assert stored.existing == {}
    assert rig.engine.stats.enqueued == 2
    assert payload_of(rig, key) == b"1"


def test_the_folds_of_one_transaction_have_their_time(
    rig: Rig, joined: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one may exceed it; lists after that are refused, and the next transaction has as much again."""
    (key,) = rig.put(foldable(b"1"))
    monkeypatch.setattr(folding, "FOLDING_S", 1e-9)
    first, second, whole = rig.apply(
        enqueue(foldable(b"2")), enqueue(foldable(b"3")), enqueue(foldable(b"4"), foldable(b"5"))
    )
    assert first.existing == {0: Entry.FOLDED}
    assert isinstance(second, Overloaded)
    assert isinstance(whole, Overloaded)
    assert rig.do(enqueue(foldable(b"6"))).keys == [key]
    assert isinstance(rig.do(enqueue(foldable(b"7"), foldable(b"8"))), Overloaded)
    assert payload_of(rig, key) == b"1+2+6"
    assert joined.asked == [(b"1", b"2"), (b"1+2", b"6"), (b"1+2+6", b"7")]


def test_a_payload_that_is_too_long_to_be_folded_is_not_read(
    rig: Rig, joined: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have 32 MiB, and everybody else would wait while they are read."""
    long = b"1" * 399_999
    (first,) = rig.put(foldable(long))
    load = rig.store.load
    asked: list[bool] = []

    def noting(keys: Any, *, payload: bool = False) -> list[Job]:
        asked.append(payload)
        return load(keys, payload=payload)

    monkeypatch.setattr(rig.store, "load", noting)
    (second,) = rig.put(foldable(b"22"))
    assert first != second
    assert (joined.asked, asked) == ([], [False])
    (third,) = rig.put(foldable(b"3"))
    assert third == second
