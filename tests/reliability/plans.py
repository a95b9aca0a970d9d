"""What the crash rig's clients send, and how they read what comes back: no connection, no server."""

from __future__ import annotations

import random
import string
import time
import zlib
from typing import Any

from .wire import Reply

# What becomes of a job: (plan, weight). Retries are few, because they make the drain wait.
WEIGHTS = {"succeed": 72, "retry_at": 12, "backoff": 4, "kill": 4, "last_try": 3, "later": 5}


def now_ms() -> float:
    """Give the wall clock in milliseconds."""
    return time.time() * 1000


class Plans:
    """Makes jobs whose payload says what their worker has to do.

    Args:
        chance: Source of every choice.
    """

    def __init__(self, chance: random.Random) -> None:
        self.random = chance
        self.names = 0
        self.pads = ["".join(chance.choices(string.printable, k=n)) for n in (0, 10, 100, 100, 500, 2000)]
        self.huge = "é\u0000😀" * 20_000

    def batch(self) -> list[dict[str, Any]]:
        """One job, or a handful."""
        size = 1 if self.random.random() < 0.5 else self.random.randint(2, 30)
        return [self.job() for _ in range(size)]

    def job(self) -> dict[str, Any]:
        """One enqueue under a name that is never used again."""
        self.names += 1
        plan = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        pad = self.huge if self.random.random() < 0.002 else self.random.choice(self.pads)
        job: dict[str, Any] = {
            "type": f"t{self.names % 3}",
            "queue": f"q{self.names % 4}",
            "payload": {"key": str(self.names), "plan": plan, "pad": pad, "numbers": [1, -2.5, 2**53]},
        }
        if plan == "later":
            job["ready_at"] = int(now_ms()) + self.random.randint(20, 400)
        elif plan == "backoff":
            job["backoff"] = {"exponent": 0, "base_ms": 0, "jitter_ms": 0}
        elif plan == "last_try":
            job["retry_limit"] = 0
        if self.random.random() < 0.2:
            job["retention"] = {"completed_ms": 3_600_000}
        return job


def lost_payload(key: str) -> dict[str, Any]:
    """Stand in for a payload that did not arrive; its digest matches none."""
    return {"key": key, "plan": "succeed", "pad": "", "numbers": "none"}


def digest_of(payload: dict[str, Any]) -> str:
    """Give a fingerprint of a payload that does not depend on the order of its keys."""
    return f"{payload['plan']}:{zlib.crc32(payload['pad'].encode()):08x}:{payload['numbers']}"


def outcome_of(reply: Reply | None) -> str:
    """Class an answer: a 4xx means that nothing happened, a 5xx or no answer leaves it open."""
    if reply is None or reply.status >= 500:
        return "unknown"
    return "ok" if reply.status < 300 else "refused"


def failure_of(job: dict[str, Any]) -> dict[str, Any] | None:
    """Give the failure that a job's plan asks for at this attempt, None for a success."""
    plan = job["payload"]["plan"]
    if plan == "kill":
        return {"message": "as planned", "kill": True}
    if plan == "last_try":
        return {"message": "as planned", "error_type": "LastTry"}
    if plan == "retry_at" and job["attempts"] == 0:
        return {
            "message": "as planned",
            "retry_at": int(now_ms()) + zlib.crc32(job["id"].encode()) % 200 - 50,
        }
    if plan == "backoff" and job["attempts"] == 0:
        return {"message": "as planned", "backtrace": "line 1\nline 2"}
    return None


def stream_request(prefetch: int, chance: random.Random) -> bytes:
    """Half of the streams name their queues, half take from all."""
    queues = "&queue=q0,q1,q2,q3" if chance.random() < 0.5 else ""
    return f"GET /jobs/take?prefetch={prefetch}{queues} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode()
