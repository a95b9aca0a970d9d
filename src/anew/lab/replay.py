"""What another policy would have made of recorded failures: earlier or later successes, calls saved, deaths.

Each recorded job fails for the first time when it did; from there on the other policy decides its waits, and the record
says what would have become of each call (`Evidence`). Where the record cannot say, the answer is a range: once with all
unknown calls succeeding, once with all of them failing. A job whose next call would come after the record's end, its last
failure or success, is on its way, unless its own success is on record: then that call succeeds, however late. No clock is
read, so the same record gives the same answer whenever one asks.
"""

from __future__ import annotations

import functools
import itertools
import statistics
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from anew.backoff import Exhausted, Policy, Previous, next_wait
from anew.errors import InvalidInput
from anew.jobs import ENDED, History, State
from anew.lab.chance import LabDraws

MAX_JOBS: Final = 100_000
"""The most jobs of one replay."""

MAX_CALLS: Final = 10_000_000
"""The most calls that one replay follows, at less than 10 µs each."""


class Shift(msgspec.Struct, frozen=True):
    """How much earlier jobs succeed that do so both ways; below zero: later."""

    jobs: int
    """How many they are."""
    median_earlier_ms: int | None
    earlier: int
    """How many succeed earlier than they did."""
    later: int


class Tally(msgspec.Struct, frozen=True):
    """What becomes of the jobs."""

    succeeded: int
    dead: int
    waiting: int
    """Jobs on their way: their next call would come after the record's end, and they have no success on record."""
    calls: int
    """Runs in all, the first ones included."""


class Replay(msgspec.Struct, frozen=True):
    """One policy against the record: at best every call succeeds of which the record cannot tell, at worst every one fails."""

    policy: object
    """Its JSON form."""
    best: Tally
    worst: Tally
    best_shift: Shift
    worst_shift: Shift
    unknown: float
    """Share of the worst case's retries of which the record cannot tell."""


class Record(msgspec.Struct, frozen=True):
    """What became of the jobs that failed at least once; when the first failed, and when the record ends, epoch ms."""

    jobs: int
    first_at: int | None
    last_at: int | None
    tally: Tally


class Seen:
    """Which types and queues a record has, counted as its jobs pass."""

    def __init__(self) -> None:
        self.types, self.queues = Counter[str](), Counter[str]()

    def passing(self, histories: Iterable[History]) -> Iterator[History]:
        """Give the jobs on, one by one."""
        for history in histories:
            self.types[history.job.type] += 1
            self.queues[history.job.queue] += 1
            yield history


class _Course(NamedTuple):
    """How one job fares: when it succeeded, whether it died, its runs, and how many of them nobody can judge."""

    success: int | None
    dead: bool
    calls: int
    unknown: int


def select(
    histories: Iterable[History],
    limit: int = MAX_JOBS,
    *,
    queues: Collection[str] = (),
    types: Collection[str] = (),
    since: int = 0,
) -> list[History]:
    """Pick the recorded jobs that are meant.

    Args:
        histories: The recorded jobs, the latest first.
        queues: Only of these; empty means any.
        since: Only jobs that first failed at or after this, epoch ms.
    """
    wanted = (
        history
        for history in histories
        if (not queues or history.job.queue in queues)
        and (not types or history.job.type in types)
        and history.failures[0].ended_at >= since
    )
    return list(itertools.islice(wanted, limit))


def recorded(histories: Sequence[History]) -> Record:
    """Sum up what was recorded."""
    courses = [_recorded_course(history) for history in histories]
    first = min((history.failures[0].ended_at for history in histories), default=None)
    return Record(len(histories), first, record_end(histories), _tally(courses))


def replay(policy: Policy, histories: Sequence[History], *, seed: int = 1) -> Replay:
    """Let recorded jobs, which have failed at least once, live again under another policy.

    Raises:
        InvalidInput: There are too many jobs, or the policy makes them call too often.
    """
    if len(histories) > MAX_JOBS:
        raise InvalidInput(
            f"histories: {len(histories)} jobs are too many; expected at most {MAX_JOBS}", field="histories"
        )
    evidence = Evidence(histories)
    best, worst = list[_Course](), list[_Course]()
    left = MAX_CALLS
    for number, history in enumerate(histories):
        luck = functools.partial(LabDraws.of, seed, number)
        for courses, hope in ((best, True), (worst, False)):
            courses.append(_course(policy, evidence, history, luck, hope=hope, most=left))
            left -= courses[-1].calls
    retries = sum(course.calls - 1 for course in worst)
    return Replay(
        policy=policy.to_json(),
        best=_tally(best),
        worst=_tally(worst),
        best_shift=_shift(histories, best),
        worst_shift=_shift(histories, worst),
        unknown=sum(course.unknown for course in worst) / retries if retries else 0.0,
    )


