"""What is known of a server, made of the messages of its live view. Pure: no terminal, no clock, no connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from anew.units import format_duration

Message = Mapping[str, Any]
Row = Mapping[str, Any]

LISTS: Final = ("in_flight", "ready", "scheduled")
"""In the order in which they are shown."""

TITLES: Final = {"in_flight": "In flight", "ready": "Ready", "scheduled": "Scheduled"}

_ORDER: Final = {"in_flight": "dequeued_at", "ready": "priority", "scheduled": "ready_at"}
_SINCE: Final = {"in_flight": "dequeued_at", "ready": "ready_at", "scheduled": "ready_at"}
TIMES: Final = {"in_flight": "RUNNING", "ready": "WAITING", "scheduled": "DUE IN"}
"""What the time of a job of each list is called."""

RATE_MS: Final = 5_000
"""Over how long ended attempts are counted."""

MAX_ROWS: Final = 2_000
"""Jobs of a list that are kept, whatever a server sends."""

MAX_ENDED: Final = 100_000
"""Ended attempts that are remembered for that."""


def printable(text: object) -> str:
    """Give a text of a job without what a terminal would obey."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in str(text))


@dataclass(slots=True)
class JobList:
    """One list, as far as it is shown.

    Attributes:
        rows: The jobs of its window by id, in order.
        first: The position of the first of them in the whole list.
        total: How many jobs the list has.
    """

    rows: dict[str, Row] = field(default_factory=dict)
    first: int = 0
    total: int = 0


@dataclass(slots=True)
class Model:
    """What is known of one server.

    Attributes:
        server: What its last message said of it.
        lists: By name.
        found: What the last search has found: the list, and the job's id or None. None before the first.
    """

    server: Mapping[str, Any] = field(default_factory=dict)
    lists: dict[str, JobList] = field(default_factory=lambda: {name: JobList() for name in LISTS})
    found: tuple[str, str | None] | None = None
    _completed: deque[int] = field(default_factory=lambda: deque(maxlen=MAX_ENDED))
    _failed: deque[int] = field(default_factory=lambda: deque(maxlen=MAX_ENDED))

    def take(self, message: Message, now: int) -> None:
        """Take a message in, at an instant, epoch ms; those that are not known are passed over."""
        self.server = message.get("server", self.server)
        for name in LISTS:
            self.lists[name].total = int(self.server.get(f"total_{name}", 0))
        match message.get("event"):
            case "job_snapshot":
                for name in LISTS:
                    self._show(name, message[name])
            case "job_changed":
                self._change(str(message["status"]), str(message["id"]), message.get("job"), now)
            case "find_result":
                window = message["window"]
                found = message["matched_position"] is not None
                self.found = str(message["list"]), window.get("resolved_anchor") if found else None

    def rates(self, now: int) -> tuple[float, float]:
        """Give how many attempts a second have succeeded and failed lately."""
        for ended in (self._completed, self._failed):
            while ended and ended[0] <= now - RATE_MS:
                ended.popleft()
        return len(self._completed) * 1_000 / RATE_MS, len(self._failed) * 1_000 / RATE_MS

    def _show(self, name: str, window: Mapping[str, Any]) -> None:
        of = self.lists[name]
        of.rows = {str(job["id"]): job for job in window["items"]}
        of.first = int(window["first_position"])

    def _change(self, status: str, job_id: str, job: Row | None, now: int) -> None:
        if status in LISTS and job is not None:
            of = self.lists[status]
            rows = sorted([*of.rows.items(), (job_id, job)], key=lambda item: _place(status, item[1]))
            of.rows = dict(rows[:MAX_ROWS])
        elif status.endswith("_removed") and status.removesuffix("_removed") in LISTS:
            self.lists[status.removesuffix("_removed")].rows.pop(job_id, None)
        elif status == "completed":
            self._completed.append(now)
        elif status == "dead":
            self._failed.append(now)


def _place(name: str, job: Row) -> tuple[int, str]:
    return int(job.get(_ORDER[name]) or 0), str(job["id"])


def cells(name: str, job: Row, now: int) -> tuple[str, ...]:
    """Give the columns of a job in a list: time, attempts, priority, queue, type, id."""
    at = int(job.get(_SINCE[name]) or now)
    age_ms = at - now if name == "scheduled" else now - at
    return (
        short_time(age_ms),
        str(job["attempts"]),
        str(job["priority"]),
        printable(job["queue"]),
        printable(job["job_type"]),
        printable(job["id"]),
    )


def short_time(ms: int) -> str:
    """Write a time in a few characters, rounded down to seconds; what is past is 0 s."""
    return format_duration(ms // 1_000 * 1_000) if ms >= 1_000 else "0 s"


def details(job: Row, now: int) -> list[tuple[str, str]]:
    """Give all that is known of a job, as labels and values."""
    shown = [
        ("id", printable(job["id"])),
        ("queue", printable(job["queue"])),
        ("type", printable(job["job_type"])),
        ("priority", str(job["priority"])),
        ("attempts", str(job["attempts"])),
    ]
    for member, label in (("ready_at", "ready"), ("dequeued_at", "taken"), ("failed_at", "failed")):
        if job.get(member) is not None:
            ms = int(job[member]) - now
            shown.append((label, f"in {short_time(ms)}" if ms > 0 else f"{short_time(-ms)} ago"))
    for member in ("retry_limit", "unique_key", "unique_while", "backoff", "retention"):
        value = job.get(member)
        if isinstance(value, Mapping):
            value = ", ".join(f"{name} {part}" for name, part in value.items())
        if value is not None:
            shown.append((member.replace("_", " "), printable(value)))
    return shown
