"""Snapshots: the schedules of named policies, kept beside them, so that none changes by surprise.

The file is JSON with one block a policy, the names sorted, and one line a retry: ``"30s (15s to 52.5s)"`` is the
nominal wait, and in brackets the earliest and the latest, left out where all are the same. Of a policy with more than a
hundred retries it also holds the last wait, the last retry's time and the deadline. It holds what a policy does, not how
it is written: a preset that is spelled out stays the same, and one that changes its numbers under its name does not.
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
from anew.lab.lint.last_wait import last_wait
from anew.lab.lint.texts import strict_json
from anew.units import counted, format_duration, format_duration_short, parse_duration

MAX_BYTES: Final = 1 << 24
SHOWN_RETRIES: Final = 100
"""Retries that a snapshot holds one by one; what comes after them shows in the last wait and the last retry's time."""

_CLIPPED: Final = ", clip"

_BESIDE: Final = 1
"""Unchanged retries that are shown on either side of a changed one."""

_WAIT: Final = re.compile(r"(\S+)(?: \((\S+)(?: to (\S+))?\))?")
"""Nominal wait, and earliest and latest where they differ from it."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a policy does, as a snapshot holds it. Durations are texts such as ``"1h30m"``.

    Args:
        retries: How many there are: ``"25"``, ``"no end"``, ``"25, 10 before the deadline"``.
        window: Time of the last retry shown after the first failure: ``"20d to 22d"``.
        jitter: The jitter's JSON form without quotation marks: two jitters may share their bounds and differ inside.
        then: What becomes of a job that spent them, ``dead`` or ``discard``.
        waits: Each retry's wait, such as ``"30s (15s to 52.5s)"``.
        last: The wait before the last retry that limit and phases allow, of one without end before the 10^9th; None if
            all retries are shown, or if the snapshot was stored before Anew kept this and the two fields below.
        ends: Time of that retry after the first failure, the deadline left aside; None without an end.
        deadline: ``"1d"``, or ``"1d, clip"``; None without one.
    """

    retries: str
    window: str
    jitter: str
    then: str
    waits: tuple[str, ...]
    last: str | None = None
    ends: str | None = None
    deadline: str | None = None


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
        rows += _unchanged(left_out)
        lasts = [schedule.last if schedule else None for schedule in (self.stored, self.now)]
        if None not in lasts and lasts[0] != lasts[1]:
            rows.append(["*", "last", *_both(lasts[0] or "", lasts[1] or "", _said)])
        return rows


def _unchanged(number: int) -> list[list[str]]:
    return [["", "", f"{counted(number, 'row')} unchanged", ""]] if number else []


def schedule_of(policy: Policy) -> Schedule:
    """Give a policy's schedule."""
    total = policy.retries
    asked = SHOWN_RETRIES if total is None else min(total, SHOWN_RETRIES)
    goes_on = total is None or total > asked
    # One more tells whether the deadline lets any come after those that are shown.
    found = tuple(spans(policy, asked + goes_on))
    rows = found[:asked]
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
        **(_beyond(policy) if len(found) > asked else {}),
    )


def _beyond(policy: Policy) -> dict[str, str | None]:
    """Give what a schedule holds of the retries that are not shown."""
    last = last_wait(policy, SHOWN_RETRIES)
    deadline = None if policy.deadline_ms is None else format_duration_short(policy.deadline_ms)
    clipped = _CLIPPED if policy.on_deadline == "clip" else ""
    return {
        "last": _wait(*map(format_duration_short, (last.nominal_ms, last.earliest_ms, last.latest_ms))),
        "ends": None if last.ends_ms is None else _range(*last.ends_ms),
        "deadline": None if deadline is None else deadline + clipped,
    }


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
        elif _comparable(before, after) != _comparable(after, before):
            words = tuple(_differences(before, after))
            found.append(Change(policy=name, kind="changed", words=words, stored=before, now=after))
    return found


def _comparable(one: Schedule, other: Schedule) -> Schedule:
    """Give a schedule without what the other one, stored before Anew kept it, cannot have."""
    if one.last is not None and other.last is not None:
        return one
    return msgspec.structs.replace(one, last=None, ends=None, deadline=None)


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
    _plain(schedule.ends or "0s")
    _plain((schedule.deadline or "0s").removesuffix(_CLIPPED))
    if len(schedule.waits) > SHOWN_RETRIES:
        raise ValueError(
            f"{len(schedule.waits)} waits of one policy, and a snapshot has at most {SHOWN_RETRIES}"
        )
    for wait in (*schedule.waits, *([] if schedule.last is None else [schedule.last])):
        if not wait:
            raise ValueError("a wait is empty")
        _said(wait)


def _differences(before: Schedule, after: Schedule) -> list[str]:
    before, after = _comparable(before, after), _comparable(after, before)
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
    if before.last != after.last:
        words.append("the last wait " + " -> ".join(_both(before.last or "", after.last or "", _said)))
    if before.ends != after.ends:
        words.append(
            "the last retry comes after " + " -> ".join(_both(before.ends or "", after.ends or "", _plain))
        )
    if before.deadline != after.deadline:
        words.append(f"deadline {before.deadline or 'none'} -> {after.deadline or 'none'}")
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
    if not text:
        return "no end"
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
