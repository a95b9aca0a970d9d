"""``POST /v1/jobs/reports``: how attempts have ended, of whatever kind; and a word about one that still runs."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from anew.backoff import policy_from_json
from anew.engine.progress import report_progress
from anew.engine.reports import GOES_ON, RELEASE, Report, Reports
from anew.errors import AnewError, InvalidInput, InvalidJob
from anew.http.api import Context
from anew.http.bodies import MAX_MEMBER, body_as, decode
from anew.http.formats import Format, written_in
from anew.http.jobrules import check_u64
from anew.http.long_lists import members_of, read_long, reading_list
from anew.http.repacking import json_of
from anew.http.replies import answering, error_words, run_verb
from anew.http.router import Doc, Router
from anew.http.settling import SHOWN_ID, failed, length_of, of_one_batch
from anew.jobs import Cancelled, Interrupted, Job, Snoozed, State
from anew.jobs.codec import U32, At, FailureReport
from anew.jobs.records import MESSAGE_BYTES, cut_middle
from anew.net.chunks import Work
from anew.net.seam import Kind, Request
from anew.units import refused

MOST_RESULT = 1 << 20
"""Bytes of one job's result."""


REPORTS_IN_ONE_BATCH = 500
"""Reports in one batch, as many as Anew's own workers send at once: some 25 ms if all are failures."""

MAX_PROGRESS = 16 << 10
"""Bytes of a word about progress."""


class _Ended(Struct, frozen=True, kw_only=True, tag_field="end"):
    """An attempt that has ended.

    Attributes:
        id: The job.
        taken_at: Its `dequeued_at` as the take showed it, so that a late report ends no other attempt; absent: whichever runs.
    """

    id: str
    taken_at: At | None = None


class SucceededReport(_Ended, frozen=True, kw_only=True, tag="succeeded"):
    """It has done its work.

    Attributes:
        result: Its result; kept as long as the completed job.
    """

    result: Raw | UnsetType = UNSET


class FailedReport(FailureReport, frozen=True, kw_only=True, tag_field="end", tag="failed"):
    """It has failed.

    Attributes:
        id: The job.
        taken_at: As in the other reports.
        outcome: `timeout`: it was stopped because it ran longer than it may.
        policy: What decides about this failure, in Anew's own form, in place of the job's.
        limited: The limit of retries holds for `retry_at` too.
    """

    id: str
    taken_at: At | None = None
    outcome: Literal["error", "timeout"] = "error"
    policy: Raw | UnsetType = UNSET
    limited: bool = False


class SnoozedReport(_Ended, frozen=True, kw_only=True, tag="snoozed"):
    """It asks to run later, which is no failure.

    Attributes:
        ready_at: When, epoch ms.
        reason: Why.
        outcome: `rate_limited`: what it calls has refused it for the time being. `unknown_task`: the worker has no handler for it;
            the server says when it comes back, and after a day it is dead.
        most: The most snoozes of the job; one more ends it.
    """

    ready_at: At
    reason: str = ""
    outcome: Literal["snoozed", "rate_limited", "unknown_task"] = "snoozed"
    most: U32 | None = None


class CancelledReport(_Ended, frozen=True, kw_only=True, tag="cancelled"):
    """It cancels its own job.

    Attributes:
        reason: Why.
    """

    reason: str = ""


class InterruptedReport(_Ended, frozen=True, kw_only=True, tag="interrupted"):
    """The process that ran it has died.

    Attributes:
        limit: So many interruptions in a row end the job; 0: no number does; absent: the server's own limit.
        reason: What is known of its end, such as the signal.
    """

    limit: U32 | None = None
    reason: str = ""


class ReleasedReport(_Ended, frozen=True, kw_only=True, tag="released"):
    """It was not started: the job goes back to its place, and nothing is counted."""


class GoesOnReport(_Ended, frozen=True, kw_only=True, tag="goes_on"):
    """It has not ended: its worker lost the job with its connection, and holds it again. Its interruptions are forgotten."""


AttemptReport = (
    SucceededReport
    | FailedReport
    | SnoozedReport
    | CancelledReport
    | InterruptedReport
    | ReleasedReport
    | GoesOnReport
)


class ProgressReport(Struct, frozen=True):
    """The progress of a job.

    Attributes:
        percent: 0 to 100; null keeps the last one.
        text: A line about it; null keeps the last one.
    """

    percent: Annotated[int, Meta(ge=0, le=100)] | None = None
    text: str | None = None


class _Tag(Struct):
    id: str
    end: str


REPORTS: dict[str, type[Any]] = {str(kind.__struct_config__.tag): kind for kind in get_args(AttemptReport)}
"""Every kind of report by its `end`."""

_Read = tuple[str | None, Report | AnewError]
"""A report's job, as far as it can be read, and what it says or why it is refused."""


