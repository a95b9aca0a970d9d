"""What pages show of jobs, failures and queues: words in place of numbers. Pure: `now` comes from the caller."""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from anew.backoff import Policy
from anew.engine.workers import ConnectedWorker, WorkerState
from anew.jobs import ErrorRecord, IdText, Job, Move, State
from anew.jobs.change import shown_decision
from anew.jobs.terms import policy_of
from anew.jobs.transitions import sources
from anew.lab.charts.link import link
from anew.lab.laws.spans import spans
from anew.store.page_reads import Process, QueueRow
from anew.units import DAY_MS, format_duration, format_duration_about, format_range, format_size

MOST_TEXT: Final = 64 << 10
"""Characters of a payload or a backtrace on a page; the API gives the whole."""

DEEPEST: Final = 50
"""Levels of a payload that is indented: each line of a deep one would have that many blanks in front."""

PLANNED: Final = 3
"""Retries ahead that a job's page shows."""

MOST_PLANNED: Final = 1_000
"""Failures above which none is: each retry is calculated from those before it."""

DAYS: Final = 30
"""Days that the history has."""

DOABLE: Final[Mapping[str, frozenset[State]]] = {
    "retry": frozenset(sources(Move.REDRIVE)),
    "run": frozenset(sources(Move.HASTEN)),
    "cancel": frozenset(sources(Move.CANCEL)),
    "delete": frozenset(State),
}
"""What people may do with a job, and in which states."""

_DOORS: Final = {"http": "take stream", "faktory": "Faktory"}

_BRACKETS: Final = re.compile(rb'[\[\]{}]|"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""Brackets, and texts whole, since those may have brackets in them. Where damage took the end of a text, it is the rest: nothing is
looked at twice."""

_decision = msgspec.json.Decoder(dict[str, Any])


class Moment(NamedTuple):
    """An instant: from now, and by the calendar (UTC)."""

    words: str
    exact: str


class Day(NamedTuple):
    """Attempts that have ended on a day (UTC).

    Attributes:
        date: Such as ``2026-11-23``.
        good, failed: How many.
    """

    date: str
    good: int
    failed: int


def moment(at: int, now: int) -> Moment:
    """Give an instant in words."""
    distance = format_duration_about(abs(at - now))
    words = f"in {distance}" if at > now else f"{distance} ago" if at < now else "now"
    try:
        then = datetime.datetime.fromtimestamp(at / 1000, tz=datetime.UTC)
    except (OverflowError, OSError, ValueError):
        return Moment(words, "after all calendars")
    return Moment(words, f"{then:%Y-%m-%d %H:%M:%S} UTC")


def job_row(ids: IdText, job: Job, failure: ErrorRecord | None, now: int) -> dict[str, Any]:
    """Give what a list shows of a job."""
    what, at = _what_matters(job)
    return {
        "id": ids.write(job.key),
        "type": job.type,
        "queue": job.queue,
        "state": str(job.state),
        "attempts": job.attempts,
        "what": what,
        "when": None if at is None else moment(at, now),
        "error": "" if failure is None else error_text(failure),
    }


def _what_matters(job: Job) -> tuple[str, int | None]:
    """Give the instant that matters in a job's state, and what it is."""
    match job.state:
        case State.SCHEDULED:
            return "runs", job.ready_at
        case State.RETRYING:
            return f"retry {job.attempts}", job.ready_at
        case State.READY:
            return "ready", job.ready_at
        case State.IN_FLIGHT:
            return "taken", job.dequeued_at
        case State.COMPLETED:
            return "completed", job.completed_at
        case State.DEAD:
            return "died", job.failed_at
        case State.CANCELLED:
            return "cancelled", None


def error_text(failure: ErrorRecord) -> str:
    """Give what went wrong on one line, its class in front if there is one."""
    return ": ".join(part for part in (failure.error_type, failure.message) if part)


def facts(job: Job, now: int) -> list[tuple[str, str, Moment | None]]:
    """Give what a job's own page says of it, in order: a name, a text, an instant."""
    due = "Due" if job.state in (State.SCHEDULED, State.RETRYING) else "Became ready"
    found: list[tuple[str, str | None, int | None]] = [
        ("Priority", f"{job.priority:,}", None),
        ("Id from its producer", job.jid, None),
        ("Failures", f"{job.attempts:,}", None),
        ("Retries allowed", None if job.retry_limit is None else f"{job.retry_limit:,}", None),
        ("Interruptions in a row", f"{job.interruptions:,}" if job.interruptions else None, None),
        (due, None, job.ready_at),
        ("Taken", None, job.dequeued_at),
        ("First failed", None, job.first_failed_at),
        ("Last failed", None, job.failed_at),
        ("Completed", None, job.completed_at),
        ("Will be removed", None, job.purge_at),
    ]
    return [
        (name, text or "", None if at is None else moment(at, now))
        for name, text, at in found
        if text is not None or at is not None
    ]


def payload_text(payload: bytes) -> str:
    """Give a payload as text that people read: JSON indented, unless it is nested so deep that little but blanks would be seen."""
    if len(payload) <= MOST_TEXT and _depth(payload) <= DEEPEST:
        with contextlib.suppress(msgspec.DecodeError):  # what is stored may have been damaged
            payload = msgspec.json.format(payload, indent=2)
    return cut(payload.decode("utf-8", "replace"))


def _depth(payload: bytes) -> int:
    """Count how deep JSON is nested."""
    depth = deepest = 0
    for found in _BRACKETS.finditer(payload):
        if found[0] in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif found[0] in b"]}":
            depth -= 1
    return deepest


def cut(text: str) -> str:
    """Cut a long text, and say so."""
    return (
        text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}\n… {len(text) - MOST_TEXT:,} characters more"
    )


