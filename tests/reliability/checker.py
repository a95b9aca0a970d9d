"""Judges a history: did the server keep its promises, as far as its clients could see?

Clients write down what they asked, what they were told and what they were handed, in the order in which they
saw it; a full read of the server ends the history. `check` walks it once and names each broken rule:

    1   an accepted job ends in exactly one terminal state
    2   every delivery matches an invoked, not refused enqueue with an equal payload
    3   no delivery starts after an accepted settlement ended the job
    4   a job is settled successfully at most once, by the newest lease, after having been delivered
    5   two attempts overlap only after a recorded expiry
    6   attempts rise by one for each reported failure
    7   an enqueue, above all one without an answer, makes at most one job
    8   with a single consumer, jobs of one lane come in the order of their enqueues
    9   never before its time
    10  nothing is left unfinished after the drain

It shares no code with the server, and it gives the server the benefit of every doubt that a client cannot
resolve: a request without an answer may have happened or not, a delivery may have waited in a socket.
"""

from __future__ import annotations

from collections.abc import Iterable

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

NEVER = float("inf")
TERMINAL = frozenset({"completed", "dead", "cancelled"})


class _Job:
    """All that is remembered of one job while the history is walked."""

    __slots__ = (
        "answered_at",
        "asked_at",
        "attempts",
        "deliveries",
        "digest",
        "done",
        "done_at",
        "enqueue",
        "failures",
        "failures_told",
        "holder",
        "id",
        "lane",
        "not_before",
        "retained",
        "settling",
        "successes_open",
        "token",
        "token_at",
    )

    def __init__(self, invoke: Invoke) -> None:
        self.asked_at = invoke.at
        self.answered_at = NEVER
        self.digest = invoke.digest
        self.retained = invoke.retained
        self.lane = invoke.lane
        self.enqueue = "unknown"
        self.id = ""
        self.deliveries = 0
        self.attempts = 0  # the highest number that was told
        self.failures = 0  # reported and not refused: the highest number that may be told
        self.failures_told: tuple[int, ...] = ()
        self.not_before = (0, invoke.ready_at)  # from this many attempts on, not before this instant
        self.holder = 0  # the stream of the newest delivery; 0 when its lease may have ended
        self.settling = 0  # settlements under way: any of them may end the lease unseen
        self.successes_open = 0  # successes under way or without an answer: the job may be gone
        self.done = ""
        self.done_at = NEVER
        self.token = ""
        self.token_at = NEVER


