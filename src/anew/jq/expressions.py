"""What callers have: expressions checked, asked for matches, folded, each in a process that nobody shares with it meanwhile."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from anew.errors import ExpressionTooSlow, InvalidExpression, Overloaded
from anew.jq.evaluating import COMPILE, FILTER, FOLD, MATCHING, MERGE, MOST_MERGED, WHEN, Refused
from anew.jq.process import EvaluatingProcess

MOST_TEXT: Final = 4096
"""Bytes of an expression."""

SLICE_S: Final = 0.25
"""How long a process goes on with the payloads of one request, so that others have their turn."""

FOLD_S: Final = 2.0
BACKGROUND_S: Final = 5.0
"""The longest that one evaluation may take by the clock; processes keep to their processor time themselves. A fold, which a
transaction waits for, has the machine at once; a filter has what others leave of it."""

WAIT_S: Final = 5.0
"""The longest wait for a process that others use."""

REMEMBERED_S: Final = 60.0
"""How long a fold that took too long is not tried again."""

MOST_REMEMBERED: Final = 1_000


class Expressions:
    """Checks and evaluates expressions; any thread may call it.

    Args:
        processes: How many filters are evaluated at a time, >= 1; folds, and the checks of folds, have a process each beside.
        clock: Seconds, by which folds are remembered that took too long.

    Attributes:
        most_bytes: Of two payloads that `folded` merges.
    """

    most_bytes: Final = MOST_MERGED

    def __init__(self, processes: int = 2, clock: Callable[[], float] = time.monotonic) -> None:
        filters = [EvaluatingProcess(BACKGROUND_S, background=True) for _ in range(processes)]
        checks, folds = EvaluatingProcess(FOLD_S), EvaluatingProcess(FOLD_S)
        self._all = [*filters, checks, folds]
        self._filters = _free(filters)
        self._checks = _free([checks])
        self._folds = _free([folds])
        self._slow = _Slow()
        self._clock = clock

    def check(self, text: str, field: str) -> None:
        """Compile a filter.

        Args:
            text: Any text.
            field: What it is called where it was given.

        Raises:
            InvalidExpression: It cannot be compiled, is too long, or takes too long to compile.
            Overloaded: All processes are in use for too long, or `close` was called.
        """
        written = _written(text, field)
        with _taken(self._filters) as process, _naming(f"invalid {field}", field):
            process.ask((COMPILE, FILTER.encode(), written))

    def matching(self, text: str, payloads: Sequence[bytes], *, within_s: float | None = None) -> list[bool]:
        """Tell of each payload whether any output of an expression over it is neither false nor null.

        No output and an error of the evaluation are False.

        Args:
            text: The expression; its input is the payload.
            payloads: JSON documents.
            within_s: Stop after so many seconds: the list may then be shorter than that of the payloads, and has one member at
                least. None: look at all of them.

        Raises:
            InvalidExpression: The expression cannot be compiled.
            ExpressionTooSlow: It takes more time or memory for one payload than it may.
            Overloaded: As `check`.
        """
        written = _written(text, "filter")
        end = None if within_s is None else time.monotonic() + within_s
        found: list[bool] = []
        while len(found) < len(payloads):
            slice_s = SLICE_S if end is None else min(SLICE_S, end - time.monotonic())
            if found and slice_s <= 0:
                break
            asked = (MATCHING, b"%d" % max(0, int(slice_s * 1_000)), written, *payloads[len(found) :])
            with _taken(self._filters) as process:
                try:
                    found += map(bool, process.ask(asked, within_s=SLICE_S))
                except Refused as refusal:
                    raise InvalidExpression(f"invalid filter: {refusal}", field="filter") from None
        return found

    def folded(self, when: str, fold: str, existing: bytes, new: bytes) -> bytes | None:
        """Merge two payloads by an expression, if a condition over both holds.

        Args:
            when: The condition, over null, with ``$existing`` and ``$new``; its first output counts.
            fold: Gives the merged payload, over the same.
            existing: The payload that waits, JSON.
            new: The one that comes.

        Returns:
            The merged payload as JSON in one line; None if the condition does not hold, gives nothing or an error, if that takes
            too long or did so less than `REMEMBERED_S` ago, or if the payloads have more than `MOST_MERGED` bytes.

        Raises:
            InvalidExpression: `fold` gives an error, nothing, or several values.
            Overloaded: As `check`.
        """
        if len(existing) + len(new) > self.most_bytes:
            return None
        asked = (MERGE, _written(when, "when"), _written(fold, "fold"), existing, new)
        with _taken(self._folds) as process:
            if self._slow.forbids((when, fold), self._clock()):
                return None
            try:
                return process.ask(asked) or None
            except Refused as refusal:
                raise InvalidExpression(f"fold: {refusal}", field="fold") from None
            except ExpressionTooSlow:
                self._slow.note((when, fold), self._clock())
                return None

    def check_fold(self, when: str, fold: str, payload: bytes, what: str = "batch") -> bytes:
        """Compile a condition and a fold, then try both with one payload for both variables.

        The condition may give nothing; the fold must give one value. The process that folds is started, so that no transaction
        waits for that.

        Returns:
            What the fold gives, as JSON; nothing if it has more than `MOST_MERGED` bytes.

        Raises:
            InvalidExpression: One of them does not do.
            Overloaded: As `check`.
        """
        texts = {
            name: _written(text, name, f"{what} expression: ")
            for name, text in (("when", when), ("fold", fold))
        }
        with _taken(self._checks) as process:
            for name, text in texts.items():
                with _naming(f"{what} expression: {name}", name):
                    process.ask((COMPILE, name.encode(), text))
            with _naming(f"{what} dry-run: when", "when"):
                process.ask((WHEN, texts["when"], payload, payload))
            with _naming(f"{what} dry-run: fold", "fold"):
                folded = process.ask((FOLD, texts["fold"], payload, payload))
        with _taken(self._folds) as process:
            process.start()
        return folded

    def close(self) -> None:
        """End the processes; evaluations under way, and later ones, raise Overloaded."""
        for process in self._all:
            process.close()


class _Slow:
    """Which folds have taken too long: a transaction waits for each, so they are not tried again and again."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], float] = {}

    def forbids(self, texts: tuple[str, str], now: float) -> bool:
        """Report whether a fold is not to be evaluated now."""
        return now < self._until.get(texts, 0.0)

    def note(self, texts: tuple[str, str], now: float) -> None:
        """Remember a fold that took too long."""
        self._until.pop(texts, None)
        self._until[texts] = now + REMEMBERED_S
        if len(self._until) > MOST_REMEMBERED:
            del self._until[next(iter(self._until))]


