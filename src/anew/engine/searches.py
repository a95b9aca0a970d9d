"""Finds jobs by what their payloads hold: keys by the other filters, their payloads, and an expression asked about these.

A search goes on a chunk at a time. Keys and payloads are read in the reader's thread; processes evaluate the expression, and
threads of this module wait for them. Two chunks of all searches are read or evaluated at a time, in turn, so that a slow expression
delays nobody else's lists, and no more than two chunks are in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import compress
from typing import Any, NamedTuple, Protocol

from anew.engine.ops import Done
from anew.errors import AnewError, ExpressionTooSlow, InternalError, Overloaded
from anew.store.protocol import Reader
from anew.store.selection import Filter, Page

log = logging.getLogger("anew.engine")

AT_ONCE = 2
"""Chunks that are read or evaluated at a time."""

WAITING = 16
"""Searches under way beyond these; more are refused."""

FOUND = 250
"""Keys found in one look, and payloads read in one go: about a millisecond for which the loop shares the interpreter."""

CHUNK_BYTES = 2 << 20
"""Bytes of payloads read in one go, but for the last of them."""

CHUNK_S = 0.1
"""How long one chunk is evaluated; what is left of it waits for the search's next turn."""

LIST_S = 5.0
"""After this a list ends with what was found."""

COUNT_S = 25.0
"""After this a count is refused; its last chunk may end 5 s later, and clients wait 30 s as a rule."""

READ_AGAIN_S = 0.05
"""How soon a search asks again where too many reads are waiting."""

Gone = Callable[[], bool]
"""Whether nobody waits for a search any more; it ends then."""


class Matcher(Protocol):
    """What evaluates expressions; calls block."""

    def check(self, text: str, field: str) -> None:
        """Raise InvalidInput if an expression cannot be compiled."""

    def matching(self, text: str, payloads: Sequence[bytes], *, within_s: float | None = None) -> list[bool]:
        """Tell of each payload, or of as many as that time allows, whether an expression matches."""


class Found(NamedTuple):
    """The result of a search for a page.

    Attributes:
        keys: Of the jobs that match, in the page's order.
        stopped_at: The key behind which it can go on, where time was over before the page was full; else None.
    """

    keys: list[int]
    stopped_at: int | None


class Searches:
    """Runs searches.

    Args:
        read: Runs a function with the store's reader in its thread; raises Overloaded while too many wait.
        matcher: Evaluates expressions.
        loop: Where results are handed back.
    """

    def __init__(
        self,
        read: Callable[[Callable[[Reader], Any], Done], None],
        matcher: Matcher,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.read = read
        self.loop = loop
        self._matcher = matcher
        self._threads = ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="anew-search")
        self._under_way = 0
        self._busy = 0
        self._turns: deque[Callable[[], None]] = deque()
        self._stopped = False

    def page(self, where: Filter, page: Page, text: str, gone: Gone, then: Done) -> None:
        """Find the jobs of a page.

        Args:
            where: The other filters.
            page: Which of them.
            text: The expression.
            gone: See `Gone`.
            then: Called with a `Found`, or with an AnewError.

        Raises:
            Overloaded: Too many searches are under way.
        """
        found: list[int] = []

        def take(keys: list[int]) -> bool:
            found.extend(keys[: page.limit - len(found)])
            return len(found) == page.limit

        def ended(search: _Search) -> None:
            then(Found(found, search.stopped_at))

        self._begin(_Search(self, where, page, text, gone, LIST_S, take, self._ending(ended, then)))

    def count(self, where: Filter, text: str, gone: Gone, then: Done) -> None:
        """Count the jobs that match; as `page`, and the error of a count that takes too long is an ExpressionTooSlow."""
        number = 0

        def take(keys: list[int]) -> bool:
            nonlocal number
            number += len(keys)
            return False

        def ended(search: _Search) -> None:
            if search.stopped_at is None:
                then(number)
            else:
                what = f"this filter takes more than {COUNT_S:.0f} s to count"
                then(ExpressionTooSlow(f"{what}; narrow it by queue, type or status", field="filter"))

        self._begin(_Search(self, where, Page(), text, gone, COUNT_S, take, self._ending(ended, then)))

    def check(self, text: str, gone: Gone, then: Done) -> None:
        """Compile an expression; `then` is called with None, or with an AnewError."""
        self._begin(self._of_given([], text, gone, lambda keys: then(None), then))

    def among(self, keys: Sequence[int], text: str, gone: Gone, then: Done) -> None:
        """Find out which of some jobs match, however long it takes: `then` is called with their keys, or with an AnewError.

        It is part of something larger, which has been admitted already: only `stop` refuses it.
        """
        self._begin(self._of_given(keys, text, gone, then, then), bounded=False)

    def stop(self) -> None:
        """End all searches at their next turn, and refuse new ones: the server is shutting down."""
        self._stopped = True

    def close(self) -> None:
        """As `stop`, and let what is evaluated just now end."""
        self.stop()
        self._threads.shutdown(wait=True, cancel_futures=True)

    # ---- for the searches themselves

    def turn(self, call: Callable[[], None]) -> None:
        """Call a function as soon as one more chunk may be in memory; `turn_over` must follow."""
        self._turns.append(call)
        self._give_turns()

    def turn_over(self) -> None:
        """Let the next search have its turn."""
        self._busy -= 1
        self._give_turns()

    def evaluate(self, function: Callable[[Matcher], Any], then: Done) -> None:
        """Call a function in a thread; `then` is called in the loop's with its result, or with an AnewError."""

        def work() -> None:
            try:
                result: Any = function(self._matcher)
            except AnewError as error:
                result = error
            except Exception:
                log.exception("a search failed")
                result = InternalError("internal server error")
            try:
                self.loop.call_soon_threadsafe(then, result)
            except RuntimeError:  # the loop has closed; nobody waits for an answer any more
                log.debug("a search ended after the server")

        self._threads.submit(work)

    def check_going_on(self, gone: Gone) -> None:
        """Raise Overloaded if a search is to end now."""
        if self._stopped:
            raise Overloaded("the server is shutting down")
        if gone():
            raise Overloaded("nobody waits for the answer any more")

    # ---- inside

    def _of_given(
        self, keys: Sequence[int], text: str, gone: Gone, ended: Callable[[list[int]], None], then: Done
    ) -> _Search:
        found: list[int] = []

        def take(matching: list[int]) -> bool:
            found.extend(matching)
            return False

        done = self._ending(lambda search: ended(found), then)
        search = _Search(self, None, Page(), text, gone, None, take, done)
        search.keys = list(keys)
        return search

    def _begin(self, search: _Search, *, bounded: bool = True) -> None:
        if self._stopped:
            raise Overloaded("the server is shutting down")
        if bounded and self._under_way >= AT_ONCE + WAITING:
            raise Overloaded("too many searches by payload are under way; try again in a second")
        self._under_way += 1
        search.begin()

    def _ending(
        self, ended: Callable[[_Search], None], then: Done
    ) -> Callable[[_Search, AnewError | None], None]:
        def done(search: _Search, error: AnewError | None) -> None:
            self._under_way -= 1
            if error is None:
                ended(search)
            else:
                then(error)

        return done

    def _give_turns(self) -> None:
        while self._turns and self._busy < AT_ONCE:
            self._busy += 1
            self._turns.popleft()()


