"""Jobs that are folded together: which one takes which payload in, and that a list that fails leaves no trace."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anew.engine import Entry, folding
from anew.errors import AnewError, InternalError, InvalidExpression, Overloaded, TooLarge
from anew.jobs import Job, State
from anew.jobs.codec import FoldRule, JobHooks, LimitKey, NewJob, PushedJob
from anew.jobs.fold import MOST_CALLS, MOST_MERGED_CALLS, call_digest
from anew.jobs.zizq_ties import tied
from anew.store.sqlite import open_sqlite

from .rig import FaultyStore, Rig, enqueue, fail, new_job, succeed
from .rig import call as verb


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
        return merged if when == "true" or len(merged) <= int(when) else None

    def check_fold(self, when: str, fold: str, payload: bytes, what: str = "batch") -> bytes:
        raise NotImplementedError

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
    assert rig.store.queues.counts()["mail"][State.READY] == 2


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
    assert rig.store.queues.counts()["mail"][State.READY] == 3
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


# -- calls, which bring their own rule


def call(
    payload: bytes = b"1", key: str = "k", expires_at: int | None = None, limit: str = "", **rule: Any
) -> PushedJob:
    ready_at = rule.pop("ready_at", None)
    hooks = JobHooks(
        fold=call_digest("t", "q", key.encode()),
        rule=FoldRule(**rule),
        expires_at=expires_at,
        limit=LimitKey(limit, 1) if limit else None,
    )
    return PushedJob("t", "q", msgspec.Raw(payload), ready_at=ready_at, hooks=hooks)


def debounced(payload: bytes = b"1", **more: Any) -> PushedJob:
    return call(payload, quiet_ms=10_000, most_ms=25_000, **more)


def folded_into(rig: Rig, key: int) -> int:
    (job,) = rig.store.hooks.among([key])
    return job.folded


def test_a_debounced_job_runs_once_the_calls_have_stopped_with_the_latest_payload(
    rig: Rig, joined: Joined
) -> None:
    now = rig.clock.now()
    (key,) = rig.put(debounced(b"1"))
    assert (rig.state(key), rig.job(key).ready_at) == (State.SCHEDULED, now + 10_000)
    rig.advance(9_000)
    entered = rig.do(enqueue(debounced(b"2"), new_job(), debounced(b"3")))
    assert (entered.existing, entered.keys[0], entered.keys[2]) == (
        {0: Entry.FOLDED, 2: Entry.FOLDED},
        key,
        key,
    )
    assert rig.job(key).ready_at == now + 19_000
    rig.advance(9_999)
    assert rig.state(key) is State.SCHEDULED
    rig.advance(1)
    assert (rig.state(key), payload_of(rig, key)) == (State.READY, b"3")
    assert folded_into(rig, key) == 2
    assert joined.asked == []


def test_a_steady_stream_of_calls_does_not_put_a_job_off_for_ever(rig: Rig) -> None:
    now = rig.clock.now()
    (key,) = rig.put(debounced())
    for n in range(2, 6):
        rig.advance(5_000)
        assert rig.put(debounced(b"%d" % n)) == [key]
    assert rig.job(key).ready_at == now + 25_000
    rig.advance(5_000)
    assert rig.state(key) is State.READY
    assert rig.put(debounced(b"6")) == [key]  # nobody has taken it yet
    assert (rig.state(key), payload_of(rig, key)) == (State.READY, b"6")


def test_a_job_that_is_ready_is_put_off_by_one_more_call(rig: Rig) -> None:
    (key,) = rig.put(debounced())
    rig.advance(10_000)
    assert rig.state(key) is State.READY
    assert rig.put(debounced(b"2")) == [key]
    assert (rig.state(key), rig.job(key).ready_at) == (State.SCHEDULED, rig.clock.now() + 10_000)
    worker = rig.worker(["q"])
    rig.advance(10_000)
    assert worker.keys == [key]


def test_what_has_begun_is_not_folded_into(rig: Rig) -> None:
    (key,) = rig.put(debounced())
    rig.advance(10_000)
    worker = rig.worker(["q"], prefetch=1)
    assert worker.keys == [key]
    (second,) = rig.put(debounced(b"2"))
    assert second != key
    rig.do(fail(key))
    assert rig.state(key) is State.RETRYING
    assert rig.put(debounced(b"3")) == [second]
    assert payload_of(rig, key) == b"1"


def test_a_job_that_was_given_back_is_not_folded_into(rig: Rig) -> None:
    (key,) = rig.put(call())
    worker = rig.worker(["q"], prefetch=1)
    rig.do(rig.leave(worker, interrupted=False))
    assert rig.state(key) is State.READY
    assert rig.put(call(b"2")) != [key]


def test_a_job_that_was_cancelled_or_removed_is_not_folded_into(rig: Rig) -> None:
    (first,) = rig.put(debounced())
    rig.do(verb(lambda batch: batch.delete([first])))
    (second,) = rig.put(debounced())
    assert second != first


def test_merged_calls_run_at_the_earliest_time_that_one_of_them_has_asked_for(rig: Rig) -> None:
    now = rig.clock.now()
    (key,) = rig.put(call(b"1", merge="join", ready_at=now + 5_000))
    assert rig.put(call(b"2", merge="join", ready_at=now + 9_000)) == [key]
    assert (rig.state(key), rig.job(key).ready_at, payload_of(rig, key)) == (
        State.SCHEDULED,
        now + 5_000,
        b"1+2",
    )
    assert rig.put(call(b"3", merge="join")) == [key]
    assert (rig.state(key), rig.job(key).ready_at, payload_of(rig, key)) == (State.READY, now, b"1+2+3")


def test_the_rule_of_the_latest_call_holds(rig: Rig) -> None:
    (key,) = rig.put(debounced(b"1"))
    assert rig.put(call(b"2", merge="join", quiet_ms=1_000, most_ms=1_000)) == [key]
    assert (rig.job(key).ready_at, payload_of(rig, key)) == (rig.clock.now() + 1_000, b"1+2")


def test_payloads_that_are_too_long_to_be_merged_begin_a_new_job(rig: Rig, joined: Joined) -> None:
    joined.most_bytes = 5
    (key,) = rig.put(call(b"123", merge="join"))
    (second,) = rig.put(call(b"456", merge="join"))
    assert second != key
    assert rig.put(call(b"7", merge="join")) == [second]
    assert joined.asked == [(b"456", b"7")]


def test_an_expression_that_fails_refuses_the_call_alone(rig: Rig) -> None:
    (key,) = rig.put(call(b"1"))
    bad, good = rig.apply(enqueue(new_job(), call(b"2", merge="fail")), enqueue(call(b"3", merge="join")))
    assert isinstance(bad, InvalidExpression)
    assert good.keys == [key]
    assert payload_of(rig, key) == b"1+3"


def test_a_job_of_several_calls_expires_when_the_last_of_them_would(rig: Rig) -> None:
    now = rig.clock.now()
    (key,) = rig.put(call(expires_at=now + 1_000))
    rig.put(call(expires_at=now + 3_000))
    rig.advance(2_000)
    worker = rig.worker(["q"], prefetch=1)
    assert worker.keys == [key]
    (other,) = rig.put(call(expires_at=now + 3_000))
    rig.put(call())  # which never expires
    rig.advance(60_000)
    rig.do(succeed(key))
    assert worker.keys == [key, other]


def test_a_job_that_its_key_keeps_from_starting_is_folded_into_and_put_off(rig: Rig) -> None:
    worker = rig.worker(["q"], prefetch=5)
    (running,) = rig.put(call(b"0", key="other", limit="one"))
    (key,) = rig.put(call(b"1", limit="one", quiet_ms=1, most_ms=100_000))
    rig.advance(1)
    assert (worker.keys, rig.state(key)) == ([running], State.READY)
    assert rig.put(call(b"2", limit="one", quiet_ms=10_000, most_ms=100_000)) == [key]
    rig.do(succeed(running))
    assert (worker.keys, rig.state(key)) == ([running], State.SCHEDULED)
    rig.advance(10_000)
    assert (worker.keys, worker.rows[-1][-1]) == ([running, key], b"2")


@pytest.mark.parametrize(
    ("most", "rule"), [(MOST_CALLS, {"quiet_ms": 5, "most_ms": 5}), (MOST_MERGED_CALLS, {"merge": "join"})]
)
def test_calls_of_one_list_are_bounded(rig: Rig, most: int, rule: dict[str, Any]) -> None:
    jobs = [call(b"1", key=str(n), **rule) for n in range(most + 1)]
    refused = rig.do(enqueue(*jobs))
    assert isinstance(refused, TooLarge)
    assert f"at most {most}" in str(refused)
    assert rig.store.queues.counts() == {}
    assert len(set(rig.put(*jobs[1:]))) == most


def test_a_batch_that_does_not_last_leaves_the_time_and_the_payload_as_they_were() -> None:
    store = FaultyStore(open_sqlite())
    rig = Rig(store)
    (key,) = rig.put(debounced(b"1"))
    before = rig.job(key)
    rig.advance(5_000)
    store.commits.append(RuntimeError("no"))
    assert isinstance(rig.do(enqueue(debounced(b"2"))), InternalError)
    assert (rig.job(key), payload_of(rig, key), folded_into(rig, key)) == (before, b"1", 0)
    rig.advance(5_000)
    assert rig.state(key) is State.READY