Free = queue.LifoQueue[EvaluatingProcess]
"""Processes that nobody uses; the last one first, so that one is started only if all others are in use."""


def _free(processes: Sequence[EvaluatingProcess]) -> Free:
    free: Free = queue.LifoQueue()
    for process in processes:
        free.put(process)
    return free


@contextlib.contextmanager
def _taken(free: Free) -> Iterator[EvaluatingProcess]:
    try:
        process = free.get(timeout=WAIT_S)
    except queue.Empty:
        raise Overloaded("too many expressions are being evaluated; try again in a second") from None
    try:
        yield process
    finally:
        free.put(process)


@contextlib.contextmanager
def _naming(what: str, field: str) -> Iterator[None]:
    """Make InvalidExpression of whatever an expression comes to that it must not."""
    try:
        yield
    except (Refused, ExpressionTooSlow) as error:
        raise InvalidExpression(f"{what}: {error}", field=field) from None


def _written(text: str, field: str, before: str = "invalid ") -> bytes:
    """Give an expression's bytes; jq itself knows nothing of most of them beyond its bounds."""
    try:
        written = text.encode()
    except UnicodeEncodeError:
        raise InvalidExpression(f"{before}{field}: it holds half a surrogate pair", field=field) from None
    if len(written) > MOST_TEXT:
        problem = f"it has {len(written)} bytes; expected at most {MOST_TEXT}"
        raise InvalidExpression(f"{before}{field}: {problem}", field=field)
    if b"\0" in written:
        raise InvalidExpression(f"{before}{field}: it holds a NUL; expected text", field=field)
    return written