def attempt(record: ErrorRecord, now: int) -> dict[str, Any]:
    """Give what a job's page shows of one attempt that failed."""
    return {
        "number": record.attempt,
        "outcome": record.outcome.replace("_", " "),
        "when": moment(record.failed_at, now),
        "ran": format_duration(max(0, record.failed_at - record.dequeued_at)),
        "error": cut(error_text(record)),
        "backtrace": cut(record.backtrace or ""),
        "decision": _decision_words(record),
        "worker": record.worker or "",
    }


def _decision_words(record: ErrorRecord) -> str:
    """Give what was decided after an attempt and why, in words."""
    if record.decision is None:
        return ""
    try:
        decided = _decision.decode(shown_decision(record.decision, record.attempt))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    wait, reason = decided.get("wait_ms"), str(decided.get("reason", ""))
    verdict = str(decided.get("verdict", ""))
    waited = f"{verdict} after {format_duration(wait)}" if isinstance(wait, int) else verdict
    return f"{waited}: {reason}" if reason else waited


class Plan(NamedTuple):
    """What a job's policy holds for it.

    Attributes:
        retries: Of the next ones: its number, and how long it waits.
        left: How many are left; None: no end.
        link: The policy in the lab; "" if the lab cannot show it.
    """

    retries: Sequence[tuple[int, str]]
    left: int | None
    link: str


def plan(job: Job, default: Policy) -> Plan | None:
    """Tell what comes if a job goes on failing; None of one that has ended, or whose policy cannot be read."""
    policy = policy_of(job.policy, job.retry_limit, default)
    if policy is None or job.state in (State.COMPLETED, State.DEAD, State.CANCELLED):
        return None
    retries: list[tuple[int, str]] = []
    total = policy.retries
    if job.attempts < MOST_PLANNED:
        last = job.attempts + PLANNED if total is None else min(total, job.attempts + PLANNED)
        for span in islice(spans(policy, last), job.attempts, None):
            known = span.earliest_ms is not None and span.latest_ms is not None
            waits = (
                format_range(span.earliest_ms or 0, span.latest_ms or 0) if known else "as a function decides"
            )
            retries.append((span.retry, waits))
    return Plan(retries, None if total is None else max(0, total - job.attempts), link([policy.to_json()]))


def doable(state: State) -> list[str]:
    """List what people may do with a job in a state."""
    return [name for name, states in DOABLE.items() if state in states]


def history(ended: Mapping[int, tuple[int, int]], now: int) -> list[Day]:
    """Give the attempts that have ended on each of the last days, today last."""
    today = now // DAY_MS
    return [_day(day, *ended.get(day, (0, 0))) for day in range(today - DAYS + 1, today + 1)]


def _day(day: int, processed: int, failed: int) -> Day:
    date = datetime.date(1970, 1, 1) + datetime.timedelta(days=day)
    return Day(f"{date:%Y-%m-%d}", processed - failed, failed)


def worker_row(worker: ConnectedWorker, now: int) -> dict[str, Any]:
    """Give what the list of workers shows of one."""
    place = ":".join(str(part) for part in (worker.host, worker.pid) if part is not None)
    queues = "" if worker.queues is None else ", ".join(worker.queues)
    return {
        "id": worker.id,
        "door": _DOORS[worker.door],
        "place": place,
        "about": ", ".join(worker.labels)
        or (cut(queues) if queues else "all queues" if worker.door == "http" else ""),
        "state": worker.state.name.lower(),
        "since": moment(worker.since, now),
        "connections": worker.connections,
        "jobs": worker.jobs,
        "memory": "" if worker.rss_kb is None else format_size(worker.rss_kb << 10),
        "path": f"/ui/workers/{quote(worker.id, safe='')}",
        "tell": [
            word
            for word, state in (("quiet", WorkerState.QUIET), ("terminate", WorkerState.TERMINATE))
            if worker.state < state and (word == "quiet" or worker.door == "faktory")
        ],
    }


def process_row(process: Process, ours: int, now: int) -> dict[str, Any]:
    """Give what the list of processes shows of one.

    Args:
        process: As it is read.
        ours: The session of this server.
        now: Epoch ms.
    """
    return {
        "pid": process.pid,
        "since": moment(process.started_at, now),
        "jobs": process.jobs,
        "ours": process.session == ours,
    }


def queue_row(row: QueueRow, ready_since: int | None, now: int) -> dict[str, Any]:
    """Give what the list of queues shows of one."""
    return {
        "name": row.name,
        "paused": row.paused,
        "since": None if ready_since is None else moment(ready_since, now),
        **{str(state): row.jobs.get(state, 0) for state in State},
    }
