"""``success`` and ``failure``, one or many: how workers report the ends of attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import msgspec

from anew.engine import Fail, FailMany, Succeed
from anew.errors import AnewError, InvalidInput, MalformedRequest, NotFound, TooLarge
from anew.http.api import Context
from anew.http.bodies import body_as, check_text, decode, malformed, worded
from anew.http.formats import JSON, MSGPACK, Format, Unreadable, written_in
from anew.http.jobrules import check_u64
from anew.http.long_lists import (
    check_count,
    enough_to_refuse,
    list_in,
    members_of,
    packed_length,
    read_long,
    reading_list,
)
from anew.http.render import shown_job
from anew.http.replies import answering, error_words, reply_error
from anew.http.router import Doc, Router
from anew.jobs import Failed, Job
from anew.jobs.codec import FailureReport
from anew.jobs.records import BACKTRACE_BYTES, ERROR_TYPE_BYTES, MESSAGE_BYTES, cut_middle
from anew.net.chunks import Work
from anew.net.seam import Kind, Request

NOT_IN_FLIGHT = "job not found in in-flight set"

SHOWN_ID = 64
"""Characters of an id that are kept and repeated in an answer; one of ours has 25."""

IDS_BYTES = 2 << 20
"""Bytes of a list of ids, or more where so many ids are allowed that they need more. They are decoded in one go."""

IN_ONE_BATCH = 100
ONE_BATCH_CHARACTERS = 1 << 20
"""Failures of one list in one batch, and what their texts may have together: some 10 ms, so that a list of thousands delays nobody
else by much more."""

T = TypeVar("T")


class Ids(msgspec.Struct, frozen=True):
    """Jobs that are done."""

    ids: list[str]


class JobFailure(FailureReport, frozen=True, kw_only=True):
    """A failure report in a list.

    Attributes:
        id: The job that it is about.
    """

    id: str


class _Named(msgspec.Struct):
    id: str


_Report = tuple[str | None, Failed | InvalidInput]
"""A report in a list: its job's id, if it has one that can be read, and what happened or why the report is refused."""

_ids_decoder = msgspec.json.Decoder(Ids)
_packed_ids_decoder = msgspec.msgpack.Decoder(list[str])
_binary_ids_decoder = msgspec.msgpack.Decoder(list[bytes])
_reports_decoder = msgspec.json.Decoder(list[JobFailure])
_packed_reports_decoder = msgspec.msgpack.Decoder(list[JobFailure])


class _SucceedOne(Succeed):
    """One success report with what its answer needs."""

    __slots__ = ("form", "request")

    def __init__(self, key: int, request: Request, form: Format) -> None:
        self.keys = (key,)
        self.tokens = self.results = None
        self.request = request
        self.form = form

    def done(self, result: Any) -> None:
        """Answer the request."""
        if not result:
            self.request.reply(204, b"", None)
        elif isinstance(result, AnewError):
            reply_error(self.request, self.form, result)
        else:
            reply_error(self.request, self.form, NotFound(NOT_IN_FLIGHT))


