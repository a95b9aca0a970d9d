"""Faktory's stored jobs, as its Redis has them, to jobs that come with their past.

Faktory 1.10 keeps each job as the JSON that a worker gets: in lists, one a queue, and in three sets by time. A fourth set has the
jobs that are running, each inside the record of its reservation.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

import msgspec
from msgspec import Raw, Struct

from anew.errors import InvalidInput, InvalidJob
from anew.fwp import times
from anew.fwp.commands import read_push
from anew.fwp.enterprise import CustomMembers
from anew.fwp.jobs import CheckedJob, Failure, checked, meta_of, text_of
from anew.fwp.json_text import decode, repaired
from anew.fwp.policies import DEAD_MS, Policies
from anew.jobs.change import Decision
from anew.jobs.codec import LAST_INSTANT, JobHooks
from anew.jobs.moved import LatestFailure, MovedJob, Reservation
from anew.jobs.records import BACKTRACE_BYTES, ERROR_TYPE_BYTES, MESSAGE_BYTES, cut_middle
from anew.jobs.state import State

QUEUE: Final = "q:"
"""What the name of a queue's list begins with."""

SETS: Final = {
    "working": State.IN_FLIGHT,
    "scheduled": State.SCHEDULED,
    "retries": State.RETRYING,
    "dead": State.DEAD,
}
"""The sets by time, and where a job of each stands."""

TIES: Final = ("unique_for", "expires_at", "expires_in", "track", "bid")
"""Members of `custom` whose meaning is not moved: Faktory Enterprise keeps what belongs to them in places of its own."""


class _Reservation(Struct):
    job: Raw
    reserved_at: str | None = None
    wid: str | None = None


_reservation = msgspec.json.Decoder(_Reservation)


class StoredJobs:
    """Translates stored jobs.

    Args:
        policies: Of the server that is to run them.
        now: Epoch ms.

    Attributes:
        untied: How many jobs name each member of `TIES`.
    """

    def __init__(self, policies: Policies, now: int) -> None:
        self._policies = policies
        self._now = now
        self.untied: Counter[str] = Counter()

    def job(self, place: str, data: bytes, score: float | None) -> MovedJob:
        """Give one job.

        Args:
            place: One of `SETS`, ``q:NAME``, or ``NAME``.
            data: What stands there.
            score: Its time in a set, seconds since the epoch; None in a queue.

        Raises:
            InvalidInput: It cannot be read.
        """
        reserved = None
        if place == "working":
            held = decode(_reservation, data)
            data, until = bytes(held.job), _instant(score)
            since = self._past(held.reserved_at)
            reserved = Reservation(self._now if since is None else since, until, held.wid or "")
        push = read_push(repaired(data))
        if score is None:
            push.job.queue = place.removeprefix(QUEUE)
        job = checked(push.job)
        return self._moved(job, State.READY if score is None else SETS[place], score, reserved)

    def _moved(
        self, job: CheckedJob, state: State, score: float | None, reserved: Reservation | None
    ) -> MovedJob:
        pushed = self._policies.pushed(job, self._untied)
        fields = {name: getattr(pushed, name) for name in pushed.__struct_fields__}
        meta = meta_of(job.meta)
        enqueued_at = self._past(meta.enqueued_at)
        due_at = None if score is None else _instant(score)
        if state in (State.READY, State.IN_FLIGHT):
            fields["ready_at"] = enqueued_at
        else:
            fields["ready_at"] = enqueued_at if state is State.DEAD else due_at
        failure = None
        if meta.failure is not None and job.attempts:
            failure = self._latest(meta.failure, state, due_at, enqueued_at)
        purge_at = due_at if state is State.DEAD else None
        return MovedJob(**fields, state=state, failure=failure, purge_at=purge_at, reserved=reserved)

    def _latest(
        self, failure: Failure, state: State, due_at: int | None, enqueued_at: int | None
    ) -> LatestFailure:
        """Give the latest failure.

        Only the first one's time is stored. The latest was at the death of a dead job, and else not before its last run began.
        """
        first = self._past(failure.failed_at)
        if first is None:
            first = self._now if enqueued_at is None else enqueued_at
        last = first
        if state is State.DEAD and due_at is not None:
            last = max(min(due_at - DEAD_MS, self._now), first)
        elif failure.retry_count and enqueued_at is not None:
            last = max(enqueued_at, first)
        dead = state is State.DEAD
        due = None if dead else due_at if state is State.RETRYING else self._past(failure.next_at)
        decision = Decision(verdict="dead" if dead else "retry", reason="decided by Faktory", due_at=due)
        backtrace = text_of(failure.backtrace)
        return LatestFailure(
            message=cut_middle(failure.message, MESSAGE_BYTES),
            error_type=cut_middle(failure.errtype, ERROR_TYPE_BYTES) or None,
            backtrace=cut_middle(backtrace, BACKTRACE_BYTES) if failure.backtrace else None,
            first_failed_at=first,
            failed_at=last,
            decision=msgspec.json.encode(decision),
        )

    def _past(self, text: str | None) -> int | None:
        """Read an instant that has been; None where there is none, or one that cannot be read."""
        try:
            return min(times.parse(text), self._now) if text else None
        except InvalidInput:
            return None

    def _untied(self, custom: CustomMembers, job: CheckedJob) -> JobHooks | None:
        self.untied.update(name for name in TIES if getattr(custom, name) not in (None, False, 0))
        return None


def _instant(score: float | None) -> int:
    """Give a set's time in epoch ms; as in `times.parse`, a fraction counts as a whole one."""
    if score is None or not 0 <= score <= LAST_INSTANT / 1_000:
        raise InvalidJob(f"the time {score} is none; expected seconds since 1970", field="score", value=score)
    # A score has 52 bits, which at these numbers are parts of a microsecond: what is below that is no fraction.
    return math.ceil(round(score * 1_000, 3))
