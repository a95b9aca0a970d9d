"""``success`` and ``failure``: how workers settle what they have taken."""

from __future__ import annotations

from typing import Any

import msgspec

from anew.engine import Fail, Succeed
from anew.errors import AnewError, MalformedRequest, TooLarge
from anew.http.api import Context
from anew.http.bodies import body_as, decode, malformed_json
from anew.http.failures import reply_error
from anew.http.formats import JSON, Format, Unreadable, written_in
from anew.http.jobrules import check_u64, enough_to_refuse
from anew.http.render import job_object
from anew.http.router import Router
from anew.jobs import Failed
from anew.jobs.codec import FailureReport
from anew.net.seam import Request

NOT_IN_FLIGHT = "job not found in in-flight set"
_TEXT_CHARACTERS = 1 << 20
"""Most characters kept of a failure's message, error type or backtrace."""


class _Ids(msgspec.Struct):
    ids: list[str]


_ids_decoder = msgspec.json.Decoder(_Ids)


class _SucceedOne(Succeed):
    """One success report with what its answer needs."""

    __slots__ = ("form", "request")

    def __init__(self, key: int, request: Request, form: Format) -> None:
        self.keys = (key,)
        self.tokens = None
        self.request = request
        self.form = form

    def done(self, result: Any) -> None:
        """Answer the request."""
        if not result:
            self.request.reply(204, b"", None)
        elif isinstance(result, AnewError):
            reply_error(self.request, self.form, result)
        else:
            self.form.error(self.request, 404, NOT_IN_FLIGHT)


def _cut(text: str) -> str:
    """Bound a text of a failure report; what is cut off ends in a note of the whole length.

    Never a 4xx: Zizq's clients drop a refused report and do not send another, so the job would stay in flight
    and keep its slot for as long as its worker is connected.
    """
    if len(text) <= _TEXT_CHARACTERS:
        return text
    note = f"\n[cut: {len(text)} characters in all]"
    return text[: _TEXT_CHARACTERS - len(note)] + note


class SettleRoutes:
    """Takes success and failure reports.

    Args:
        context: What handlers use.
    """

    def __init__(self, context: Context) -> None:
        self._submit = context.commit.submit
        self._ids = context.engine.ids
        self._read = context.engine.ids.read
        self._max_bulk = context.settings.max_bulk

    def success(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Complete one job."""
        self._submit(_SucceedOne(self._read(params[0]), request, form))

    def successes(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Complete many jobs; those not in flight are listed, the others are completed all the same."""
        written = written_in(request)
        if written is None:
            return
        ids = self._ids_of(request.body, written)
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
        if report is None:
            return
        check_u64(report.retry_at, "retry_at")
        failed = Failed(
            message=_cut(report.message),
            error_type=report.error_type and _cut(report.error_type),
            backtrace=report.backtrace and _cut(report.backtrace),
            retry_at=report.retry_at,
            kill=report.kill,
        )

        def done(result: Any) -> None:
            if isinstance(result, AnewError):
                reply_error(request, form, result)
            else:
                form.reply(request, 200, job_object(self._ids, result, payload=False))

        self._submit(Fail(self._read(params[0]), failed, done))

    def _ids_of(self, body: bytes, form: Format) -> list[str]:
        """Read the ids, each once, in the order given."""
        # Looked at first, since a body of short texts would become objects of many times its size.
        if form is JSON and body.count(b",") > enough_to_refuse(self._max_bulk):
            raise TooLarge(f"ids: expected at most {self._max_bulk} in one request, got more", field="ids")
        if form is JSON and body.count(b'"ids"') == 1:
            try:
                given = _ids_decoder.decode(body).ids
            except msgspec.ValidationError:
                given = decode(body, form, _Ids).ids
            except Unreadable as error:
                raise malformed_json(error) from None
        else:
            given = decode(body, form, _Ids).ids
        if not given:
            raise MalformedRequest("ids must not be empty", field="ids")
        if len(given) > self._max_bulk:
            raise TooLarge(
                f"ids: expected at most {self._max_bulk} in one request, got {len(given)}", field="ids"
            )
        return list(dict.fromkeys(given))


def add_routes(router: Router, context: Context) -> None:
    """Serve the settling routes."""
    routes = SettleRoutes(context)
    router.add("POST", "/jobs/{id}/success", routes.success)
    router.add("POST", "/jobs/success", routes.successes)
    router.add("POST", "/jobs/{id}/failure", routes.failure)
