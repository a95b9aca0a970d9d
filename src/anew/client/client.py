"""The client whose verbs block."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import TypeVar

from anew.client.exchange import Asked, Blocking, Exchange
from anew.client.parameters import Filters, Names, Period, period_ms
from anew.client.stream import TakeStream
from anew.client.transport import Addressed, Site, Transport
from anew.client.verbs import (
    ALL,
    MOST_OF_A_PAGE,
    Order,
    Verbs,
    Walk,
    error_walk,
    page_request,
    page_walk,
    step,
    take_request,
)
from anew.client.views import ErrorView, JobView, Page, read_page
from anew.errors import AnewError

T = TypeVar("T")


class Client(Verbs, Blocking, Addressed):
    """The verbs of the queue, over HTTP. Threads may share one.

    Instants are epoch milliseconds or datetimes with a time zone. Durations are timedeltas or text with a unit
    (``"30s"``). Wherever several names or ids may be given, a single text is one of them.

    Every method raises what its refusal means: `NotFound`, `Conflict`, `InvalidInput`, `TooLarge`, `Overloaded`,
    `StoreFull`, `Unauthorized`, `NotSupported`; and `Unreachable` when there is no answer, in which case a change that
    was asked for may or may not have happened. An error's ``code`` is the one that the server sent, also where this
    version does not know it; ``retry_after`` of `Unavailable` and its kinds is the wait that the server asks for.

    Args:
        url: Address of the server; may end in a path prefix.
        token: Bearer token, or None.
        timeout: Longest silence while an answer is waited for.
        ca: File of certificates (PEM) to trust in place of the system's, for an ``https`` address.
        cert: File of this client's certificate (PEM), for a server that asks for one.
        key: File of its private key, without a password; None means that it stands in the file of `cert`.
        retry: Policy by which a take stream that breaks is opened again, and `success`, `success_many` and `failure` are
            repeated while no answer comes: a preset's name, a policy's JSON form, or a `Policy`. The usual one gives up after
            20 tries, 78 to 156 s. None leaves all tries to the caller.

    Raises:
        InvalidConfig: The address or the token is not valid, or one of the files cannot be used.
        InvalidPolicy: `retry` is not a policy.
    """

    def _connect(self, site: Site) -> None:
        self._transport = Transport(site)

    def __enter__(self) -> Client:
        """Give the client itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close its connections."""
        self.close()

    def close(self) -> None:
        """Close its idle connections."""
        self._transport.close()

    def page(
        self,
        filters: Filters = ALL,
        *,
        limit: int = 50,
        order: Order = "asc",
        after: str | None = None,
        last_errors: bool = False,
    ) -> Page:
        """One page of the jobs that match, sorted by id; its `next` gives the following one.

        Args:
            filters: Which jobs.
            limit: 1 to 2000.
            order: ``asc`` gives the oldest first.
            after: Id of the job after which the page begins.
            last_errors: Also the latest failure of each job (Anew).
        """
        return self._perform(
            page_request(
                filters, self._read_page, limit=limit, order=order, after=after, last_errors=last_errors
            )
        )

    def pages(
        self,
        filters: Filters = ALL,
        *,
        order: Order = "asc",
        limit: int = MOST_OF_A_PAGE,
        at_most: int | None = None,
    ) -> Iterator[Page]:
        """The pages of all jobs that match, each fetched when the caller goes on to it.

        Args:
            filters: Which jobs.
            order: ``asc`` gives the oldest first.
            limit: Jobs of one page, 1 to 2000.
            at_most: End after so many pages; None means all.

        Raises:
            Unreachable: A page links to itself or to one before it, so that the list would never end.
        """
        return self._results(page_walk(filters, self._read_page, limit=limit, order=order, at_most=at_most))

    def list(
        self, filters: Filters = ALL, *, order: Order = "asc", page: int = MOST_OF_A_PAGE
    ) -> Iterator[JobView]:
        """All jobs that match, sorted by id, fetched `page` at a time as the caller goes on."""
        return (job for current in self.pages(filters, order=order, limit=page) for job in current)

    def errors(self, job_id: str, *, order: Order = "asc", limit: int | None = None) -> Iterator[ErrorView]:
        """The failed attempts of a job.

        Args:
            job_id: The job.
            order: ``asc`` gives the first attempt first.
            limit: At most so many; None means all.
        """
        return (record for records in self._results(error_walk(job_id, order, limit)) for record in records)

    def take(
        self,
        queues: Names = (),
        *,
        prefetch: int = 1,
        worker_id: str | None = None,
        idle_timeout: Period = "30s",
        interruption_limit: int | None = None,
    ) -> TakeStream:
        """Open a stream of jobs. One that breaks or that the server ends is opened again by the client's ``retry``.

        Args:
            queues: Take from this one, or these, only; none means all.
            prefetch: Most jobs held by this stream at once.
            worker_id: Name that the server's log shows.
            idle_timeout: Longest silence; the server's heartbeats count.
            interruption_limit: A job is dead whose worker has gone away with it so many times in a row, 0 for no number; None: the
                server's own limit holds.
        """
        idle_timeout_ms = period_ms(idle_timeout, "idle_timeout", low=1)
        asked = take_request(queues, prefetch, worker_id, interruption_limit)
        opened = partial(self._transport.open_stream, *asked)
        return TakeStream(opened, idle_timeout_ms, self._retry)

    def _perform(self, asked: Asked[T]) -> T:
        """Do what a verb asks."""
        if isinstance(asked, Exchange):
            return self._exchange(asked)
        try:
            ask = next(asked)
            while True:
                try:
                    result = None
                    if isinstance(ask, Exchange):
                        result = self._exchange(ask)
                    else:
                        time.sleep(ask / 1000)
                except AnewError as error:
                    ask = asked.throw(error)
                else:
                    ask = asked.send(result)
        except StopIteration as end:
            result_of_all: T = end.value
            return result_of_all

    def _exchange(self, asked: Exchange[T]) -> T:
        _, answer = self._transport.request(
            asked.method, asked.target, asked.body, also=asked.also, headers=asked.headers
        )
        return asked.read(answer)

    def _results(self, walk: Walk[T]) -> Iterator[T]:
        asked = step(walk)
        while asked is not None:
            result = self._exchange(asked)
            asked = step(walk, result)
            yield result

    def _read_page(self, answer: bytes) -> Page:
        return read_page(answer, lambda path: self._transport.request("GET", path)[1])
