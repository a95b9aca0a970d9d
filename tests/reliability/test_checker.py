"""The judge itself on trial: hand-written bad histories, each rejected by the right rule (checklist 59)."""

from __future__ import annotations

import time

import pytest

from .checker import check
from .history import (
    Answer,
    Closed,
    Delivery,
    Down,
    Event,
    Expired,
    Invoke,
    Opened,
    Record,
    Verdict,
)

S1, S2 = 1, 2


def enqueued(key: str = "a", at: float = 10, outcome: str = "ok", **asked: object) -> list[Event]:
    """An enqueue of one job and its answer one millisecond later; its server-side id is ``id-<key>``."""
    ident = f"id-{key}" if outcome == "ok" else ""
    asked.setdefault("digest", f"sum-{key}")
    return [Invoke(at, "enqueue", key, **asked), Answer(at + 1, at, "enqueue", outcome, key, id=ident)]  # type: ignore[arg-type]


def delivered(key: str = "a", at: float = 20, stream: int = S1, **told: object) -> list[Event]:
    """A delivery as the server should make it, one millisecond after it was handed out."""
    facts: dict[str, object] = {"id": f"id-{key}", "digest": f"sum-{key}", "dequeued_at": int(at) - 1} | told
    return [Delivery(at, stream, key, **facts)]  # type: ignore[arg-type]


def success(key: str = "a", at: float = 30, outcome: str = "ok", token: str = "") -> list[Event]:
    """A success report and its answer one millisecond later."""
    return [Invoke(at, "success", key), Answer(at + 1, at, "success", outcome, key, token=token)]


def failure(key: str = "a", at: float = 30, outcome: str = "ok", **told: object) -> list[Event]:
    """A failure report and its answer one millisecond later."""
    told = {"attempts": 1, "state": "scheduled", "ready_at": int(at) + 10} | told
    return [Invoke(at, "failure", key), Answer(at + 1, at, "failure", outcome, key, **told)]  # type: ignore[arg-type]


STREAMS: list[Event] = [Opened(1, S1), Opened(2, S2)]


def judge(*parts: list[Event], final: list[Record] | None = None, single_consumer: bool = False) -> Verdict:
    """Judge two open streams followed by the parts in order."""
    events = STREAMS + [event for part in parts for event in part]
    return check(events, final or [], single_consumer=single_consumer)


