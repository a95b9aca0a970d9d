"""``POST /jobs`` and ``POST /jobs/bulk``: the hottest routes, so answers are written with as little as can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from anew.engine import Batch, Call, Enqueue, Enqueued, Entry
from anew.engine.job_batches import batch_status
from anew.errors import AnewError, InvalidExpression, NotFound
from anew.http.api import Context
from anew.http.formats import JSON, Format, UnsupportedMediaType, body_format, written_in
from anew.http.long_lists import read_long, reading_list
from anew.http.newjobs import LONG_BODY, reading_many, reading_one, short_job
from anew.http.render import StoredJob, existing_job, plain_answer, plain_answers, stored_job
from anew.http.repeating import RepeatKey, key_of, reading_with
from anew.http.replies import answering, reply_error
from anew.http.router import Doc, Router
from anew.http.tied import reading_tied
from anew.jobs import Job, NewJob
from anew.jobs.codec import PushedJob
from anew.net.chunks import Work, at_once
from anew.net.seam import Kind, Request

_ANSWERS = 500
"""Answers written in one go, some 2 ms."""

_There = dict[int, Job | None]
"""Jobs by key; None: it is gone."""


class _EnqueueOne(Enqueue):
    """One job, with what its answer needs; a class because a closure per request costs more."""

    __slots__ = ("form", "request", "routes")

    def __init__(
        self, job: NewJob, plain: bool, request: Request, form: Format, routes: EnqueueRoutes
    ) -> None:
        self.jobs = (job,)
        self.plain = plain
        self.request = request
        self.form = form
        self.routes = routes

    def done(self, result: Any) -> None:
        """Answer the request."""
        if isinstance(result, AnewError):
            self.routes.refused(self.request, self.form, result)
            return
        key, now = result.keys[0], result.now
        ids, job = self.routes.ids, self.jobs[0]
        if result.existing:
            self.routes.answer_existing(self.request, self.form, job, result)
        elif self.plain and self.form is JSON:
            self.request.reply(201, plain_answer(ids.tag_bytes, key, job, now))
        else:
            self.form.reply(self.request, 201, stored_job(ids, key, job, now))


class EnqueueRoutes:
    """Takes new jobs in."""

    def __init__(self, context: Context) -> None:
        self._commit = context.commit
        self._reads = context.reads
        self._chunks = context.chunks
        self._fold_checks = context.fold_checks
        self.ids = context.engine.ids
        self._counters = context.counters
        self._max_bytes = context.settings.max_job_bytes
        self._max_bulk = context.settings.max_bulk

    def one(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Store one job."""
        written = body_format(request.headers)
        key = key_of(request)
        if written is JSON and key is None:  # the usual request, with as few calls as can be
            short = short_job(request.body, self._max_bytes)
            if short is not None:
                self._commit.submit_new(_EnqueueOne(short, True, request, form, self))
                return
        elif written is None:
            raise UnsupportedMediaType
        work = reading_with(key, request.body, reading_one(request.body, written, self._max_bytes))
        if len(request.body) <= LONG_BODY:
            self._store_one(*at_once(work), request, form, key)
            return

        def store(read: tuple[NewJob, bool]) -> None:
            self._store_one(*read, request, form, key)

        self._chunks.run(work, answering(request, form, store), len(request.body))

    def _store_one(
        self, job: NewJob, plain: bool, request: Request, form: Format, key: RepeatKey | None
    ) -> None:
        enqueue: Enqueue = _EnqueueOne(job, plain, request, form, self)
        if key is not None:
            enqueue = key.enqueue([job], enqueue.done)
        self._fold_checks.run([job], self._submitting(enqueue, request, form))

    def _submitting(self, enqueue: Enqueue, request: Request, form: Format) -> Callable[[Any], None]:
        """Give what stores new jobs whose expressions have been tried."""

        def then(error: AnewError | None) -> None:
            if error is not None:
                self.refused(request, form, error)
            elif len(request.body) <= LONG_BODY:
                self._commit.submit_new(enqueue)
            else:
                self._commit.submit_long(enqueue)

        return then

    def many(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Store many jobs, all or none."""

        def reading(written: Format) -> Work[tuple[list[NewJob], bool]]:
            return reading_many(request.body, written, self._max_bytes, self._max_bulk)

        self._read_many(request, form, reading)

    def many_tied(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Store many jobs that may be tied to something, all or none."""

        def reading(written: Format) -> Work[tuple[list[NewJob], bool]]:
            read = partial(reading_tied, self.ids, written, self._max_bytes)
            return (yield from reading_list(request.body, written, "jobs", self._max_bulk, read)), False

        self._read_many(request, form, reading)

    def _read_many(
        self, request: Request, form: Format, reading: Callable[[Format], Work[tuple[list[NewJob], bool]]]
    ) -> None:
        self._counters.check_unread()
        written = written_in(request)
        key = key_of(request)

        def store(read: tuple[list[NewJob], bool]) -> None:
            self._store_many(*read, request, form, key)

        work = reading_with(key, request.body, reading(written))
        read_long(work, request, form, self._chunks, store)

    def _store_many(
        self, jobs: list[NewJob], plain: bool, request: Request, form: Format, key: RepeatKey | None
    ) -> None:
        if not jobs:
            form.reply(request, 201, {"jobs": []})
            return
        plain = plain and key is None

        def done(result: Any) -> None:
            if isinstance(result, AnewError):
                self.refused(request, form, result)
            elif Entry.NO_BATCH in result.existing.values():
                self.refused(request, form, NotFound("no such batch"))
            elif plain and form.is_json:
                request.reply(201, plain_answers(self.ids.tag, result.keys, jobs, result.now))
            else:
                status = 200 if len(result.existing) == len(jobs) else 201
                answer = answering(
                    request, form, lambda listed: form.reply(request, status, {"jobs": listed})
                )

                def then(there: Iterable[_There]) -> None:
                    self._chunks.run(self._answering_many(jobs, result, iter(there)), answer)

                self._read_existing(result, answering(request, form, then))

        enqueue = Enqueue(jobs, done, plain) if key is None else key.enqueue(jobs, done)
        submit = self._submitting(enqueue, request, form)
        tied = () if plain else [job.hooks for job in jobs if isinstance(job, PushedJob)]
        batches = {ties.batch for ties in tied if ties is not None and ties.batch is not None}
        if not batches:
            self._fold_checks.run([] if plain else jobs, submit, listed="jobs")
            return

        def check(batch: Batch) -> None:
            for key in batches:
                batch_status(key)(batch)

        # First, since the engine stores the jobs of a list whose batches it knows, and leaves out the others.
        self._commit.submit(
            Call(check, answering(request, form, lambda _: submit(None)), durable=False, waits=False)
        )

    def _answering_many(
        self, jobs: list[NewJob], entered: Enqueued, there: Iterator[_There]
    ) -> Work[list[StoredJob]]:
        listed: list[StoredJob] = []
        known: _There = {}
        for at, (key, job) in enumerate(zip(entered.keys, jobs, strict=True)):
            while at in entered.existing and key not in known:
                known = next(there)
            listed.append(self._shown(key, job, entered, at, known))
            if not len(listed) % _ANSWERS:
                yield
        return listed

    def answer_existing(self, request: Request, form: Format, job: NewJob, entered: Enqueued) -> None:
        """Answer for one new job in whose place another is there."""

        def then(there: Iterable[_There]) -> None:
            (known,) = there
            form.reply(request, 200, self._shown(entered.keys[0], job, entered, 0, known))

        self._read_existing(entered, answering(request, form, then))

    def _read_existing(self, entered: Enqueued, then: Callable[[Any], None]) -> None:
        """Read the jobs that are there in place of new ones, in the order of these, some at a time."""
        keys = [entered.keys[at] for at in sorted(entered.existing)]
        parts = [keys[at : at + _ANSWERS] for at in range(0, len(keys), _ANSWERS)]

        def read(part: list[int]) -> _There:
            found = self._reads.jobs(part, payload=False)
            return {key: found.get(key) for key in part}

        self._reads.in_parts(parts, read, then, bounded=False)

    def _shown(self, key: int, job: NewJob, entered: Enqueued, at: int, known: _There) -> StoredJob:
        """Give one new job, or the one that is there in its place, as the answer shows it."""
        entry = entered.existing.get(at, Entry.CREATED)
        there = None if entry is Entry.CREATED else known[key]
        if there is None:  # created, or its key is held beyond the removal of the job that had it
            return stored_job(self.ids, key, job, entered.now, entry)
        return existing_job(self.ids, there, entry)

    def refused(self, request: Request, form: Format, error: AnewError) -> None:
        """Count a refusal and answer with it."""
        self._counters.refuse(error.code)
        reply_error(request, form, error, 422 if isinstance(error, InvalidExpression) else None)


def add_routes(router: Router, context: Context) -> None:
    """Serve the enqueue routes."""
    routes = EnqueueRoutes(context)
    one = Doc("enqueue", "jobs", {200: "StoredJob", 201: "StoredJob"}, "NewJob", errors=(409, 422))
    many = Doc("enqueueMany", "jobs", {200: "StoredJobs", 201: "StoredJobs"}, "NewJobs", errors=(409, 422))
    router.add("POST", "/jobs", routes.one, one, kind=Kind.new_work)
    router.add("POST", "/jobs/bulk", routes.many, many, kind=Kind.new_work)
    tied = Doc(
        "enqueueTied", "jobs", {200: "StoredJobs", 201: "StoredJobs"}, "NewTiedJobs", errors=(404, 409, 422)
    )
    router.add("POST", "/v1/jobs/bulk", routes.many_tied, tied, kind=Kind.new_work)
