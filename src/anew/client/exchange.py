"""A verb, written once for both clients: what is asked, how the answer is read, and what follows from it. No I/O."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar, overload

from anew.client.views import JobView
from anew.client.waiting import Waits
from anew.errors import NotFound, Unavailable, Unreachable

P = ParamSpec("P")
T = TypeVar("T")


class NotSent(Unreachable):
    """No connection could be made, so nothing was asked for."""


@dataclass(frozen=True, slots=True)
class Exchange(Generic[T]):
    """One request, and how its answer is read.

    Attributes:
        method: HTTP method.
        target: Path and query, encoded.
        body: JSON, or None.
        read: Gives the result from the answer's body.
        also: Statuses that are an answer beside 2xx.
        headers: Beside those that every request has.
    """

    method: str
    target: str
    body: bytes | None
    read: Callable[[bytes], T]
    also: tuple[int, ...] = ()
    headers: Mapping[str, str] | None = None


Steps: TypeAlias = Generator["Exchange[Any] | int", Any, T]
"""Several requests, with waits (milliseconds) between: each is yielded, its result or its error comes back."""

Asked: TypeAlias = Exchange[T] | Steps[T]


class Blocking:
    """A client whose verbs block."""

    def _perform(self, asked: Asked[T]) -> T:
        """Do what a verb asks."""
        raise NotImplementedError


class Awaiting:
    """A client whose verbs are awaited."""

    async def _perform(self, asked: Asked[T]) -> T:
        """Do what a verb asks."""
        raise NotImplementedError


class verb(Generic[P, T]):
    """Makes a method of what a verb asks: one that blocks in a `Blocking` client, one to be awaited in an `Awaiting` one."""

    def __init__(self, ask: Callable[Concatenate[Any, P], Asked[T]]) -> None:
        self._ask = ask

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: Blocking, owner: type | None = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Awaiting, owner: type | None = None) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, client: Any, owner: type | None = None) -> Any:
        return self.method(owner or type(client)).__get__(client, owner)

    def method(self, kind: type) -> Callable[..., Any]:
        """Give the method that it is in a class of clients."""
        return (_awaited if issubclass(kind, Awaiting) else _blocking)(self._ask)


def _blocking(ask: Callable[..., Asked[T]]) -> Callable[..., T]:
    @functools.wraps(ask)
    def method(client: Blocking, /, *args: Any, **options: Any) -> T:
        return client._perform(ask(client, *args, **options))

    return method


def _awaited(ask: Callable[..., Asked[T]]) -> Callable[..., Coroutine[Any, Any, T]]:
    @functools.wraps(ask)
    async def method(client: Awaiting, /, *args: Any, **options: Any) -> T:
        return await client._perform(ask(client, *args, **options))

    return method


def report_success(report: Exchange[T], waits: Waits, gone: Callable[[T | None], T]) -> Steps[T]:
    """Repeat the report that jobs are done until it is answered.

    Repeating does no harm: what is done is done. After a try without an answer, that a job is no longer in flight means that
    the try was heard; `gone` gives the result then: of the answer, or of None where it was that there is no such job.
    """
    unheard = False
    for retry in count(1):
        try:
            result = yield report
        except NotFound:
            if not unheard:
                raise
            return gone(None)
        except Unavailable as error:
            wait_ms = waits.before(retry, error)
            if wait_ms is None:
                raise
            unheard = unheard or _may_be_done(error)
            yield wait_ms
        else:
            return gone(result) if unheard else result
    raise AssertionError("a policy's tries end")


def report_failure(report: Exchange[JobView], look: Exchange[JobView], waits: Waits) -> Steps[JobView]:
    """Repeat the report that a job failed until it is answered, but not where it may have been heard.

    A report that was heard has ended its attempt, and a second one would end the next attempt. So after a try without an
    answer the job is looked at: one that is no longer in flight is settled, and of one that is nobody can tell.
    """
    unheard: Unavailable | None = None
    for retry in count(1):
        try:
            job: JobView = yield report if unheard is None else look
        except Unavailable as error:
            wait_ms = waits.before(retry, error)
            if wait_ms is None:
                raise unheard or error from None
            if unheard is None and _may_be_done(error):
                unheard = error
            yield wait_ms
        else:
            if unheard is not None and job.status == "in_flight":
                raise unheard
            return job
    raise AssertionError("a policy's tries end")


def _may_be_done(error: Unavailable) -> bool:
    """Report whether what was asked may have been done: a server that says that it is busy has done nothing."""
    return isinstance(error, Unreachable) and not isinstance(error, NotSent)