class SettleRoutes:
    """Takes success and failure reports."""

    def __init__(self, context: Context) -> None:
        self._submit = context.commit.submit
        self._chunks = context.chunks
        self._ids = context.engine.ids
        self._read = context.engine.ids.read
        self._max_bulk = context.settings.max_bulk
        self._check_unread = context.counters.check_unread

    def success(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Complete one job."""
        self._submit(_SucceedOne(self._read(params[0]), request, form))

    def successes(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Complete many jobs; those not in flight are listed, the others are completed all the same."""
        written = written_in(request)
        ids = _ids_of(request.body, written, self._max_bulk)
        read = self._read
        keys = [read(text) for text in ids]

        def done(result: Any) -> None:
            if not result:
                request.reply(204, b"", None)
            elif isinstance(result, AnewError):
                reply_error(request, form, result)
            else:
                missing = set(result)
                lost = [text for text, key in zip(ids, keys, strict=True) if key in missing]
                form.reply(request, 422, {"not_found": lost})

        self._submit(Succeed(keys, done))

    def failure(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Report a failed attempt."""
        report = body_as(request, FailureReport)

        def then(job: Job) -> None:
            form.reply(request, 200, shown_job(self._ids, job, payload=False))

        self._submit(Fail(self._read(params[0]), failed(report), answering(request, form, then)))

    def failures(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Report many failed attempts, each decided by itself."""
        self._check_unread()
        written = written_in(request)

        def then(reports: list[_Report]) -> None:
            self._decide(iter(reports), [], request, form)

        work = reading_list(request.body, written, "failures", self._max_bulk, partial(_reading, written))
        read_long(work, request, form, self._chunks, then)

    def _decide(
        self, reports: Iterator[_Report], results: list[dict[str, Any]], request: Request, form: Format
    ) -> None:
        """Hand the next reports of a list to the engine; answer when there are none left."""
        asked: list[dict[str, Any]] = []
        wanted: list[tuple[int, Failed]] = []
        while not wanted and (some := of_one_batch(reports, IN_ONE_BATCH, lambda read: length_of(read[1]))):
            for job_id, failure in some:
                result: dict[str, Any] = {"id": job_id}
                results.append(result)
                if isinstance(failure, InvalidInput):
                    result |= error_words(failure)
                else:
                    asked.append(result)
                    wanted.append((self._read(job_id or ""), failure))
        if not wanted:
            form.reply(request, 200, {"results": results})
            return

        def decided(outcomes: Any) -> None:
            if isinstance(outcomes, AnewError):
                outcomes = [outcomes] * len(asked)
            for result, outcome in zip(asked, outcomes, strict=True):
                if isinstance(outcome, AnewError):
                    result |= error_words(outcome)
                else:
                    job = shown_job(self._ids, outcome, payload=False)
                    result["status"] = job.status
                    result["job"] = job
            self._decide(reports, results, request, form)

        self._submit(FailMany(wanted, decided))


def of_one_batch(reports: Iterator[T], most: int, length: Callable[[T], int]) -> list[T]:
    """Give the next reports of a list that are settled in one batch; `length` gives the characters of one."""
    some: list[T] = []
    characters = 0
    for report in reports:
        some.append(report)
        characters += length(report)
        if len(some) == most or characters > ONE_BATCH_CHARACTERS:
            break
    return some


def length_of(outcome: object) -> int:
    """Give the characters of a failure's long texts; 0 for anything else."""
    return len(outcome.message) + len(outcome.backtrace or "") if isinstance(outcome, Failed) else 0


def failed(report: FailureReport) -> Failed:
    """Give what a report comes to, its texts cut to what is kept of them.

    Never refused for their length: Zizq's clients drop a refused report and do not send another, so the job would stay in
    flight and keep its slot for as long as its worker is connected.

    Raises:
        InvalidJob: The time it names is beyond 64 bits.
    """
    check_u64(report.retry_at, "retry_at")
    return Failed(
        message=cut_middle(report.message, MESSAGE_BYTES),
        error_type=report.error_type and cut_middle(report.error_type, ERROR_TYPE_BYTES),
        backtrace=report.backtrace and cut_middle(report.backtrace, BACKTRACE_BYTES),
        retry_at=report.retry_at,
        kill=report.kill,
    )


def _reading(form: Format, piece: bytes, _: int) -> Work[list[_Report]]:
    """Read some reports of a list; one that does not fit is refused by itself."""
    decoder = _reports_decoder if form is JSON else _packed_reports_decoder
    try:
        return [_judged(report) for report in decoder.decode(piece)]
    except Unreadable:  # a text in MessagePack may be no UTF-8
        pass
    reports: list[_Report] = []
    for member in members_of(piece, form):
        try:
            reports.append(_judged(decode(member, form, JobFailure)))
        except InvalidInput as error:
            reports.append((_id_in(member, form), error))
        yield
    return reports


def _judged(report: JobFailure) -> _Report:
    job_id = report.id[:SHOWN_ID]
    try:
        return job_id, failed(report)
    except InvalidInput as error:
        return job_id, error


def _id_in(member: msgspec.Raw, form: Format) -> str | None:
    try:
        return decode(member, form, _Named).id[:SHOWN_ID]
    except InvalidInput:
        return None


def _ids_of(body: bytes, form: Format, most: int) -> list[str]:
    """Read the ids, each once, in the order given, and no more of one than is shown."""
    given = _ids_in_json(body, most) if form is JSON else _ids_in_msgpack(body, most)
    if not given:
        raise MalformedRequest("ids must not be empty", field="ids")
    check_count("ids", len(given), most)
    return list(dict.fromkeys([text[:SHOWN_ID] for text in given]))


def _ids_in_json(body: bytes, most: int) -> list[str]:
    # Looked at first, since a body of short texts would become objects of many times its size.
    if body.count(b",") > enough_to_refuse(most):
        raise TooLarge(f"ids: expected at most {most} in one request, got more", field="ids")
    try:
        return _ids_decoder.decode(body).ids
    except msgspec.ValidationError as error:
        raise worded(error, msgspec.UNSET) from None
    except Unreadable as error:
        check_text(body)
        raise malformed(error, JSON) from None


def _ids_in_msgpack(body: bytes, most: int) -> list[str]:
    listed = list_in(body, MSGPACK, "ids")
    check_count("ids", packed_length(listed), most)
    try:
        return _packed_ids_decoder.decode(listed)
    except msgspec.ValidationError as error:
        try:  # some clients pack texts as binary
            return [text.decode() for text in _binary_ids_decoder.decode(listed)]
        except Unreadable:
            raise worded(error, msgspec.UNSET, "ids") from None
    except Unreadable as error:
        raise malformed(error, MSGPACK) from None


def add_routes(router: Router, context: Context) -> None:
    """Serve the settling routes."""
    routes = SettleRoutes(context)
    many = Doc("succeedMany", "work", {204: "", 422: "NotFoundIds"}, "Ids")
    failure = Doc("fail", "work", {200: "Job"}, "Failure")
    failures = Doc("failMany", "work", {200: "FailureResults"}, "Failures")
    router.add("POST", "/jobs/{id}/success", routes.success, Doc("succeed", "work"), kind=Kind.settling)
    most = max(IDS_BYTES, SHOWN_ID * context.settings.max_bulk)
    router.add("POST", "/jobs/success", routes.successes, many, kind=Kind.settling, most_bytes=most)
    router.add("POST", "/jobs/{id}/failure", routes.failure, failure, kind=Kind.settling)
    router.add("POST", "/v1/jobs/failure", routes.failures, failures, kind=Kind.settling)
