"""Changes of all jobs that a selection means, by an expression over payloads too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from anew.engine.bulk import BulkChanges, ChunkChange
from anew.engine.ops import Done
from anew.errors import AnewError
from anew.http.api import Context
from anew.store.selection import Filter


class ManyJobs:
    """Changes many jobs, in chunks beside everybody's batches."""

    def __init__(self, context: Context) -> None:
        self._searches = context.searches
        self._bulk = BulkChanges(context.commit.submit, context.reads.later, context.engine.clock.now, _later)

    def change(
        self,
        name: str | None,
        where: Filter,
        expression: str | None,
        change: ChunkChange,
        gone: Callable[[], bool],
        done: Done,
        *,
        counted: bool = False,
    ) -> None:
        """Change all jobs that match.

        Args:
            name: What is done to them, for the log; None: nothing.
            where, expression: Which jobs.
            change: What is done to each chunk.
            gone: Tells that nobody waits for the end any more; a change that searches by an expression ends then.
            done: Called with how many have been changed, or an AnewError.
            counted: It has to know beforehand how many they are.
        """
        if expression is None:
            self._bulk.start(where, change, done, name=name)
            return
        text = expression

        def sift(keys: Sequence[int], then: Done) -> None:
            self._searches.among(keys, text, gone, then)

        def start(found: Any) -> None:
            if isinstance(found, AnewError):
                done(found)
                return
            try:
                self._bulk.start(where, change, done, sift=sift, total=found, name=name)
            except AnewError as error:  # the caller has returned: nobody else would catch it
                done(error)

        if counted:
            self._searches.count(where, text, gone, start)
        else:
            self._searches.check(text, gone, start)


def _later(seconds: float, go_on: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(seconds, go_on)