def _course(
    policy: Policy,
    evidence: Evidence,
    history: History,
    luck: Callable[[int], LabDraws],
    *,
    hope: bool,
    most: int,
) -> _Course:
    """Follow one job from its first recorded failure to its end, or beyond the record's.

    Args:
        luck: From a retry to what its wait may use.
        hope: Calls of which nobody can tell succeed.
        most: Calls that are followed.
    """
    failures = history.failures
    run_ms = round(statistics.median(span.ended_at - span.began_at for span in failures))
    began = failed_at = failures[0].ended_at
    previous = None
    calls, unknown = 1, 0
    while True:
        elapsed_ms = failed_at - began
        answer = next_wait(policy, calls, luck(calls), previous=previous, elapsed_ms=elapsed_ms)
        if isinstance(answer, Exhausted):
            return _Course(None, True, calls, unknown)
        previous = Previous(answer.carry)
        at = failed_at + answer.wait_ms
        succeeds = evidence.succeeds(history, at)
        if at > evidence.end_at and succeeds is None:
            return _Course(None, False, calls, unknown)
        calls += 1
        if calls > most:
            raise InvalidInput(
                f"policy: it makes these jobs call more than {MAX_CALLS:,} times before the record ends; "
                "expected longer waits, a limit, or fewer jobs",
                field="policy",
            )
        unknown += succeeds is None
        if succeeds or (hope and succeeds is None):
            return _Course(at, False, calls, unknown)
        failed_at = at + run_ms


def _recorded_course(history: History) -> _Course:
    success = succeeded_at(history)
    dead = history.job.state in ENDED and history.job.state is not State.COMPLETED
    return _Course(success, dead, len(history.failures) + (success is not None), 0)


def _tally(courses: Sequence[_Course]) -> Tally:
    succeeded = sum(course.success is not None for course in courses)
    dead = sum(course.dead for course in courses)
    return Tally(succeeded, dead, len(courses) - succeeded - dead, sum(course.calls for course in courses))


def _shift(histories: Sequence[History], courses: Sequence[_Course]) -> Shift:
    gains = [
        success - course.success
        for history, course in zip(histories, courses, strict=True)
        if (success := succeeded_at(history)) is not None and course.success is not None
    ]
    return Shift(
        jobs=len(gains),
        median_earlier_ms=round(statistics.median(gains)) if gains else None,
        earlier=sum(gain > 0 for gain in gains),
        later=sum(gain < 0 for gain in gains),
    )


# ---- what recorded attempts say about a call that nobody made: would it have failed at that moment?


def succeeded_at(history: History) -> int | None:
    """Tell when the call began that succeeded; None if the record holds none."""
    job = history.job
    if job.state is not State.COMPLETED:
        return None
    return job.dequeued_at if job.dequeued_at is not None else job.completed_at


def record_end(histories: Iterable[History]) -> int | None:
    """Tell when the record ends: with its last failure or success, epoch ms; None if it holds neither.

    What the clock says when one asks is no part of the record: the same store gives the same answer at any time.
    """
    ends = [
        ended
        for history in histories
        for ended in (history.failures[-1].ended_at, _completed_at(history))
        if ended is not None
    ]
    return max(ends, default=None)


def _completed_at(history: History) -> int | None:
    began = succeeded_at(history)
    return began if began is None else max(began, history.job.completed_at or began)


class Evidence:
    """All recorded calls of a store's jobs, by type.

    A call is taken to fail up to the job's own last recorded failure, and to succeed from its own recorded success on.
    Between the two, and where the job never succeeded, the other jobs of its type are asked: if the recorded calls just
    before and just after that instant ended alike, so would this one have; if they differ, or there is none on one side,
    nobody can tell.
    """

    def __init__(self, histories: Sequence[History]) -> None:
        self.end_at = record_end(histories) or 0
        calls: dict[str, list[tuple[int, bool]]] = {}
        for history in histories:
            of_type = calls.setdefault(history.job.type, [])
            of_type += [(span.began_at, False) for span in history.failures]
            success = succeeded_at(history)
            if success is not None:
                of_type.append((success, True))
        self._instants: dict[str, list[int]] = {}
        self._succeeded: dict[str, list[bool]] = {}
        for name, of_type in calls.items():
            of_type.sort()
            self._instants[name] = [at for at, _ in of_type]
            self._succeeded[name] = [good for _, good in of_type]

    def succeeds(self, history: History, at: int) -> bool | None:
        """Tell whether a call of this job would have succeeded at an instant, epoch ms; None: nobody can tell."""
        success = succeeded_at(history)
        if success is not None and at >= success:
            return True
        if at <= history.failures[-1].began_at:
            return False
        instants, succeeded = self._instants[history.job.type], self._succeeded[history.job.type]
        before, after = bisect_right(instants, at) - 1, bisect_left(instants, at)
        if before < 0 or after == len(instants) or succeeded[before] is not succeeded[after]:
            return None
        return succeeded[after]
