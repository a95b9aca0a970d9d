"""Tries the expressions of new jobs that may be folded, before they are stored: in a thread, since it takes other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from anew.errors import AnewError, InternalError, InvalidExpression, Overloaded, TooLarge
from anew.http.newjobs import placed
from anew.jobs import NewJob
from anew.jobs.codec import PushedJob
from anew.jobs.zizq_ties import Folding, said_of
from anew.jq import Expressions

MOST_JOBS = 100
"""Jobs of one request that may be folded: each takes a transaction some 0.1 to 0.5 ms."""

MOST_WAITING = 256
"""Requests that wait for their check at a time."""


class FoldChecks:
    """The thread that checks.

    Args:
        expressions: What evaluates.
        loop: Where results are handed back.
    """

    def __init__(self, expressions: Expressions, loop: asyncio.AbstractEventLoop) -> None:
        self._expressions = expressions
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, "fold-checks")
        self._waiting = 0

    def run(self, jobs: Sequence[NewJob], then: Callable[[Any], None], *, listed: str = "") -> None:
        """Check those of some new jobs that may be folded.

        Args:
            jobs: As `anew.jobs.zizq_ties.tied` gives them.
            then: Called in the loop's thread, at once where there is nothing to check, with None or with an AnewError.
            listed: The member of the body that lists them, where it does: errors say which one they are about.

        Raises:
            Overloaded: Too many requests wait for this.
            TooLarge: There are more such jobs than one request may have.
        """
        found = list(_foldings(jobs))
        if not found:
            then(None)
            return
        if len(found) > MOST_JOBS:
            raise TooLarge(
                f"jobs: expected at most {MOST_JOBS} with batch in one request, got {len(found)}",
                field="jobs",
            )
        if self._waiting >= MOST_WAITING:
            raise Overloaded("too many jobs with batch are waiting to be checked; try again in a second")
        self._waiting += 1
        future = self._thread.submit(self._check, found, listed)
        future.add_done_callback(lambda done: self._hand_back(done, then))

    def close(self) -> None:
        """Let the check in progress end; others are dropped, as nobody is answered any more."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _check(self, found: Iterable[tuple[int, Folding, bytes]], listed: str) -> AnewError | None:
        for at, folding, payload in found:
            try:
                self._expressions.check_fold(folding.when, folding.fold, payload)
            except InvalidExpression as error:
                return placed(error, f"{listed}[{at}]") if listed else error
            except AnewError as error:
                return error
        return None

    def _hand_back(self, done: Future[AnewError | None], then: Callable[[Any], None]) -> None:
        """Called in the thread."""
        if done.cancelled():
            return
        error = done.exception()
        result = (
            done.result()
            if error is None
            else InternalError(f"the check of a batch failed: {type(error).__name__}")
        )

        def in_loop() -> None:
            self._waiting -= 1
            then(result)

        with suppress(RuntimeError):  # the loop has closed
            self._loop.call_soon_threadsafe(in_loop)


def _foldings(jobs: Iterable[NewJob]) -> Iterable[tuple[int, Folding, bytes]]:
    for at, job in enumerate(jobs):
        folding = said_of(job.meta).batch if isinstance(job, PushedJob) else None
        if folding is not None:
            yield at, folding, bytes(job.payload)
