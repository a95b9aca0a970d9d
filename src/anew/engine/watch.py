"""Looks at the lists of jobs for all who watch them: one look for all, in the reader's thread, when something was written.

The store itself says that something was written, so nothing is done where jobs are changed. Only which attempts have ended is told
by the engine, while somebody watches.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from anew.engine.batch import Ended
from anew.engine.engine import Engine
from anew.engine.reads import Reads
from anew.engine.windows import Anchor, Window, length_of, window
from anew.errors import AnewError, Overloaded
from anew.store.protocol import JobList, Lengths, Reader

log = logging.getLogger("anew.engine")

LOOK_S = 0.1
"""Between two looks; what happens meanwhile is seen by the next one."""

REST = 9
"""How many times as long as a look takes the thread is left to others before the next. A look that somebody waits for comes sooner,
after as long as the one before took."""

TROUBLE_S = 5.0
"""How long nothing is looked at after a look that has failed."""

MAX_ENDED = 1_000
"""Ends of attempts that are kept for the next look. Where there are more, all who watch have fallen behind."""


class Wanted(NamedTuple):
    """A window that somebody watches.

    Attributes:
        of: The list.
        anchor: What it is around.
        limit: Jobs in it.
        ranked: See `window`.
    """

    of: JobList
    anchor: Anchor
    limit: int
    ranked: bool


class Shown(NamedTuple):
    """What was seen.

    Attributes:
        lengths: How many jobs there were.
        windows: What was wanted.
        ended: The attempts that were reported on since the look before; None where they were too many to be kept.
    """

    lengths: Lengths
    windows: Mapping[Wanted, Window]
    ended: Ended | None


class Watcher(Protocol):
    """Somebody who watches."""

    def wants(self) -> Iterable[Wanted]:
        """Say what to look at."""

    def see(self, look: Shown) -> None:
        """Called after a look at what `wants` had said; if it says something else by now, parts may be missing."""


class Watch:
    """All who watch one store.

    Args:
        reads: Where the looks are done.
        engine: What tells of ended attempts.
        loop: The event loop.

    Attributes:
        lengths: How many jobs there were at the last look.
    """

    def __init__(self, reads: Reads, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        self.lengths = Lengths(0, 0, 0, 0)
        self._reads = reads
        self._engine = engine
        self._loop = loop
        self._watchers: dict[Watcher, None] = {}
        self._version: object = None
        self._timer: asyncio.TimerHandle | None = None
        self._looking = False
        self._soon = False  # somebody waits for the next look
        self._looked_at = 0.0  # when the last look was over, by the loop's clock
        self._took_s = 0.0
        self._ended = Ended([], [])
        self._overrun = False

    def add(self, watcher: Watcher) -> None:
        """Look for one more; the first look comes at once."""
        if not self._watchers:
            self._engine.listen_ended(self._note_ended)
        self._watchers[watcher] = None
        self.look_soon()

    def remove(self, watcher: Watcher) -> None:
        """Look for it no more."""
        self._watchers.pop(watcher, None)
        if not self._watchers:
            self._engine.listen_ended(None)
            self._take_ended()
            self._stop_timer()

    def look_soon(self) -> None:
        """Look again though nothing may have been written, since somebody wants to see something else."""
        self._soon = True
        self._arm()

    # ---- inside

    def _arm(self) -> None:
        """Set the timer of the next look."""
        if self._looking or not self._watchers:
            return
        self._stop_timer()
        rest_s = self._took_s if self._soon else max(LOOK_S, REST * self._took_s)
        self._timer = self._loop.call_at(max(self._loop.time(), self._looked_at + rest_s), self._look)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        self._looking = True
        known = None if self._soon else self._version
        self._soon = False
        wanted = {one for watcher in self._watchers for one in watcher.wants()}
        try:
            self._reads.later(lambda reader: _look(reader, wanted, known), self._seen)
        except Overloaded as error:
            self._seen(error)

    def _seen(self, result: Any) -> None:
        self._looking = False
        self._looked_at = self._loop.time()
        if isinstance(result, AnewError):
            self._version = None
            self._took_s = TROUBLE_S / REST
        else:
            self._version, self._took_s, seen = result
            if seen is not None:
                self.lengths, windows = seen
                self._show(Shown(self.lengths, windows, self._take_ended()))
        self._arm()

    def _show(self, look: Shown) -> None:
        for watcher in list(self._watchers):
            try:
                watcher.see(look)
            except Exception:
                log.exception("who watches has failed")
                self.remove(watcher)

    def _note_ended(self, ended: Ended) -> None:
        for keys, more in zip(self._ended, ended, strict=True):
            if len(keys) + len(more) <= MAX_ENDED:
                keys.extend(more)
            else:
                self._overrun = True

    def _take_ended(self) -> Ended | None:
        ended, self._ended = self._ended, Ended([], [])
        overrun, self._overrun = self._overrun, False
        return None if overrun else ended


Seen = tuple[Lengths, dict[Wanted, Window]]


def _look(reader: Reader, wanted: Iterable[Wanted], known: object) -> tuple[object, float, Seen | None]:
    """Look, in the reader's thread, unless the version is the known one.

    Returns:
        The version, how long it took in seconds, and what was seen.
    """
    started = time.perf_counter()
    version = reader.version()
    if version == known:
        return version, 0.0, None
    with reader.snapshot():
        lengths = reader.lengths()
        windows = {
            one: window(reader, one.of, one.anchor, one.limit, length_of(lengths, one.of), ranked=one.ranked)
            for one in wanted
        }
    return version, time.perf_counter() - started, (lengths, windows)
