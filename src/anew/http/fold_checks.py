"""Tries the expressions of new jobs that may be folded, before they are stored: in a thread, since it takes other processes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

from anew.errors import AnewError, InternalError, InvalidExpression, Overloaded, TooLarge
from anew.http.newjobs import placed
from anew.jobs import NewJob
from anew.jobs.codec import is_folded, merge_of
from anew.jobs.fold import ALWAYS, check_folded
from anew.jobs.zizq_ties import said_of
from anew.jq import Expressions

log = logging.getLogger("anew.http")

MOST_JOBS = 100
"""Jobs of one request that may be folded by an expression: each takes a transaction some 0.1 to 0.5 ms."""

CHECK_S = 1.0
CHECK_JOB_S = 0.01
"""How long the jobs of one request are checked, and how much longer for each of them: others wait. A usual one takes 0.1 ms."""

WAIT_S = 2.0
"""How long a request waits for its turn."""

MOST_WAITING = 256
MOST_BYTES = 256 << 20
"""Requests that wait for their check at a time, and the bytes of payloads that they hold; one alone may have more."""


class _Check(NamedTuple):
    """What is to be tried of one new job.

    Attributes:
        at: Its place.
        what: Where its producer has written the expressions.
    """

    at: int
    what: str
    when: str
    fold: str
    payload: bytes


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
        self._waiting = self._bytes = 0
        self._closed = False

    def run(self, jobs: Sequence[NewJob], then: Callable[[Any], None], *, listed: str = "") -> None:
        """Check those of some new jobs that may be folded.

        Args:
            jobs: As `anew.jobs.zizq_ties.tied` gives them.
            then: Called in the loop's thread, at once where there is nothing to check, with None or with an AnewError.
            listed: The member of the body that lists them, where it does: errors say which one they are about.

        Raises:
            Overloaded: Too many requests wait for this, or too many bytes.
            TooLarge: There are more such jobs than one request may have.
        """
        found = list(_checks(jobs))
        if not found:
            then(None)
            return
        if listed == "jobs" and len(found) > MOST_JOBS:
            raise TooLarge(
                f"jobs: expected at most {MOST_JOBS} with {found[0].what} in one request, got {len(found)}",
                field="jobs",
            )
        size = sum(len(job.payload) for job in jobs)
        if self._waiting >= MOST_WAITING or (self._waiting and self._bytes + size > MOST_BYTES):
            raise Overloaded("too many jobs with batch are waiting to be checked; try again in a second")
        self._waiting += 1
        self._bytes += size
        future = self._thread.submit(self._check, found, listed, time.monotonic() + WAIT_S)
        future.add_done_callback(lambda done: self._hand_back(done, size, then))

    def close(self) -> None:
        """Let the check of one job end; others are dropped, as nobody is answered any more."""
        self._closed = True
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _check(self, found: Sequence[_Check], listed: str, until: float) -> AnewError | None:
        begun = time.monotonic()
        if begun > until:
            return Overloaded("jobs with batch are waiting too long to be checked; try again in a second")
        end = begun + CHECK_S + CHECK_JOB_S * len(found)
        for at, what, when, fold, payload in found:
            if self._closed:
                return Overloaded("the server is shutting down")
            if time.monotonic() >= end:
                many = f"the {len(found)} jobs with batch of this request take too long to check"
                return TooLarge(
                    f"{many}; expected at most {end - begun:.0f} s, send fewer", field=listed or "batch"
                )
            try:
                folded = self._expressions.check_fold(when, fold, payload, what)
                check_folded(folded, f"{what} dry-run: fold")
            except InvalidExpression as error:
                return placed(error, f"{listed}[{at}]") if listed else error
            except AnewError as error:
                return error
            except Exception:
                log.exception("the check of a batch failed")
                return InternalError("internal server error")
        return None

    def _hand_back(self, done: Future[AnewError | None], size: int, then: Callable[[Any], None]) -> None:
        """Called in the thread."""
        if done.cancelled():
            return
        result = done.result()

        def in_loop() -> None:
            self._waiting -= 1
            self._bytes -= size
            then(result)

        with suppress(RuntimeError):  # the loop has closed
            self._loop.call_soon_threadsafe(in_loop)


def _checks(jobs: Iterable[NewJob]) -> Iterable[_Check]:
    for at, job in enumerate(jobs):
        if not is_folded(job):
            continue
        merge, folding = merge_of(job), said_of(job.meta).batch
        if merge is not None:
            yield _Check(at, "merge", ALWAYS, merge, bytes(job.payload))
        elif folding is not None:
            yield _Check(at, "batch", folding.when, folding.fold, bytes(job.payload))