class _Walk:
    """One pass over a history."""

    def __init__(self, *, single_consumer: bool) -> None:
        self.verdict = Verdict()
        self.jobs: dict[str, _Job] = {}
        self.open: dict[int, float] = {}
        self.single_consumer = single_consumer
        self.first_deliveries: list[_Job] = []

    def invoke(self, event: Invoke) -> None:
        if event.op == "enqueue":
            self.jobs[event.key] = _Job(event)
            return
        job = self.jobs.get(event.key)
        if job is None:
            return
        job.settling += 1
        if event.op == "failure":
            job.failures += 1
        else:
            job.successes_open += 1

    def answer(self, event: Answer) -> None:
        job = self.jobs.get(event.key)
        if job is None:
            self.verdict.flag(2, event.key, f"{event.op} {event.outcome} for a job that nobody enqueued")
        elif event.op == "enqueue":
            self._enqueued(job, event)
        else:
            self._settled(job, event)

    def _enqueued(self, job: _Job, event: Answer) -> None:
        job.enqueue = event.outcome
        if event.outcome != "ok":
            return
        job.answered_at = event.at
        self._same_id(job, event.key, event.id)

    def _settled(self, job: _Job, event: Answer) -> None:
        job.settling -= 1
        if event.outcome == "refused":
            if event.op == "failure":
                job.failures -= 1
            else:
                job.successes_open -= 1
            return
        if event.outcome == "unknown":
            job.holder = 0  # it may have ended the lease; a success stays open for good
            return
        job.holder = 0
        self._fenced(job, event)
        if event.op == "failure":
            self._failed(job, event)
            return
        job.successes_open -= 1
        if job.done == "completed":
            self.verdict.flag(4, event.key, "a second success was accepted")
        else:
            self._end(job, event, "completed")

    def _fenced(self, job: _Job, event: Answer) -> None:
        if job.deliveries == 0:
            self.verdict.flag(4, event.key, f"{event.op} accepted for a job that was never delivered")
        if event.asked_at > job.done_at and not (event.op == "success" and job.done == "completed"):
            self.verdict.flag(4, event.key, f"{event.op} accepted after the job had ended as {job.done}")
        if event.token and event.token != job.token and job.token_at < event.asked_at:
            self.verdict.flag(
                4, event.key, f"{event.op} accepted under {event.token!r}, newest is {job.token!r}"
            )

    def _failed(self, job: _Job, event: Answer) -> None:
        told = event.attempts
        if told >= 0 and (told in job.failures_told or not 1 <= told <= job.failures):
            seen = f"{job.failures} reported, {job.failures_told} told"
            self.verdict.flag(6, event.key, f"failure answered attempts {told}; {seen}")
        job.failures_told += (told,)
        if told > job.attempts:
            job.attempts = told
            job.not_before = (told, event.ready_at)
        if event.state == "dead":
            self._end(job, event, "dead")

    def _end(self, job: _Job, event: Answer, state: str) -> None:
        if job.done and job.done != state:
            self.verdict.flag(1, event.key, f"ended as {job.done} and as {state}")
        job.done = job.done or state
        job.done_at = min(job.done_at, event.at)

    def delivery(self, event: Delivery) -> None:
        verdict = self.verdict
        verdict.deliveries += 1
        job = self.jobs.get(event.key)
        if job is None:
            verdict.flag(2, event.key, "delivered, and nobody enqueued it")
            return
        if job.digest != event.digest:
            verdict.flag(2, event.key, f"payload was {job.digest}, arrived as {event.digest}")
        if job.enqueue == "refused":
            verdict.flag(2, event.key, "delivered although its enqueue was refused")
        self._same_id(job, event.key, event.id)
        # Read late is not sent late: it started no earlier than its stream and than the server says.
        if max(self.open.get(event.stream, 0.0), event.dequeued_at) > job.done_at:
            verdict.flag(3, event.key, f"delivered at {event.at:.0f}, was {job.done} at {job.done_at:.0f}")
        if job.holder in self.open and not job.settling:
            verdict.flag(
                5, event.key, f"delivered on stream {event.stream} while stream {job.holder} holds it"
            )
        if not job.attempts <= event.attempts <= job.failures:
            verdict.flag(
                6,
                event.key,
                f"delivered with attempts {event.attempts}, expected {job.attempts} to {job.failures}",
            )
        since, instant = job.not_before
        early = max(instant if event.attempts == since else 0, event.ready_at) - event.at
        if early > 0:
            verdict.flag(9, event.key, f"delivered {early:.0f} ms before its time")
        job.attempts = max(job.attempts, event.attempts)
        job.holder = event.stream
        job.token, job.token_at = event.token, event.at
        job.deliveries += 1
        if job.deliveries == 1 and self.single_consumer and event.attempts == 0:
            self.first_deliveries.append(job)

    def _same_id(self, job: _Job, key: str, id: str) -> None:
        if not job.id:
            job.id = id
        elif job.id != id:
            self.verdict.flag(7, key, f"one enqueue made two jobs, {job.id} and {id}")

    def opened(self, event: Opened) -> None:
        self.open[event.stream] = event.at

    def closed(self, event: Closed) -> None:
        self.open.pop(event.stream, None)

    def down(self, event: Down) -> None:
        self.open.clear()

    def expired(self, event: Expired) -> None:
        job = self.jobs.get(event.key)
        if job is not None:
            job.holder = 0

    def order(self) -> None:
        """Rule 8, from the back: nobody may overtake a job that was answered before it was asked for."""
        answered: dict[str, tuple[float, str]] = {}
        for job in reversed(self.first_deliveries):
            if job.not_before[1]:
                continue
            earliest, overtaken = answered.get(job.lane, (NEVER, ""))
            if earliest < job.asked_at:
                self.verdict.flag(8, job.id, f"delivered before {overtaken}, which was accepted earlier")
            if job.answered_at < earliest:
                answered[job.lane] = (job.answered_at, job.id)

    def final(self, records: Iterable[Record]) -> None:
        present: set[str] = set()
        for record in records:
            job = self.jobs.get(record.key)
            present.add(record.key)
            if job is None:
                self.verdict.flag(2, record.key, "stored, and nobody enqueued it")
            else:
                self._stored(job, record)
        for key, job in self.jobs.items():
            self._sum_up(job, key, present=key in present)

    def _stored(self, job: _Job, record: Record) -> None:
        if job.enqueue == "refused":
            self.verdict.flag(2, record.key, "stored although its enqueue was refused")
        self._same_id(job, record.key, record.id)
        if record.state not in TERMINAL:
            self.verdict.flag(
                10, record.key, f"still {record.state} after the drain, {job.deliveries} deliveries"
            )
        elif job.done and job.done != record.state:
            self.verdict.flag(1, record.key, f"accepted as {job.done}, stored as {record.state}")
        elif not job.done and record.state == "completed" and not job.successes_open:
            self.verdict.flag(1, record.key, "completed, and nobody reported success")
        elif not job.done:
            job.done = record.state

    def _sum_up(self, job: _Job, key: str, *, present: bool) -> None:
        verdict = self.verdict
        verdict.failures += job.attempts
        verdict.redeliveries += max(0, job.deliveries - 1 - job.attempts)
        if job.enqueue == "refused":
            verdict.refused += 1
            return
        if job.enqueue == "ok":
            verdict.accepted += 1
        elif present or job.deliveries:
            verdict.in_doubt_present += 1
        else:
            verdict.in_doubt_absent += 1
            return
        verdict.completed += job.done == "completed"
        verdict.dead += job.done == "dead"
        gone_rightly = (job.done == "completed" or job.successes_open) and not job.retained
        if not present and not gone_rightly:
            verdict.lost += 1
            verdict.flag(
                1, key, f"stored and gone: {job.deliveries} deliveries, ended as {job.done or 'nothing'}"
            )


def check(events: Iterable[Event], final: Iterable[Record], *, single_consumer: bool = False) -> Verdict:
    """Judge one history.

    Linear in time and memory: a million events take a few seconds.

    Args:
        events: In the order in which the clients saw them.
        final: Every job that the server still shows after the drain.
        single_consumer: Whether one worker with one stream took everything and no crash came between,
            so that the order of deliveries means something (rule 8).

    Returns:
        The verdict; its `ok` is False when any rule was broken.
    """
    walk = _Walk(single_consumer=single_consumer)
    steps = {
        Invoke: walk.invoke,
        Answer: walk.answer,
        Delivery: walk.delivery,
        Opened: walk.opened,
        Closed: walk.closed,
        Down: walk.down,
        Expired: walk.expired,
    }
    for event in events:
        steps[type(event)](event)  # type: ignore[operator]
    walk.order()
    walk.final(final)
    return walk.verdict