class ReportRoutes:
    """Takes reports of workers."""

    def __init__(self, context: Context) -> None:
        self._submit = context.commit.submit
        self._chunks = context.chunks
        self._key_of = context.key_of
        self._ids = context.engine.ids
        self._max_bulk = context.settings.max_bulk

    def reports(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Settle attempts of whatever end, each decided by itself and named by the instant of its take."""
        written = written_in(request)
        work = reading_list(request.body, written, "reports", self._max_bulk, partial(self._reading, written))

        def then(reports: list[_Read]) -> None:
            self._settle(reports, request, form)

        read_long(work, request, form, self._chunks, then)

    def _settle(self, reports: list[_Read], request: Request, form: Format) -> None:
        """Hand the reports to the engine, some in each batch; an error of one batch is the answer to all of them.

        Who sends them again then finds those that were settled no longer in flight, as after an answer that got lost.
        """
        left = iter([report for _, report in reports if isinstance(report, Report)])
        decided: list[Any] = []

        def settle(answers: list[Any]) -> None:
            decided.extend(answers)
            some = of_one_batch(left, REPORTS_IN_ONE_BATCH, _length)
            if some:
                self._submit(Reports(some, answering(request, form, settle)))
                return
            outcomes = iter(decided)
            results = [
                {"id": job_id} | _result(next(outcomes) if isinstance(report, Report) else report)
                for job_id, report in reports
            ]
            form.reply(request, 200, {"results": results})

        settle([])

    def _reading(self, form: Format, piece: bytes, first: int) -> Work[list[_Read]]:
        """Read some reports; one that does not fit is refused by itself."""
        reports: list[_Read] = []
        for at, member in enumerate(members_of(piece, form), first):
            job_id = None
            try:
                where = f"reports[{at}]"
                tag = decode(member, form, _Tag, where=where)
                job_id = tag.id[:SHOWN_ID]
                kind = REPORTS.get(tag.end)
                if kind is None:
                    raise refused(f"{where}.end", tag.end, f"one of {', '.join(REPORTS)}")
                report = decode(member, form, kind, where=where)
                check_u64(report.taken_at, "taken_at")
                end = yield from _reading_end(report, form)
                reports.append((job_id, Report(self._ids.read(report.id), report.taken_at, *end)))
            except InvalidInput as error:
                reports.append((job_id, error))
            if not len(reports) % 100:
                yield
        return reports

    def progress(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Store the progress of a running job."""
        body = body_as(request, ProgressReport)
        job_id = self._ids.write(self._key_of(params[0]))
        run_verb(self._submit, report_progress(job_id, body.percent, body.text), request, form, durable=False)


def _length(report: Report) -> int:
    return length_of(report.outcome) + len(report.result or b"")


def _reading_end(report: AttemptReport, form: Format) -> Work[tuple[Any, bytes | None]]:
    """Read a report's outcome, as `Report` has it, and its result."""
    match report:
        case SucceededReport():
            return None, (yield from _reading_json(report.result, form, "result", MOST_RESULT))
        case FailedReport():
            policy = yield from _reading_json(report.policy, form, "policy", MAX_MEMBER)
            if policy is not None:
                policy_from_json(policy)  # raises in its own words
            outcome = msgspec.structs.replace(
                failed(report), outcome=report.outcome, policy=policy, limited=report.limited
            )
            return outcome, None
        case SnoozedReport():
            check_u64(report.ready_at, "ready_at")
            reason = cut_middle(report.reason, MESSAGE_BYTES)
            return Snoozed(
                ready_at=report.ready_at, reason=reason, outcome=report.outcome, most=report.most
            ), None
        case CancelledReport():
            return Cancelled(reason=cut_middle(report.reason, MESSAGE_BYTES)), None
        case InterruptedReport():
            reason = cut_middle(report.reason, MESSAGE_BYTES)
            return Interrupted("worker gone", report.limit, reason), None
        case GoesOnReport():
            return GOES_ON, None
        case _:
            return RELEASE, None


def _reading_json(value: Raw | UnsetType, form: Format, field: str, most: int) -> Work[bytes | None]:
    if isinstance(value, UnsetType):
        return None
    if len(value) > most:
        raise InvalidJob(f"{field}: expected at most {most} bytes, got {len(value)}", field=field)
    return (yield from json_of(value, form, most, field))


def _result(outcome: Job | AnewError | None) -> dict[str, Any]:
    if isinstance(outcome, AnewError):
        return error_words(outcome)
    if outcome is None:
        return {"state": State.COMPLETED.value}
    return {"state": outcome.state.value, "ready_at": outcome.ready_at}


def add_routes(router: Router, context: Context) -> None:
    """Serve the reporting routes."""
    routes = ReportRoutes(context)
    reports = Doc("report", "work", {200: "ReportResults"}, "Reports")
    progress = Doc("reportProgress", "work", body="Progress")
    path = "/v1/jobs/{id}/progress"
    router.add("POST", "/v1/jobs/reports", routes.reports, reports, kind=Kind.settling)
    router.add("POST", path, routes.progress, progress, kind=Kind.settling, most_bytes=MAX_PROGRESS)
