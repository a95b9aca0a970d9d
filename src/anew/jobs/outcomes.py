"""How an attempt can end, as reported by whoever ran it. A closed set; `decide` turns each into a change."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

import msgspec


class Failed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The handler reported an error.

    Attributes:
        message: What went wrong; may be empty.
        error_type: The error's class name, if the worker knows it.
        backtrace: Where it happened, as text.
        retry_at: Run again at this instant (epoch ms), whatever curve and limit say; a floor, a ceiling or a deadline of the
            policy holds, see its `override`. None leaves it to the policy.
        kill: Do not run again, whatever policy, limit and `retry_at` say.
        outcome: How the attempt failed: its handler raised, or ran longer than it may.
        policy: JSON of the policy that holds for this kind of failure in place of the job's own. A limit of the job's own bounds
            its limit too. None: the job's own holds.
        limited: The limit holds for `retry_at` too.
        worker: Who reports it, where no stream or process holds the job that says so.
    """

    message: str
    error_type: str | None = None
    backtrace: str | None = None
    retry_at: int | None = None
    kill: bool = False
    outcome: Literal["error", "timeout"] = "error"
    policy: bytes | None = None
    limited: bool = False
    worker: str | None = None


class Snoozed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The handler asks to run later. This is no failure: it changes neither the attempts nor the waits of a later failure.

    Attributes:
        ready_at: When to run again, epoch ms.
        reason: Why; may be empty.
        outcome: ``rate_limited``: what the handler calls has refused it for the time being. ``held``: the handler was not called,
            since what it calls is failing. ``unknown_task``: the worker has no handler for it; it comes back after waits that
            grow, and is dead after a day of them, whatever `ready_at` and `most` say. Each is counted by itself.
        most: The most snoozes of the job; one more ends it. None: no limit.
    """

    ready_at: int
    reason: str = ""
    outcome: Literal["snoozed", "rate_limited", "held", "unknown_task"] = "snoozed"
    most: int | None = None


class Cancelled(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The handler calls its own job off.

    Attributes:
        reason: Why; may be empty.
    """

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Nobody reported: the hold on the job ended without a verdict.

    Attributes:
        cause: The worker that held it went away, or kept it longer than a lease lasts.
        limit: So many in a row end the job, as its worker wants it; None: the limit of whoever keeps the jobs holds.
        how: What is known of the end, such as "its process was killed by SIGKILL"; "": nothing.
    """

    cause: Literal["worker gone", "lease lapsed"]
    limit: int | None = None
    how: str = ""


class HoldKind(IntEnum):
    """Who holds a job in flight, which decides what the end of the hold means.

    STREAM: a take stream of a server. RESERVATION: a worker that took it for a period and need not stay connected. SESSION: a
    process that has the store open itself.
    """

    STREAM = 10
    RESERVATION = 20
    SESSION = 30


class HoldEnd(IntEnum):
    """How a hold ends without a report: its holder left, its deadline passed, or the process that answers for it has died.

    NEVER_BEGUN: it has died, and had said that it had not begun with the job.
    """

    HOLDER_LEFT = 1
    LAPSED = 2
    PROCESS_DIED = 3
    NEVER_BEGUN = 4


Outcome = Failed | Snoozed | Cancelled | Interrupted
"""How an attempt ends that does not succeed, as whoever ran it reports."""

Verdict = Interrupted | Failed | Literal["release", "stand"]
"""What the end of a hold counts as: an outcome; or the job goes back to its place uncounted, or the hold stands."""

RESERVATION_EXPIRED = Failed(message="reservation expired", error_type="ReservationExpired")
"""What becomes of a reservation that nobody has reported on in time."""

_VERDICTS: dict[tuple[HoldKind, HoldEnd], Verdict] = {
    (HoldKind.STREAM, HoldEnd.HOLDER_LEFT): Interrupted("worker gone"),
    (HoldKind.STREAM, HoldEnd.LAPSED): Interrupted("lease lapsed"),
    (HoldKind.STREAM, HoldEnd.PROCESS_DIED): "release",
    (HoldKind.RESERVATION, HoldEnd.HOLDER_LEFT): "stand",
    (HoldKind.RESERVATION, HoldEnd.LAPSED): RESERVATION_EXPIRED,
    (HoldKind.RESERVATION, HoldEnd.PROCESS_DIED): "stand",
    (HoldKind.SESSION, HoldEnd.HOLDER_LEFT): Interrupted("worker gone"),
    (HoldKind.SESSION, HoldEnd.LAPSED): Interrupted("lease lapsed"),
    (HoldKind.SESSION, HoldEnd.PROCESS_DIED): Interrupted("worker gone"),
    (HoldKind.STREAM, HoldEnd.NEVER_BEGUN): "release",
    (HoldKind.RESERVATION, HoldEnd.NEVER_BEGUN): "stand",
    (HoldKind.SESSION, HoldEnd.NEVER_BEGUN): "release",
}


_KINDS = frozenset(HoldKind)


def verdict_of(kind: int | None, end: HoldEnd) -> Verdict:
    """Report what the end of a hold counts as. A server that dies with its streams is no fault of their workers.

    A kind that is none, as a damaged row may have, gives its job back uncounted.
    """
    known = HoldKind(kind) if kind in _KINDS else None
    return "release" if known is None else _VERDICTS[known, end]
