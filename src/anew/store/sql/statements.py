"""Finds the named statements of ``queries.sql``, in the words of one engine, and gives them the width of a batch."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from itertools import chain, repeat
from typing import Any, TypeVar

from anew.jobs.breaker import BreakerRow
from anew.jobs.cron_entry import CronEntry, CronGroup
from anew.jobs.key_limits import KeyStanding
from anew.jobs.outcomes import HoldKind
from anew.store.sql.rows import (
    BLOCKED,
    CODE,
    COUNTED,
    JOB_COLUMNS,
    NO_STATE,
    RESERVED_COLUMNS,
    STATE,
    TAKEN_COLUMNS,
)
from anew.store.topics import DeliveryRow, DeliveryStatus, MessageRow, SubscriptionRow

T = TypeVar("T")

Run = Callable[..., Any]
"""``run(name, bound=(), width=1)`` runs a named statement on some connection; gives its rows, and has `fetchall` and `fetchone`.

Loosely typed on purpose: what a row holds is known by its statement, and `rows.py` gives it names.
"""

COUNT_OF = "count of "

WIDTH = 128
"""Rows or keys in one statement at most: wide enough that a step's price vanishes."""

_STEP = 8
_LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, WIDTH)
"""Few widths: with each number from 1 to 128 each verb would have so many statements, more than are kept prepared."""

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_ROWS = re.compile(r"@rows\(([\w, ]+)\)")
_CALL = re.compile(r"@(by|bytes|texts|numbers|then|first|none)\(")

_WORDS = {f"@{state.name}": str(code) for state, code in CODE.items()} | {
    "@BLOCKED": str(BLOCKED),
    "@NO_STATE": str(NO_STATE),
    "@RESERVATION": str(int(HoldKind.RESERVATION)),
    **{f"@KEY_{standing.name}": str(int(standing)) for standing in KeyStanding},
    **{f"@DELIVERY_{status.name}": str(int(status)) for status in DeliveryStatus},
    "@STATES": ", ".join(map(str, STATE)),
    "@job": JOB_COLUMNS,
    "@undecoded_job": JOB_COLUMNS.replace("queue, type,", "@bytes(queue), @bytes(type),", 1),
    "@taken": TAKEN_COLUMNS,
    "@reserved": RESERVED_COLUMNS,
    "@cron": ", ".join(CronEntry.__struct_fields__),
    "@undecoded_cron": ", ".join(
        f"@bytes({name})" if name in ("expression", "timezone") else name
        for name in CronEntry.__struct_fields__
    ),
    "@new_cron": ", ".join(f"{name} = excluded.{name}" for name in CronEntry.__struct_fields__),
    "@cron_group": ", ".join(CronGroup.__struct_fields__),
    "@new_cron_group": ", ".join(f"{name} = excluded.{name}" for name in CronGroup.__struct_fields__),
    "@group_paused": "(SELECT g.paused FROM cron_group AS g WHERE g.name = cron.group_name)",
    "@group_timezone": "(SELECT g.timezone FROM cron_group AS g WHERE g.name = cron.group_name)",
    "@breaker": ", ".join(BreakerRow.__struct_fields__),
    "@undecoded_breaker": ", ".join(
        f"@bytes({name})" if name in ("key", "state") else name for name in BreakerRow.__struct_fields__
    ),
    "@new_breaker": ", ".join(
        f"{name} = excluded.{name}" for name in BreakerRow.__struct_fields__ if name != "key"
    ),
    "@subscription": ", ".join(SubscriptionRow.__struct_fields__),
    "@new_subscription": ", ".join(
        f"{name} = excluded.{name}" for name in SubscriptionRow.__struct_fields__ if name != "id"
    ),
    "@message": ", ".join(MessageRow.__struct_fields__),
    "@delivery": ", ".join(DeliveryRow.__struct_fields__),
    "@counters": ", ".join(COUNTED),
    "@sums": ", ".join(map("coalesce(sum({}), 0)".format, COUNTED)),
    "@shown": f"(paused <> 0 OR {' + '.join(COUNTED)} > 0)",
    "@new_counters": ", ".join(f"{state} = excluded.{state}" for state in COUNTED),
    "@a_row_a_counter": " UNION ALL ".join(
        map("SELECT name, {1}, {0} FROM queue".format, COUNTED, COUNTED.values())
    ),
}


