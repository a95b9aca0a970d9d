"""FETCH: a worker waits for a job, for two seconds at most."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from anew.engine import Call, Fetch, GroupCommit
from anew.engine.reads import Then
from anew.errors import AnewError
from anew.fwp import replies
from anew.fwp.connection import FwpConnection
from anew.jobs import Job

FETCH_S: Final = 2.0
"""How long a FETCH waits for a job. Source: Faktory 1.10."""


class WaitingFetch(Fetch):
    """One FETCH, from its command to its answer.

    Attributes:
        at: When it is told that there is nothing, by the loop's clock.
        answered: It has its answer, or needs none.
    """

    __slots__ = ("_commit", "_connection", "_show", "answered", "at")

    def __init__(
        self,
        commit: GroupCommit,
        show: Callable[[Job, Then], None],
        connection: FwpConnection,
        queues: Sequence[str],
        worker: str,
    ) -> None:
        self._ask(queues, worker)
        self._commit = commit
        self._show = show
        self._connection = connection
        self.at = 0.0
        self.answered = False

    def gone(self) -> None:
        """Its client has gone."""
        self.answered = True
        self._commit.call_off(self)

    def end(self) -> None:
        """Its time is over."""
        if not self.answered:
            self.answered = True
            self._commit.call_off(self)
            self._connection.reply(replies.NULL)

    def done(self, result: Any) -> None:
        """It has a job, or its batch has failed."""
        late, self.answered = self.answered, True  # its time may have been over while it stood in the batch
        if isinstance(result, AnewError):
            if not late:
                self._connection.reply(replies.error(str(result)))
        elif late or self._connection.gone:
            self._give_back(result)
            if not late:  # for the lines behind it: while there are many nothing is read, and no end of the connection heard
                self._connection.reply(replies.NULL)
        else:
            self._show(result, partial(self._shown, result))

    def _shown(self, job: Job, text: bytes | AnewError) -> None:
        if isinstance(text, AnewError) or self._connection.gone:
            self._give_back(job)
            self._connection.reply(replies.error(str(text)) if isinstance(text, AnewError) else replies.NULL)
        else:
            self._connection.reply(replies.bulk(text))

    def _give_back(self, job: Job) -> None:
        """Nobody has seen it: its place in the queue is as it was."""
        key, token = job.key, job.hold_token
        assert token is not None
        self._commit.submit(Call(lambda batch: batch.give_back_reserved(key, token), _ignore, durable=False))


class Waits:
    """Those that wait, all for the same time: one timer serves them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._line: deque[WaitingFetch] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, waiting: WaitingFetch) -> None:
        """End this one in `FETCH_S` seconds, unless it is answered before."""
        waiting.at = self._loop.time() + FETCH_S
        line = self._line
        while line and line[0].answered:  # nearly all are long before their time
            line.popleft()
        line.append(waiting)
        if self._timer is None:
            self._timer = self._loop.call_at(waiting.at, self._look)

    def end_all(self) -> None:
        """End all of them now."""
        while self._line:
            self._line.popleft().end()

    def _look(self) -> None:
        now = self._loop.time()
        line = self._line
        while line and (line[0].answered or line[0].at <= now):
            line.popleft().end()
        self._timer = self._loop.call_at(line[0].at, self._look) if line else None


def _ignore(result: object) -> None:
    pass