GOOD: dict[str, tuple[list[list[Event]], list[Record]]] = {
    "one clean run": ([enqueued(), delivered(), success()], []),
    "a retained success": (
        [enqueued(retained=True), delivered(), success()],
        [Record("a", "id-a", "completed")],
    ),
    "a failure, a retry, a success": (
        [enqueued(), delivered(), failure(at=30), delivered(at=45, attempts=1, ready_at=40), success(at=50)],
        [],
    ),
    "a death": ([enqueued(), delivered(), failure(state="dead", ready_at=0)], [Record("a", "id-a", "dead")]),
    "a refused enqueue that left nothing": ([enqueued(outcome="refused")], []),
    "an unknown enqueue that did not happen": ([enqueued(outcome="unknown")], []),
    "an unknown enqueue that did": ([enqueued(outcome="unknown"), delivered(), success()], []),
    "an enqueue still without an answer, delivered": ([enqueued()[:1], delivered(), success()], []),
    "a success without an answer that happened": ([enqueued(), delivered(), success(outcome="unknown")], []),
    "a success without an answer that did not": (
        [
            enqueued(),
            delivered(),
            success(outcome="unknown"),
            [Down(40), Opened(50, 3)],
            delivered(at=60, stream=3),
            success(at=70),
        ],
        [],
    ),
    "a failure without an answer that happened": (
        [enqueued(), delivered(), failure(outcome="unknown"), delivered(at=60, attempts=1), success(at=70)],
        [],
    ),
    "a failure without an answer that did not": (
        [enqueued(), delivered(), failure(outcome="unknown"), delivered(at=60), success(at=70)],
        [],
    ),
    "a stream closed in the middle": (
        [enqueued(), delivered(), [Closed(25, S1)], delivered(at=26, stream=S2), success()],
        [],
    ),
    "a lease that ran out": (
        [enqueued(), delivered(), [Expired(25, "a")], delivered(at=26, stream=S2), success()],
        [],
    ),
    "a retry read before the answer to its failure": (
        [
            enqueued(),
            delivered(),
            failure()[:1],
            delivered(at=30.5, attempts=1, stream=S2),
            failure(ready_at=30)[1:],
            success(at=33),
        ],
        [],
    ),
    "a second success refused": ([enqueued(), delivered(), success(), success(at=40, outcome="refused")], []),
    "a delivery that lay in the socket while a late success was accepted": (
        [
            enqueued(),
            delivered(),
            [Closed(22, S1)],
            success(at=30),
            delivered(at=35, stream=S2, dequeued_at=25),
        ],
        [],
    ),
    "a scheduled job on time": (
        [enqueued(ready_at=500), delivered(at=500, ready_at=500), success(at=501)],
        [],
    ),
    "the newest lease": ([enqueued(), delivered(token="t1"), success(token="t1")], []),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_history_is_accepted(name: str) -> None:
    parts, final = GOOD[name]
    assert judge(*parts, final=final).violations == []


BAD: dict[str, tuple[int, list[list[Event]], list[Record]]] = {
    "1: accepted, never seen again": (1, [enqueued()], []),
    "1: delivered, never settled, gone": (1, [enqueued(), delivered()], []),
    "1: failed for good, its record gone": (1, [enqueued(), delivered(), failure(state="dead")], []),
    "1: succeeded, to be kept, gone": (1, [enqueued(retained=True), delivered(), success()], []),
    "1: succeeded, stored as dead": (1, [enqueued(), delivered(), success()], [Record("a", "id-a", "dead")]),
    "1: completed by nobody": (1, [enqueued(), delivered()], [Record("a", "id-a", "completed")]),
    "1: its success refused, gone all the same": (
        1,
        [enqueued(), delivered(), success(outcome="refused")],
        [],
    ),
    "2: delivered, enqueued by nobody": (2, [delivered("ghost")], []),
    "2: another payload": (2, [enqueued(), delivered(digest="sum-b"), success()], []),
    "2: refused, delivered": (2, [enqueued(outcome="refused"), delivered(), success()], []),
    "2: refused, stored": (2, [enqueued(outcome="refused")], [Record("a", "", "dead")]),
    "2: stored, enqueued by nobody": (2, [], [Record("ghost", "id-ghost", "dead")]),
    "3: delivered after its success, same server": (
        3,
        [enqueued(), delivered(), success(), delivered(at=40, stream=S2)],
        [],
    ),
    "3: delivered after its success, after a restart, on a lying time stamp": (
        3,
        [
            enqueued(),
            delivered(),
            success(),
            [Down(40), Opened(50, 3)],
            delivered(at=60, stream=3, dequeued_at=19),
        ],
        [],
    ),
    "3: delivered after its death": (
        3,
        [enqueued(), delivered(), failure(state="dead"), delivered(at=40, attempts=1)],
        [Record("a", "id-a", "dead")],
    ),
    "4: two successes accepted": (4, [enqueued(), delivered(), success(), success(at=40)], []),
    "4: a success for a job that nobody was handed": (4, [enqueued(), success()], []),
    "4: a failure accepted after a success": (4, [enqueued(), delivered(), success(), failure(at=40)], []),
    "4: a success under an old lease": (
        4,
        [
            enqueued(),
            delivered(token="t1"),
            [Closed(21, S1)],
            delivered(at=25, stream=S2, token="t2"),
            success(token="t1"),
        ],
        [],
    ),
    "5: two open streams hold it": (5, [enqueued(), delivered(), delivered(at=25, stream=S2), success()], []),
    "5: one stream holds it twice": (5, [enqueued(), delivered(), delivered(at=25), success()], []),
    "5: taken away because a settlement was refused": (
        5,
        [enqueued(), delivered(), success(at=22, outcome="refused"), delivered(at=25, stream=S2), success()],
        [],
    ),
    "6: attempts not kept": (6, [enqueued(), delivered(), failure(), delivered(at=45), success(at=50)], []),
    "6: attempts rise without a failure": (6, [enqueued(), delivered(attempts=1), success()], []),
    "6: attempts rise by two": (
        6,
        [enqueued(), delivered(), failure(attempts=2), delivered(at=45, attempts=2), success(at=50)],
        [],
    ),
    "6: two failures counted as one": (
        6,
        [
            enqueued(),
            delivered(),
            failure(),
            delivered(at=45, attempts=1),
            failure(at=50, attempts=1),
            delivered(at=65, attempts=1),
            success(at=70),
        ],
        [],
    ),
    "7: an unknown enqueue twice": (
        7,
        [enqueued(outcome="unknown"), delivered(id="x"), success()],
        [Record("a", "y", "completed")],
    ),
    "7: an accepted enqueue twice": (
        7,
        [enqueued(), delivered(), success(), [Closed(40, S1)], delivered(at=30, stream=S2, id="other")],
        [],
    ),
    "9: before the time asked for": (9, [enqueued(ready_at=500), delivered(at=499), success(at=501)], []),
    "9: before the time of its retry": (
        9,
        [enqueued(), delivered(), failure(ready_at=100), delivered(at=99, attempts=1), success(at=110)],
        [],
    ),
    "9: before the time that the server itself states": (
        9,
        [enqueued(), delivered(ready_at=21), success()],
        [],
    ),
    "10: ready for ever": (10, [enqueued()], [Record("a", "id-a", "ready")]),
    "10: in flight for ever": (10, [enqueued(), delivered()], [Record("a", "id-a", "in_flight")]),
    "10: scheduled for ever after a failure": (
        10,
        [enqueued(), delivered(), failure()],
        [Record("a", "id-a", "scheduled")],
    ),
    "10: unknown, present, never delivered": (
        10,
        [enqueued(outcome="unknown")],
        [Record("a", "id-a", "ready")],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_reliability_59_a_bad_history_is_rejected_by_its_rule(name: str) -> None:
    rule, parts, final = BAD[name]
    verdict = judge(*parts, final=final)
    assert set(verdict.broken) == {rule}, verdict.violations
    assert not verdict.ok


def test_rule_8_an_overtaking_delivery_to_a_single_consumer_is_rejected() -> None:
    first, second = enqueued("a", at=10, lane="q/1"), enqueued("b", at=12, lane="q/1")
    served = [delivered("b", at=20), success("b", at=22), delivered("a", at=24), success("a", at=26)]
    verdict = judge(first, second, *served, single_consumer=True)
    assert set(verdict.broken) == {8}


@pytest.mark.parametrize(
    ("lane_a", "lane_b", "asked_b", "ready_at"),
    [("q/1", "q/2", 12, 0), ("q/1", "q/1", 10.5, 0), ("q/1", "q/1", 12, 15)],
    ids=["another lane", "enqueued at the same time", "not yet due"],
)
def test_rule_8_leaves_alone_what_was_never_promised(
    lane_a: str, lane_b: str, asked_b: float, ready_at: int
) -> None:
    first = enqueued("a", at=10, lane=lane_a, ready_at=ready_at)
    second = enqueued("b", at=asked_b, lane=lane_b)
    served = [delivered("b", at=20), success("b", at=22), delivered("a", at=24), success("a", at=26)]
    assert judge(first, second, *served, single_consumer=True).ok


def test_the_counts_of_a_verdict() -> None:
    verdict = judge(
        enqueued("lost", at=3),
        enqueued("dead", at=4),
        enqueued("done", at=5),
        enqueued("no", at=6, outcome="refused"),
        enqueued("maybe", at=7, outcome="unknown"),
        enqueued("perhaps", at=8, outcome="unknown"),
        delivered("dead", at=12),
        failure("dead", at=14, state="dead"),
        delivered("done", at=20),
        [Closed(21, S1)],
        delivered("done", at=22, stream=S2),
        success("done", at=24),
        delivered("done", at=40, stream=S2),
        final=[Record("dead", "id-dead", "dead"), Record("perhaps", "p", "in_flight")],
    )
    assert (verdict.accepted, verdict.refused) == (3, 1)
    assert (verdict.in_doubt_present, verdict.in_doubt_absent) == (1, 1)
    assert (verdict.lost, verdict.resurrected, verdict.stuck) == (1, 1, 1)
    assert (verdict.deliveries, verdict.redeliveries, verdict.failures) == (4, 2, 1)
    assert (verdict.completed, verdict.dead) == (1, 1)


@pytest.mark.alone
def test_a_million_events_are_judged_in_time() -> None:
    """The judge may take 30 s for a million events, so that it never decides how much is tested."""
    events: list[Event] = list(STREAMS)
    for n in range(200_000):
        key, at = str(n), 10.0 + n
        events += enqueued(key, at=at)
        events += delivered(key, at=at + 2)
        events += success(key, at=at + 4)
    begun = time.monotonic()
    verdict = check(events, [])
    assert time.monotonic() - begun < 30
    assert len(events) > 1_000_000
    assert verdict.ok
    assert verdict.completed == 200_000
