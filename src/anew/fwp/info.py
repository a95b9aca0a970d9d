"""What INFO says of the whole server, from counters alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from anew.engine.reads import Overview
from anew.engine.stats import Stats
from anew.fwp import times
from anew.jobs import State


def info(
    seen: Overview,
    stats: Stats,
    *,
    workers: int,
    workers_reaped: int,
    now: int,
    server: Mapping[str, Any],
) -> bytes:
    """Write INFO's answer.

    Args:
        seen: Counters by queue and day.
        stats: What the engine has done since its start.
        workers: How many are connected.
        workers_reaped: How many were taken for dead since the start.
        now: Epoch ms.
        server: What is said of the process itself.
    """
    counts = seen.counts
    sums = {state: sum(states[state] for states in counts.values()) for state in State}
    queues = {
        name: counts[name][State.READY] if name in counts else 0
        for name in sorted(seen.listed.keys() | {name for name in counts if counts[name][State.READY]})
    }
    ended = seen.ended.values()
    sets = {
        "scheduled": sums[State.SCHEDULED],
        "retries": sums[State.RETRYING],
        "dead": sums[State.DEAD],
        "working": sums[State.IN_FLIGHT],
    }
    tasks = {
        "Scheduled": _task(sets["scheduled"], stats.promoted),
        "Retries": _task(sets["retries"], 0),
        "Dead": _task(sets["dead"], stats.reaped),
        "Busy": {"size": sets["working"], "reaped": stats.lapsed},
        "Workers": {"size": workers, "reaped": workers_reaped},
    }
    written = times.write(now)
    return msgspec.json.encode(
        {
            "now": written,
            "server_utc_time": f"{written[11:19]} UTC",
            "faktory": {
                "queues": queues,
                "sets": sets,
                "tasks": tasks,
                "total_failures": sum(failed for _, failed in ended),
                "total_processed": sum(processed for processed, _ in ended),
                "total_enqueued": sum(queues.values()),
                "total_queues": len(queues),
            },
            "server": server,
        }
    )


def _task(size: int, enqueued: int) -> dict[str, Any]:
    return {"cycles": 0, "enqueued": enqueued, "size": size, "wall_time_sec": 0.0}
