"""Jobs, verdicts and figures of these tests."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from tests.faktory_wire import FaktoryWire

LATER = "2099-01-02T03:04:05Z"
PAST = "2001-02-03T04:05:06Z"


def compact(value: Any) -> str:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def job(queue: str, number: int = 1, /, **fields: Any) -> dict[str, Any]:
    """A job; a field that is ``...`` is left out."""
    whole = {"jid": f"{queue}-job-{number}", "jobtype": "kind", "args": [number], "queue": queue} | fields
    return {name: value for name, value in whole.items() if value is not ...}


def push(wire: FaktoryWire, queue: str, number: int = 1, /, **fields: Any) -> str:
    """Push a job, which must be taken; gives its jid."""
    one = job(queue, number, **fields)
    wire.expect(f"PUSH {compact(one)}")
    return str(one["jid"])


def push_many(wire: FaktoryWire, queue: str, count: int, **fields: Any) -> None:
    """Push jobs numbered from 1."""
    jobs = compact([job(queue, number, **fields) for number in range(1, count + 1)])
    wire.expect(f"PUSHB {jobs}", "${}")


def ack(wire: FaktoryWire, jid: str) -> None:
    wire.expect(f"ACK {compact({'jid': jid})}")


def fail(wire: FaktoryWire, jid: str, **fields: Any) -> None:
    wire.expect(f"FAIL {compact({'jid': jid} | fields)}")


def fetch(wire: FaktoryWire, *queues: str) -> dict[str, Any]:
    """Fetch a job that must be there."""
    got = wire.ask("FETCH " + " ".join(queues))
    assert got is not None
    return dict(got)


def failed(wire: FaktoryWire, queue: str, number: int = 1, /, **fields: Any) -> str:
    """Push a job, fetch it and have it fail; gives its jid."""
    jid = push(wire, queue, number, **fields)
    assert fetch(wire, queue)["jid"] == jid
    fail(wire, jid, errtype="E", message="m")
    return jid


def mutate(wire: FaktoryWire, cmd: str, target: str, **chosen: Any) -> None:
    """A MUTATE; without ``chosen`` it has no filter."""
    order = {"cmd": cmd, "target": target} | ({"filter": chosen} if chosen else {})
    wire.expect(f"MUTATE {compact(order)}")


def figures(wire: FaktoryWire) -> dict[str, Any]:
    """INFO's second part."""
    return dict(wire.ask("INFO")["faktory"])


def sets(wire: FaktoryWire) -> tuple[int, int, int, int]:
    """Jobs that are scheduled, to be retried, dead and reserved."""
    sizes = figures(wire)["sets"]
    return sizes["scheduled"], sizes["retries"], sizes["dead"], sizes["working"]


def totals(wire: FaktoryWire) -> tuple[int, int]:
    """Processed and failed since the last FLUSH."""
    found = figures(wire)
    return found["total_processed"], found["total_failures"]


def length(wire: FaktoryWire, queue: str) -> int | None:
    """Length of a queue; None if INFO does not name it."""
    found: int | None = figures(wire)["queues"].get(queue)
    return found


def instant(text: str) -> float:
    """A timestamp as the server writes it, in seconds since the epoch."""
    assert text.endswith("Z")
    return datetime.fromisoformat(text[:-1] + "+00:00").timestamp()
