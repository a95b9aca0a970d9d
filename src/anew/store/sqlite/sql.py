"""Finds the named statements of ``queries.sql`` and gives them the width of a batch."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib import resources
from itertools import chain, repeat
from typing import Any, TypeVar

from anew.jobs.breaker import BreakerRow
from anew.jobs.cron_entry import CronEntry, CronGroup
from anew.store.sqlite.rows import BLOCKED, CODE, COUNTED, JOB_COLUMNS, RESERVED_COLUMNS, STATE, TAKEN_COLUMNS
from anew.store.topics import DeliveryRow, MessageRow, SubscriptionRow

T = TypeVar("T")

WIDTH = 128
"""Rows or keys in one statement at most: wide enough that a step's price vanishes."""

_STEP = 8
_LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, WIDTH)
"""Few widths: with each number from 1 to 128 each verb would have so many statements, more than are kept prepared."""

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_ROWS = re.compile(r"@rows\((\d+)\)")

_WORDS = {f"@{state.name}": str(code) for state, code in CODE.items()} | {
    "@BLOCKED": str(BLOCKED),
    "@STATES": ", ".join(map(str, STATE)),
    "@job": JOB_COLUMNS,
    "@taken": TAKEN_COLUMNS,
    "@reserved": RESERVED_COLUMNS,
    "@cron": ", ".join(CronEntry.__struct_fields__),
    "@new_cron": ", ".join(f"{name} = excluded.{name}" for name in CronEntry.__struct_fields__),
    "@cron_group": ", ".join(CronGroup.__struct_fields__),
    "@new_cron_group": ", ".join(f"{name} = excluded.{name}" for name in CronGroup.__struct_fields__),
    "@group_paused": "(SELECT g.paused FROM cron_group AS g WHERE g.name = cron.group_name)",
    "@group_timezone": "(SELECT g.timezone FROM cron_group AS g WHERE g.name = cron.group_name)",
    "@breaker": ", ".join(BreakerRow.__struct_fields__),
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
    "@sums": ", ".join(map("total({})".format, COUNTED)),
    "@shown": f"(paused OR {' + '.join(COUNTED)} > 0)",
    "@new_counters": ", ".join(f"{state} = excluded.{state}" for state in COUNTED),
    "@a_row_a_counter": " UNION ALL ".join(
        map("SELECT name, {1}, {0} FROM queue".format, COUNTED, COUNTED.values())
    ),
}
_WORD = re.compile("|".join(rf"{word}\b" for word in _WORDS))


@lru_cache(maxsize=1)
def statements() -> dict[str, str]:
    """Read every statement, by name, without comments, with codes and columns filled in and white space folded."""
    text = resources.files("anew.store.sqlite").joinpath("queries.sql").read_text("utf-8")
    parts = _NAME.split(text)[1:]
    return {name: _fold(body) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _fold(body: str) -> str:
    lines = [line for line in body.splitlines() if not line.startswith("--")]
    return _WORD.sub(lambda found: _WORDS[found[0]], " ".join(" ".join(lines).split()).rstrip(";"))


@lru_cache(maxsize=8192)
def sql(name: str, width: int = 1) -> str:
    """Give one statement, its ``@rows`` and ``@marks`` repeated `width` times."""
    text = statements()[name]
    text = _ROWS.sub(lambda found: ",".join([_row(int(found[1]))] * width), text)
    return text.replace("@marks", ",".join("?" * width))


def counting(name: str) -> str:
    """Give a statement that counts the rows of another."""
    return f"SELECT count(*) FROM ({sql(name)})"  # noqa: S608 both parts are ours


def _row(columns: int) -> str:
    return "(" + ",".join("?" * columns) + ")"


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


def write_rows(execute: Callable[..., Any], name: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Run a statement that writes rows for some, in as many runs as its width needs."""
    for part in in_widths(rows):
        execute(sql(name, len(part)), tuple(chain.from_iterable(part)))
