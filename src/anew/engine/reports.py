"""Reports of ended attempts of every kind, in order, each about the attempt that its reporter names.

Who reports over a wire may do so late: the job may have been given to another meanwhile. A job and the instant of its take name one
attempt of it, so that a late report ends no attempt but its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from anew.engine.batch import Batch
from anew.engine.ops import Call, Done, Fail, Succeed
from anew.engine.settle import Answers, settle_failures, settle_successes
from anew.errors import NotFound
from anew.jobs import Job, Outcome

RELEASE = "release"
GOES_ON = "goes on"


class Report(NamedTuple):
    """How an attempt has ended.

    Attributes:
        key: The job's.
        taken_at: When it was taken, epoch ms; None means whichever attempt is in flight.
        outcome: None: it succeeded. ``release``: it never began, and the job goes back to its place uncounted. ``goes on``: it has
            not ended; its worker, which had lost the job with its connection, holds it anew, and has not died after all.
        result: Its result, as JSON; kept as long as the completed job.
    """

    key: int
    taken_at: int | None
    outcome: Outcome | Literal["release", "goes on"] | None
    result: bytes | None = None


class Reports(Call):
    """Settle many attempts. Result: for each the job as it is now, None if it has completed, or NotFound, in order."""

    __slots__ = ()
    settles = True

    def __init__(self, reports: Sequence[Report], done: Done) -> None:
        super().__init__(lambda batch: _settle(batch, reports), done)


def _settle(batch: Batch, reports: Sequence[Report]) -> list[Job | NotFound | None]:
    found = {job.key: job for job in batch.in_flight(one.key for one in reports)}
    tokens = {key: (job.dequeued_at, job.hold_token) for key, job in found.items()}
    results: list[Job | NotFound | None] = [NotFound("job not found in in-flight set")] * len(reports)
    meant: list[tuple[int, Report, int]] = []
    for at, report in enumerate(reports):
        taken_at, token = tokens.pop(report.key, (None, None))  # of several about one job the first counts
        if token is not None and report.taken_at in (None, taken_at):
            meant.append((at, report, token))
    batch.stats.stale += len(reports) - len(meant)
    well = [(at, report, token) for at, report, token in meant if report.outcome is None]
    released = [(at, report) for at, report, _ in meant if report.outcome == RELEASE]
    for at, report, _ in meant:
        if report.outcome == GOES_ON:
            results[at] = after = replace(found[report.key], interruptions=0)
            batch.rewrite([(found[report.key], after)])
    if well:
        _succeed(batch, [report for _, report, _ in well], [token for _, _, token in well])
        for at, _, _ in well:
            results[at] = None
    answers: Answers = []
    fails = [
        (at, Fail(report.key, report.outcome, _nobody, token))
        for at, report, token in meant
        if report.outcome is not None and not isinstance(report.outcome, str)
    ]
    if fails:
        settle_failures(batch, [fail for _, fail in fails], answers)
    for (at, _), (_, job) in zip(fails, answers, strict=True):
        results[at] = job
    if released:
        batch.release(sorted(report.key for _, report in released), None)
        jobs = {job.key: job for job in batch.store.load([report.key for _, report in released])}
        for at, report in released:
            results[at] = jobs[report.key]
    return results


def _succeed(batch: Batch, reports: Sequence[Report], tokens: Sequence[int]) -> None:
    kept = {report.key: report.result for report in reports if report.result is not None}
    settle_successes(batch, [Succeed([one.key for one in reports], _nobody, tokens, kept or None)], [])


def _nobody(result: Any) -> None:
    """The results are what the verb gives."""
