"""Snapshots: the schedules of named policies, kept beside them, so that none changes by surprise.

The file is JSON with one block a policy, the names sorted, and one line a retry: ``"30s (15s to 52.5s)"`` is the
nominal wait, and in brackets the earliest and the latest, left out where all are the same. It holds what a policy does,
not how it is written: a preset that is spelled out stays the same, and one that changes its numbers under its name does
not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, Literal

import msgspec

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab.laws.spans import spans
from anew.lab.lint.texts import strict_json
from anew.units import counted, format_duration, format_duration_short, parse_duration

MAX_BYTES: Final = 1 << 24
SHOWN_RETRIES: Final = 100
"""Retries that a snapshot holds; what comes after them is in the number of retries and in the last wait."""


_BESIDE: Final = 1
"""Unchanged retries that are shown on either side of a changed one."""

_WAIT: Final = re.compile(r"(\S+)(?: \((\S+)(?: to (\S+))?\))?")
"""Nominal wait, and earliest and latest where they differ from it."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a policy does, as a snapshot holds it. Durations are texts such as ``"1h30m"``.

    Args:
        retries: How many there are: ``"25"``, ``"no end"``, ``"25, 10 before the deadline"``.
        window: Time of the last retry shown after the first failure: ``"20d to 22d"``.
        jitter: The jitter's JSON form without quotation marks: two jitters may share their bounds and differ inside.
        then: What becomes of a job that spent them, ``dead`` or ``discard``.
        waits: Each retry's wait, such as ``"30s (15s to 52.5s)"``.
    """

    retries: str
    window: str
    jitter: str
    then: str
    waits: tuple[str, ...]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One policy whose schedule is not the stored one.

    Args:
        policy: Its name.
        kind: ``changed``, ``new`` (not stored) or ``removed`` (stored, and there no more).
        words: What changed, one sentence each.
        stored: The stored schedule; None if new.
        now: The present one; None if removed.
    """

    policy: str
    kind: Literal["changed", "new", "removed"]
    words: tuple[str, ...]
    stored: Schedule | None
    now: Schedule | None

    def table(self) -> list[list[str]]:
        """Give both schedules side by side, the heading first: the retries that differ, marked ``*``, and their neighbours.

        All others are one row for each stretch of them, which says how many they are.
        """
        stored, now = (_waits(schedule) for schedule in (self.stored, self.now))
        pairs = [*zip_longest(stored, now, fillvalue="")]
        differs = [before != after for before, after in pairs]
        rows = [["", "retry", "stored", "now"]]
        left_out = 0
        for index, (before, after) in enumerate(pairs):
            if not any(differs[max(index - _BESIDE, 0) : index + _BESIDE + 1]):
                left_out += 1
                continue
            rows += _unchanged(left_out)
            left_out = 0
            mark = "*" if differs[index] else " "
            rows.append([mark, str(index + 1), *_both(before, after, _said)])
        return rows + _unchanged(left_out)


def _unchanged(number: int) -> list[list[str]]:
    return [["", "", f"{counted(number, 'row')} unchanged", ""]] if number else []


def schedule_of(policy: Policy) -> Schedule:
    """Give a policy's schedule."""
    total = policy.retries
    asked = SHOWN_RETRIES if total is None else min(total, SHOWN_RETRIES)
    rows = tuple(spans(policy, asked))
    count = "no end" if total is None else str(total)
    if len(rows) < asked:
        count += f", {len(rows)} before the deadline"
    last = rows[-1] if rows else None
    return Schedule(
        retries=count,
        window=_range(last.window_earliest_ms or 0, last.window_latest_ms or 0) if last else "0s",
        jitter=_written(policy.to_json().get("jitter", "none")),
        then=policy.on_exhausted,
        waits=tuple(
            _wait(
                *(format_duration_short(ms or 0) for ms in (row.nominal_ms, row.earliest_ms, row.latest_ms))
            )
            for row in rows
        ),
    )


def changes(stored: Mapping[str, Schedule], now: Mapping[str, Schedule]) -> list[Change]:
    """Compare two sets of schedules, by name; equal ones are not mentioned."""
    found = []
    for name in sorted({*stored, *now}):
        before, after = stored.get(name), now.get(name)
        if before is None:
            words: tuple[str, ...] = ("it is not in the snapshot",)
            found.append(Change(policy=name, kind="new", words=words, stored=None, now=after))
        elif after is None:
            words = ("it is in the snapshot only",)
            found.append(Change(policy=name, kind="removed", words=words, stored=before, now=None))
        elif before != after:
            words = tuple(_differences(before, after))
            found.append(Change(policy=name, kind="changed", words=words, stored=before, now=after))
    return found


