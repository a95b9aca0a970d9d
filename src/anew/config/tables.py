"""Settings that are tables of a file: policies by queue and type, cron entries, throttles. Their form alone is checked here."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from anew.errors import InvalidConfig
from anew.units import shown

_QUEUE: Final = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """The retry policy of jobs of a queue, of a type, or of both.

    Attributes:
        policy: JSON value: an object, or a preset's name.
    """

    queue: str | None = None
    type: str | None = None
    policy: object


@dataclass(frozen=True, slots=True, kw_only=True)
class CronTable:
    """A job that is pushed again and again.

    Attributes:
        schedule: A cron expression as it was given.
        timezone: An IANA name; None is the server's own zone.
        job: The members of a PUSH, apart from ``jid``: ``jobtype``, and where given ``queue``, ``retry``, ``args``,
            ``reserve_for``, ``custom``.
        at: Where it stands, such as ``anew.toml: [fwp] cron[2]``, for what is said about it.
    """

    schedule: str
    timezone: str | None = None
    job: Mapping[str, Any] = field(hash=False)
    at: str = field(default="cron", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleTable:
    """How many jobs of a queue may run at one time.

    Attributes:
        concurrency: Over all workers; None does not bound it.
        worker: By one worker; None does not bound it.
        timeout_ms: When a slot frees itself; None: not before the job's end.
    """

    queue: str
    concurrency: int | None = None
    worker: int | None = None
    timeout_ms: int | None = None


def policies(value: object, source: str) -> tuple[PolicyRule, ...]:
    """Read an array of tables with ``policy`` and ``queue``, ``type`` or both.

    Raises:
        InvalidConfig: An entry does not fit, or two are about the same jobs.
    """
    rules: list[PolicyRule] = []
    for at, entry in _entries(value, source):
        _only(entry, {"queue", "type", "policy"}, at)
        queue, kind, policy = _queue(entry, at), _text(entry, "type", at), entry.get("policy")
        if queue is None and kind is None:
            raise _refused(at, entry, "a queue, a type, or both")
        if not isinstance(policy, dict | str):
            raise _refused(f"{at}.policy", policy, "a policy as a table, or the name of a preset")
        if any((rule.queue, rule.type) == (queue, kind) for rule in rules):
            raise InvalidConfig(f"{at}: an entry above is about the same jobs", field="policies")
        rules.append(PolicyRule(queue=queue, type=kind, policy=policy))
    return tuple(rules)


def cron(value: object, source: str, passed_over: list[str] | None = None) -> tuple[CronTable, ...]:
    """Read ``[[cron]]`` as Faktory has it.

    Args:
        value: The array of tables.
        source: What to call it in an error.
        passed_over: Gets the places of unknown keys; None: an unknown key is refused.

    Raises:
        InvalidConfig: An entry does not fit.
    """
    return tuple(_cron(entry, at, passed_over) for at, entry in _entries(value, source))


def throttles(value: object, source: str, passed_over: list[str] | None = None) -> tuple[ThrottleTable, ...]:
    """Read ``[throttles]`` as Faktory has it: a queue's name, and a table with ``concurrency``, ``worker``, ``timeout`` (seconds).

    Faktory insists on a time-out. Here it may be left out, because a slot is free again without one: its job ends, its
    reservation lapses, or its worker is gone.

    Args:
        value: The table.
        source: What to call it in an error.
        passed_over: As in `cron`.

    Raises:
        InvalidConfig: An entry does not fit.
    """
    if not isinstance(value, dict):
        raise _refused(source, value, "a table")
    return tuple(_throttle(queue, entry, f"{source}.{queue}", passed_over) for queue, entry in value.items())


def show(value: object) -> str:
    """Write such a setting on one line."""
    assert isinstance(value, tuple)
    entries = [{name: getattr(entry, name) for name in entry.__slots__ if name != "at"} for entry in value]
    return json.dumps([{name: item for name, item in entry.items() if item is not None} for entry in entries])


def _cron(entry: Mapping[str, object], at: str, passed_over: list[str] | None) -> CronTable:
    _only(entry, {"schedule", "timezone", "job"}, at, passed_over)
    return CronTable(
        schedule=_needed(_text(entry, "schedule", at), f"{at}.schedule"),
        timezone=_text(entry, "timezone", at),
        job=_job(entry.get("job"), f"{at}.job", passed_over),
        at=at,
    )


def _throttle(queue: str, entry: object, at: str, passed_over: list[str] | None) -> ThrottleTable:
    if not _QUEUE.fullmatch(queue):
        raise _refused(at, queue, "the name of a queue")
    if not isinstance(entry, dict):
        raise _refused(at, entry, "a table such as { concurrency = 3, timeout = 45 }")
    _only(entry, {"concurrency", "worker", "timeout"}, at, passed_over)
    concurrency, worker = (_whole(entry, name, at, low=0) for name in ("concurrency", "worker"))
    if concurrency is None and worker is None:
        raise _refused(at, entry, "concurrency, worker, or both")
    timeout = entry.get("timeout")
    if timeout is None:
        return ThrottleTable(queue=queue, concurrency=concurrency, worker=worker)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < 2**31:
        raise _refused(f"{at}.timeout", timeout, "a positive number of seconds")
    return ThrottleTable(
        queue=queue, concurrency=concurrency, worker=worker, timeout_ms=max(round(timeout * 1000), 1)
    )


def _job(entry: object, at: str, passed_over: list[str] | None) -> Mapping[str, Any]:
    if not isinstance(entry, dict):
        raise _refused(at, entry, "a table with a type")
    _only(entry, {"type", "jobtype", "queue", "retry", "args", "reserve_for", "custom"}, at, passed_over)
    job = {
        "jobtype": _needed(_text(entry, "type", at) or _text(entry, "jobtype", at), f"{at}.type"),
        "queue": _queue(entry, at),
        "retry": _whole(entry, "retry", at, low=-1),
        "args": _json(entry, "args", list, at),
        "reserve_for": _whole(entry, "reserve_for", at, low=0),
        "custom": _json(entry, "custom", dict, at),
    }
    return {name: value for name, value in job.items() if value is not None} | {"args": job["args"] or []}


def _entries(value: object, source: str) -> list[tuple[str, dict[str, object]]]:
    if not isinstance(value, list):
        raise _refused(source, value, "an array of tables")
    for number, entry in enumerate(value, 1):
        if not isinstance(entry, dict):
            raise _refused(f"{source}[{number}]", entry, "a table")
    return [(f"{source}[{number}]", entry) for number, entry in enumerate(value, 1)]


def _only(
    entry: Mapping[str, object], known: set[str], at: str, passed_over: list[str] | None = None
) -> None:
    for key in sorted(entry.keys() - known):
        if passed_over is None:
            raise _refused(f"{at}.{key}", entry[key], "no such key; known are " + ", ".join(sorted(known)))
        passed_over.append(f"{at}.{key}")


def _text(entry: Mapping[str, object], name: str, at: str) -> str | None:
    value = entry.get(name)
    if value is None or (isinstance(value, str) and value and "\0" not in value):
        return value
    raise _refused(f"{at}.{name}", value, "text")


def _queue(entry: Mapping[str, object], at: str) -> str | None:
    queue = _text(entry, "queue", at)
    if queue is None or _QUEUE.fullmatch(queue):
        return queue
    raise _refused(f"{at}.queue", queue, "letters, digits, dots, underscores and hyphens")


def _whole(entry: Mapping[str, object], name: str, at: str, *, low: int) -> int | None:
    value = entry.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < 2**31:
        raise _refused(f"{at}.{name}", value, f"a whole number from {low}")
    return value


def _json(entry: Mapping[str, object], name: str, kind: type, at: str) -> Any:
    value = entry.get(name)
    if value is None:
        return None
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise _refused(f"{at}.{name}", value, f"what JSON can hold ({error})") from error
    if isinstance(value, kind):
        return value
    raise _refused(f"{at}.{name}", value, "an array" if kind is list else "a table")


def _needed(value: str | None, at: str) -> str:
    if value is None:
        raise InvalidConfig(f"{at}: is missing; expected text", field=at.rpartition(".")[2])
    return value


def _refused(at: str, value: object, expected: str) -> InvalidConfig:
    return InvalidConfig(
        f"{at}: {shown(value)} is not valid; expected {expected}", field=at.rpartition(".")[2], value=value
    )
