"""What the demo shows: the timeline, one job's history, every retry against its policy, and the sums."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anew.backoff import Policy
from anew.client import Client, ErrorView, Filters, JobView
from anew.lab import Forecast, explain

BAR = 40
QUEUE = "invoices"

_COLOURS = {"green": 32, "yellow": 33, "red": 31, "dim": 2, "bold": 1}
_colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
_utf = (sys.stdout.encoding or "").lower().startswith("utf")
BLOCKS = ("█", "▒", "░") if _utf else ("#", "=", ".")


def paint(text: str, colour: str) -> str:
    """Colour a text, where a terminal shows it and nobody has said no."""
    return f"\033[{_COLOURS[colour]}m{text}\033[0m" if _colour else text


def say(text: str = "", colour: str | None = None) -> None:
    """Print a line at once."""
    print(paint(text, colour) if colour else text, flush=True)


# -- the timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How many of the invoices stand where."""

    delivered: int
    retrying: int
    open: int
    dead: int

    @classmethod
    def read(cls, client: Client) -> Standing:
        """Ask the server."""

        def count(*status: str, attempts: str | None = None) -> int:
            return client.count(Filters(queue=(QUEUE,), status=status, attempts=attempts))

        return cls(
            delivered=count("completed"),
            retrying=count("scheduled", attempts="1.."),
            open=count("ready", "in_flight"),
            dead=count("dead"),
        )

    def line(self, total: int) -> str:
        """Draw it: a bar of all invoices, and the numbers."""
        full, half, light = BLOCKS
        retrying, waiting = (round(BAR * number / total) for number in (self.retrying, self.open))
        dead = -(-BAR * self.dead // total)  # rounded up: a few dead ones should be seen
        delivered = min(round(BAR * self.delivered / total), BAR - retrying - waiting - dead)
        bar = paint(full * delivered, "green") + paint(half * retrying, "yellow") + light * waiting
        bar += paint("x" * dead, "red")
        rest = BAR - delivered - retrying - waiting - dead
        numbers = f"delivered {self.delivered:3}  retrying {self.retrying:3}  at work {self.open:3}  dead {self.dead}"
        return f"{bar}{' ' * rest}  {numbers}"


# -- every retry against its policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """One retry: what was planned at the failure before it, and what became of it.

    Attributes:
        planned_ms: The wait that was decided, stored with the failed attempt.
        allowed: What `explain` says that the policy may do at this retry.
        due_at, ran_at: When it should have begun, and when it did; epoch ms.
    """

    number: int
    error: str
    failed_at: int
    planned_ms: int
    allowed: Forecast
    due_at: int
    ran_at: int

    @property
    def kept(self) -> bool:
        """Whether the wait lay inside the policy's window and was waited to its end."""
        earliest, latest = self.allowed.earliest_ms, self.allowed.latest_ms
        assert earliest is not None
        assert latest is not None
        planned = earliest <= self.planned_ms <= latest and self.due_at == self.failed_at + self.planned_ms
        return planned and self.ran_at >= self.due_at


def retries_of(job: JobView, errors: Sequence[ErrorView], rows: Sequence[Forecast]) -> Iterator[Retry]:
    """Give the retries that a job has had: each failure with the run that followed it."""
    runs = [error.dequeued_at for error in errors[1:]] + [job.dequeued_at or 0]
    for error, ran_at in zip(errors, runs, strict=True):
        decision = error.decision or {}
        if decision.get("verdict") == "retry":
            yield Retry(
                number=error.attempt,
                error=": ".join(part for part in (error.error_type, error.message) if part),
                failed_at=error.failed_at,
                planned_ms=decision["wait_ms"],
                allowed=rows[error.attempt - 1],
                due_at=decision["due_at"],
                ran_at=ran_at,
            )


def show_history(job: JobView, retries: Sequence[Retry]) -> None:
    """Print one job's life: what it waited, what its policy allowed, when it really ran."""
    say(f"\n{job.data()['invoice']}, job {job.id}: {job.attempts} failures, then {job.status}", "bold")
    say(
        "  failure  error                                       policy allows       planned  really ran after",
        "dim",
    )
    for retry in retries:
        window = f"{seconds(retry.allowed.earliest_ms)} to {seconds(retry.allowed.latest_ms)}"
        say(
            f"  {retry.number:7}  {retry.error[:42]:42}  {window:>15}  {seconds(retry.planned_ms):>10}"
            f"  {seconds(retry.ran_at - retry.failed_at):>10}"
        )


def show_retries(all_retries: Sequence[Retry], down: tuple[int, int]) -> bool:
    """Print how all retries of all jobs compare with the policy.

    Args:
        all_retries: Every retry that has run.
        down: From when to when there was no server, epoch ms.

    Returns:
        Whether each kept its policy.
    """
    kept = sum(retry.kept for retry in all_retries)
    # The worker, too, needs a moment to find the server again.
    back = min((retry.ran_at for retry in all_retries if retry.ran_at >= down[1]), default=down[1])
    held = [retry for retry in all_retries if retry.due_at < back and retry.ran_at > down[0]]
    late = sorted(retry.ran_at - retry.due_at for retry in all_retries if retry not in held)
    say(f"\nAll {len(all_retries)} retries of all jobs:", "bold")
    say(f"  {kept} of them were planned inside their policy's window and did not begin before their time")
    if late:
        median, p99 = late[len(late) // 2], late[len(late) * 99 // 100]
        say(f"  begun after they were due: half within {median} ms, 99 of 100 within {p99} ms")
    if held:
        say(
            f"  {len(held)} fell due or were at work when the server was gone; they ran as soon as the worker was back"
        )
    return kept == len(all_retries)


def seconds(ms: int | None) -> str:
    """Write a duration in seconds."""
    return "-" if ms is None else f"{ms / 1000:.2f} s"


# -- the sums


def show_sums(rows: Sequence[dict[str, str]], jobs: Sequence[JobView], booked: dict[str, int]) -> bool:
    """Print the sums; the server's books and the receiver's own must agree.

    Args:
        rows: The invoices that were to be delivered.
        jobs: All jobs that the server holds.
        booked: How often the receiver has got each invoice.

    Returns:
        Whether they add up.
    """
    status = Counter(job.status for job in jobs)
    delivered = {job.data()["invoice"] for job in jobs if job.status == "completed"}
    lost = {row["invoice"] for row in rows} - {job.data()["invoice"] for job in jobs}
    again = sum(booked.values()) - len(booked)
    right = not lost and len(jobs) == len(rows) == status["completed"] + status["dead"]
    right = right and delivered == booked.keys()
    say("\nThe sums", "bold")
    say(
        f"  enqueued {len(jobs)} = delivered {status['completed']} + dead {status['dead']};  lost {len(lost)}"
    )
    say(f"  the receiver's own books: {len(booked)} invoices, the same ones: {'yes' if right else 'NO'}")
    say(f"  delivered a second time: {again}", None if again else "dim")
    if again:
        say("    (the receiver had them, but the kill came before the worker could report it: at least once,")
        say("     never exactly once. The invoice's number is the key, so each was booked once.)")
    return right


def policy_rows(policy: object) -> tuple[Forecast, ...]:
    """Give what a policy may do at each retry."""
    return explain(Policy.from_json(policy)).rows