class _Search:
    """One search: its steps, each a turn of its own.

    Attributes:
        keys: Found, and not looked at yet.
        stopped_at: The last key looked at, if there may be more behind it that were not.
    """

    def __init__(
        self,
        searches: Searches,
        where: Filter | None,
        page: Page,
        text: str,
        gone: Gone,
        most_s: float | None,
        take: Callable[[list[int]], bool],
        done: Callable[[_Search, AnewError | None], None],
    ) -> None:
        self._all = searches
        self._where = where  # None: keys were given, and no more are looked for
        self._order = page.order
        self._after, self._inclusive = page.after, page.inclusive
        self._text = text
        self._gone = gone
        self._end = None if most_s is None else searches.loop.time() + most_s
        self._take = take
        self._done = done
        self._exhausted = where is None
        self.keys: list[int] = []
        self.stopped_at: int | None = None

    def begin(self) -> None:
        """Check the expression, and go on."""
        self._all.turn(lambda: self._all.evaluate(self._check, self._checked))

    def _check(self, matcher: Matcher) -> None:
        matcher.check(self._text, "filter")

    def _checked(self, result: AnewError | None) -> None:
        self._all.turn_over()
        if result is None:
            self._go_on()
        else:
            self._done(self, result)

    def _go_on(self) -> None:
        """Wait for a turn, or end."""
        if self._exhausted and not self.keys:
            self.stopped_at = None
            self._done(self, None)
        elif self.stopped_at is not None and self._end is not None and self._all.loop.time() >= self._end:
            self._done(self, None)
        else:
            self._all.turn(self._step)

    def _step(self) -> None:
        try:
            self._all.check_going_on(self._gone)
        except Overloaded as error:
            self._fail(error)
            return
        try:
            self._all.read(self._read, self._received)
        except Overloaded:
            self._all.turn_over()
            self._all.loop.call_later(READ_AGAIN_S, lambda: self._all.turn(self._step))

    def _read(self, reader: Reader) -> tuple[list[int], list[bytes]]:
        """In the reader's thread: find keys if there are none left, and read the payloads of the first ones."""
        keys = self.keys
        if not keys and self._where is not None:
            page = Page(order=self._order, after=self._after, inclusive=self._inclusive, limit=FOUND)
            keys = reader.find(self._where, page)
        return keys, reader.payloads(keys[:FOUND], CHUNK_BYTES)

    def _received(self, result: tuple[list[int], list[bytes]] | AnewError) -> None:
        if isinstance(result, AnewError):
            self._fail(result)
            return
        keys, payloads = result
        if not self.keys:
            self._exhausted = len(keys) < FOUND
        self.keys = keys
        if keys:
            self._all.evaluate(
                lambda matcher: matcher.matching(self._text, payloads, within_s=CHUNK_S), self._evaluated
            )
        else:
            self._all.turn_over()
            self._go_on()

    def _evaluated(self, result: list[bool] | AnewError) -> None:
        if isinstance(result, AnewError):
            self._fail(result)
            return
        self._all.turn_over()
        looked, self.keys = self.keys[: len(result)], self.keys[len(result) :]
        self.stopped_at = self._after = looked[-1]
        self._inclusive = False
        if self._take(list(compress(looked, result))):
            self.stopped_at = None
            self._done(self, None)
        else:
            self._go_on()

    def _fail(self, error: AnewError) -> None:
        self._all.turn_over()
        self._done(self, error)