class Statements:
    """All statements in the words of one engine.

    Args:
        package: Where the engine's ``own.sql`` is, whose statements stand beside or in place of the common ones.
        words: What the engine says for each word that begins with ``@``.
        calls: The same of those with something in brackets.
        row: Writes one row of marks: how many, or the types of its columns; and whether it is the first of several.
        marked: Writes the marks of a whole statement, each ``?`` or ``?n``, as the engine has them.
    """

    def __init__(
        self,
        package: str,
        words: Mapping[str, str],
        calls: Mapping[str, Callable[[str], str]],
        *,
        row: Callable[[Sequence[str], bool], str],
        marked: Callable[[str], str] = lambda text: text,
    ) -> None:
        self._package, self._calls = package, calls
        self._words = {**_WORDS, **words}
        self._word = re.compile("|".join(rf"{word}\b" for word in self._words))
        self._row, self._marked = row, marked
        self._named: dict[str, str] | None = None
        self._texts: dict[tuple[str, int], str] = {}

    def named(self) -> dict[str, str]:
        """Give every statement, by name, without comments, with codes and columns filled in and white space folded."""
        if self._named is None:
            common = resources.files("anew.store.sql").joinpath("queries.sql").read_text("utf-8")
            own = resources.files(self._package).joinpath("own.sql").read_text("utf-8")
            self._named = {name: self.fill(body) for text in (common, own) for name, body in _parts(text)}
        return self._named

    def fill(self, body: str) -> str:
        """Say a text in the engine's words, but for its marks."""
        lines = [line for line in body.splitlines() if not line.startswith("--")]
        text = self._word.sub(
            lambda found: self._words[found[0]], " ".join(" ".join(lines).split()).rstrip(";")
        )
        # From the right: what is in brackets is said before what is around it.
        for found in reversed(list(_CALL.finditer(text))):
            end = _closing(text, found.end())
            text = text[: found.start()] + self._calls[found[1]](text[found.end() : end]) + text[end + 1 :]
        return text

    def text(self, name: str, width: int = 1) -> str:
        """Give one statement, its ``@rows`` and ``@marks`` repeated `width` times; ``count of NAME`` counts the rows of another."""
        text = self._texts.get((name, width))
        if text is None:
            body = self.named()[name.removeprefix(COUNT_OF)]
            if name.startswith(COUNT_OF):
                body = f"SELECT count(*) FROM ({body}) AS counted"  # noqa: S608 ours
            text = self._texts[name, width] = self._marked(self._widened(body, width))
        return text

    def say(self, text: str) -> str:
        """Give a statement that has no name, in the engine's words."""
        return self._marked(self.fill(text))

    def _widened(self, text: str, width: int) -> str:
        def rows(found: re.Match[str]) -> str:
            columns = found[1].split(", ")
            if columns[0].isdigit():
                columns = [""] * int(columns[0])
            return ",".join([self._row(columns, True), *[self._row(columns, False)] * (width - 1)])

        return _ROWS.sub(rows, text).replace("@marks", ",".join("?" * width))

    def runner(self, execute: Callable[..., Any]) -> Run:
        """Give what runs named statements by a function that executes texts."""
        texts, text = self._texts, self.text

        def run(name: str, bound: Sequence[Any] = (), width: int = 1) -> Any:
            return execute(texts.get((name, width)) or text(name, width), bound)

        return run


def _closing(text: str, at: int) -> int:
    """Find the bracket that closes what was open at a place."""
    depth = 1
    while depth := depth + (text[at] == "(") - (text[at] == ")"):
        at += 1
    return at


def _parts(text: str) -> Iterable[tuple[str, str]]:
    parts = _NAME.split(text)[1:]
    return zip(parts[::2], parts[1::2], strict=True)


def in_widths(rows: Sequence[T]) -> Iterable[Sequence[T]]:
    """Cut rows into whole eights, `WIDTH` at most, and the rest: 23 widths."""
    if len(rows) < _STEP:  # mostly, and often there is nothing: no generator for that
        return (rows,) if rows else ()
    return _eights(rows)


def _eights(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    whole = len(rows) // _STEP * _STEP
    for start in range(0, whole, WIDTH):
        yield rows[start : min(start + WIDTH, whole)]
    if whole < len(rows):
        yield rows[whole:]


def in_lists(keys: Sequence[T]) -> Iterable[Sequence[T]]:
    """Cut keys for statements with ``IN (@marks)``; each list repeats its last key until it has one of few lengths."""
    if len(keys) in _LENGTHS:
        return (keys,)
    return [_filled(keys[start : start + WIDTH]) for start in range(0, len(keys), WIDTH)]


def _filled(keys: Sequence[T]) -> Sequence[T]:
    missing = _LENGTHS[bisect_left(_LENGTHS, len(keys))] - len(keys)
    return (*keys, *repeat(keys[-1], missing))


def write_rows(run: Run, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Run a statement that writes rows for some, in as many runs as its width needs."""
    for part in in_widths(rows):
        run(name, tuple(chain.from_iterable(part)), len(part))
