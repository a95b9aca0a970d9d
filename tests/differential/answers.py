"""A server's replies made comparable: times, figures of the process and free-form texts are replaced by their kind."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

CLOSED = "<closed>"

_TIMES = frozenset({"created_at", "enqueued_at", "failed_at", "next_at", "now", "updated_at"})
_RECENT = timedelta(days=2)
_WRITTEN = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{0,8}[1-9])?Z")
_FREE = (
    # Faktory's MUTATE passes on what its JSON decoder says, Anew's says it as other verbs do.
    (
        re.compile(r"-ERR (invalid character|json: cannot unmarshal|unexpected end of JSON) .*", re.DOTALL),
        "-ERR invalid JSON: ",
    ),
    (re.compile(r"(-ERR invalid JSON: ).*", re.DOTALL), r"\1<detail>"),
    (re.compile(r"""(-ERR invalid timestamp for 'at': "(?:[^"\\]|\\.)*": ).*""", re.DOTALL), r"\1<detail>"),
    (re.compile(r"(-ERR QUEUE: ).*", re.DOTALL), r"\1<detail>"),
)
_BASELINE = (
    ("total_failures",),
    ("total_processed",),
    ("tasks", "Busy", "size"),
    ("tasks", "Workers", "size"),
)
_FIGURES = frozenset(
    {"cycles", "enqueued", "reaped", "wall_time_sec", "total_queues", "uptime", "connections"}
) | {
    "command_count",
    "used_memory_mb",
}


def normal(reply: str, queues: tuple[str, ...], baseline: dict[str, Any] | None) -> str:
    """One reply, comparable.

    Args:
        reply: As ``FaktoryWire.read`` gives it.
        queues: Only queues whose names begin with one of these are kept in INFO.
        baseline: What INFO said before the dialogue; its counters are compared by their increase.
    """
    if reply.startswith("-"):
        return _error(reply)
    if reply.startswith("+HI "):
        return "+HI " + _written(_greeting(json.loads(reply[4:])))
    if not reply.startswith("${"):
        return reply
    value = json.loads(reply[1:])
    if "server_utc_time" in value:
        return "$" + _written(_info(value, queues, baseline))
    if "jid" in value and "args" in value:
        return "$" + _written(_job(value))
    return "$" + _written({key: _item(item) for key, item in value.items()})


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _greeting(hi: dict[str, Any]) -> dict[str, Any]:
    if isinstance(hi.get("i"), int) and 4000 <= hi["i"] <= 8095:
        hi["i"] = "<rounds>"
    if re.fullmatch("[1-9a-f][0-9a-f]{0,15}|0", str(hi.get("s"))):
        hi["s"] = "<salt>"
    return hi


def _job(job: dict[str, Any]) -> dict[str, Any]:
    """Keeps the order of the job's keys and of its failure's, not that within arguments: no client relies on it."""
    for name in ("args", "custom"):
        if name in job:
            job[name] = json.loads(json.dumps(job[name], sort_keys=True))
    for part in (job, job.get("failure") or {}):
        for name in _TIMES & part.keys():
            part[name] = _time(part[name])
    return job


def _time(text: Any) -> Any:
    found = _WRITTEN.fullmatch(str(text))
    if found and abs(datetime.fromisoformat(found[1] + "+00:00") - datetime.now(UTC)) < _RECENT:
        return "<time>"
    return text


def _item(value: Any) -> Any:
    """A latency, or why a job of a bulk push was refused."""
    if isinstance(value, str):
        return _error(f"-ERR {value}").removeprefix("-ERR ")
    return "<seconds>" if isinstance(value, float) and 0 < value < 120 else value


def _error(reply: str) -> str:
    for pattern, text in _FREE:
        reply = pattern.sub(text, reply)
    return reply


def _info(info: dict[str, Any], queues: tuple[str, ...], baseline: dict[str, Any] | None) -> dict[str, Any]:
    figures = info["faktory"]
    figures["queues"] = {
        name: size for name, size in sorted(figures["queues"].items()) if name.startswith(queues)
    }
    for path in _BASELINE:
        holder, before = figures, (baseline or info)["faktory"]
        for name in path[:-1]:
            holder, before = holder[name], before[name]
        holder[path[-1]] -= before[path[-1]] if baseline else 0
    info["now"] = _time(info["now"])
    info["server_utc_time"] = re.sub(r"\d\d:\d\d:\d\d", "<clock>", info["server_utc_time"])
    info["server"]["description"] = "<text>"
    return _kinds(info)


def _kinds(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        key: ("<float>" if key == "wall_time_sec" else f"<{type(item).__name__}>")
        if key in _FIGURES
        else _kinds(item)
        for key, item in sorted(value.items())
    }
