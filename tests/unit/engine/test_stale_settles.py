"""Reports of attempts that have ended, or whose jobs others have by now: they change nothing, and are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from anew.engine import Acknowledge, Fail, Fetch, Op, Reject, Succeed
from anew.engine.reports import GOES_ON, RELEASE, Report, Reports
from anew.errors import NotFound, StoreFull
from anew.jobs import Failed, Snoozed
from anew.jobs.codec import PushedJob
from anew.store.sqlite import open_sqlite

from .rig import NOW, FaultyStore, Once, Rig, ignore, new_job, succeed

FAILED = Failed(message="no")

LATE: dict[str, Callable[[int, int], Op]] = {
    "an ack": lambda key, token: Succeed([key], ignore, [token]),
    "a failure": lambda key, token: Fail(key, FAILED, ignore, token),
    "a snooze": lambda key, token: Fail(key, Snoozed(ready_at=NOW, reason=""), ignore, token),
    "a remote worker's success": lambda key, token: Reports([Report(key, NOW, None)], ignore),
    "a remote worker's failure": lambda key, token: Reports([Report(key, NOW, FAILED)], ignore),
    "a remote worker's return": lambda key, token: Reports([Report(key, NOW, RELEASE)], ignore),
    "a remote worker's sign of life": lambda key, token: Reports([Report(key, NOW, GOES_ON)], ignore),
}
"""By an old token, or an old instant of a take."""


@pytest.mark.parametrize("what", LATE)
def test_reliability_17_a_report_of_an_attempt_that_another_has_taken_over_changes_nothing_and_is_counted(
    rig: Rig, what: str
) -> None:
    (key,) = rig.put(new_job())
    first = rig.worker()
    token = first.taker.held[key]
    rig.do(rig.leave(first))
    rig.clock.advance(1)
    second = rig.worker()
    before = rig.job(key)
    rig.do(LATE[what](key, token))
    assert rig.job(key) == before
    assert (rig.engine.stats.stale, rig.engine.stats.completed, rig.engine.stats.failed) == (1, 0, 0)
    assert second.held == {key}
    assert rig.do(Succeed([key], ignore, [second.taker.held[key]])) == []
    assert rig.engine.stats.stale == 1


@pytest.mark.parametrize(
    ("op", "result"), [(Acknowledge("j", ignore), False), (Reject("j", FAILED, ignore), NotFound)]
)
def test_reliability_17_a_report_by_a_producers_id_after_the_end_is_counted(
    rig: Rig, op: Op, result: Any
) -> None:
    rig.put(PushedJob(type="send", queue="mail", payload=msgspec.Raw(b"[1]"), jid="j"))
    answer = Once()
    rig.engine.apply([Fetch(("mail",), answer)])
    assert rig.do(Acknowledge("j", ignore)) is True
    assert rig.engine.stats.stale == 0
    said = rig.do(op)
    assert said is result or isinstance(said, NotFound)
    assert rig.engine.stats.stale == 1


def test_a_report_that_is_applied_twice_is_counted_once() -> None:
    store = FaultyStore(open_sqlite())
    rig = Rig(store)
    store.commits.append(StoreFull("full"))
    assert rig.do(succeed(1)) == [1]
    assert rig.engine.stats.stale == 1