def write_snapshot(schedules: Mapping[str, Schedule]) -> bytes:
    """Give the text of a snapshot: sorted by name, one line a retry, the same for the same schedules."""
    ordered = {name: msgspec.to_builtins(schedules[name]) for name in sorted(schedules)}
    return (json.dumps(ordered, indent=2, ensure_ascii=False) + "\n").encode()


def read_snapshot(content: bytes) -> dict[str, Schedule]:
    """Read a snapshot.

    Raises:
        InvalidInput: It is none; names what does not fit.
    """
    if len(content) > MAX_BYTES:
        raise _no_snapshot(f"it has more than {MAX_BYTES:,} bytes")
    try:
        schedules = msgspec.convert(strict_json(content.decode()), dict[str, Schedule])
        for schedule in schedules.values():
            _check(schedule)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _no_snapshot(f"it is no JSON ({error.msg} at {where})") from None
    except RecursionError:
        raise _no_snapshot("it is nested too deeply") from None
    except (ValueError, InvalidInput) as error:  # msgspec's errors are ValueErrors
        raise _no_snapshot(str(error)) from None
    return schedules


def _no_snapshot(why: str) -> InvalidInput:
    return InvalidInput(f"snapshot: {why}; expected what --update-snapshot writes", field="snapshot")


def _check(schedule: Schedule) -> None:
    """Insist on texts that can be said in words later."""
    _plain(schedule.window)
    if len(schedule.waits) > SHOWN_RETRIES:
        raise ValueError(
            f"{len(schedule.waits)} waits of one policy, and a snapshot has at most {SHOWN_RETRIES}"
        )
    for wait in schedule.waits:
        if not wait:
            raise ValueError("a wait is empty")
        _said(wait)


def _differences(before: Schedule, after: Schedule) -> list[str]:
    words = []
    if before.window != after.window:
        words.append("window " + " -> ".join(_both(before.window, after.window, _plain)))
    words += [
        f"{name} {old} -> {new}"
        for name, old, new in (
            ("retries", before.retries, after.retries),
            ("jitter", before.jitter, after.jitter),
            ("then", before.then, after.then),
        )
        if old != new
    ]
    pairs = zip_longest(before.waits, after.waits, fillvalue="")
    differing = [number for number, (old, new) in enumerate(pairs, start=1) if old != new]
    if differing:
        words.append(f"{len(differing)} of {max(len(before.waits), len(after.waits))} waits differ")
        first = differing[0]
        old, new = (_at(schedule.waits, first) for schedule in (before, after))
        words.append(f"the first is retry {first}: " + " -> ".join(_both(old, new, _said)))
    return words


def _at(waits: Sequence[str], number: int) -> str:
    return waits[number - 1] if number <= len(waits) else ""


def _waits(schedule: Schedule | None) -> tuple[str, ...]:
    return schedule.waits if schedule else ()


def _range(earliest: int, latest: int) -> str:
    first, last = format_duration_short(earliest), format_duration_short(latest)
    return first if first == last else f"{first} to {last}"


def _both(before: str, after: str, say: Callable[[str], str]) -> list[str]:
    """Give two stored texts in words; as they are stored where rounded words would hide the difference."""
    words = [say(before), say(after)]
    return [before, after] if before != after and words[0] == words[1] else words


def _plain(text: str) -> str:
    """Give a stored range for people, rounded as everywhere."""
    return " to ".join(format_duration(parse_duration(end, field="window")) for end in text.split(" to "))


def _said(wait: str) -> str:
    """Give a stored wait for people, rounded as everywhere."""
    if not wait:
        return "none"
    found = _WAIT.fullmatch(wait)
    if found is None:
        raise ValueError(f"{wait!r} is no wait such as '30s (15s to 52.5s)'")
    nominal, earliest, latest = found.groups()
    earliest = earliest or nominal
    return _wait(*(format_duration(parse_duration(text)) for text in (nominal, earliest, latest or earliest)))


def _wait(nominal: str, earliest: str, latest: str) -> str:
    """Put three durations together: what is the same is written once."""
    if earliest == latest:
        return earliest if nominal == earliest else f"{nominal} ({earliest})"
    return f"{nominal} ({earliest} to {latest})"


def _written(value: Any) -> str:
    # Inside a JSON text quotation marks would each need a backslash.
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True).replace('"', "")
