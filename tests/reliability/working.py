"""An application to be killed and stopped at any instant: producers and workers that write down what they know.

    python -m tests.reliability.working produce STORE LOG
    python -m tests.reliability.working work STORE LOG

Each line of a log is one event: ``E id`` an enqueue has returned; ``b id pid ns``, ``e id pid ns`` a run has begun and ended, by
the machine's monotonic clock. A line is one system call, so that a kill loses none that was written.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from contextlib import suppress

from anew import Anew, Limit
from anew.errors import StoreBusy, Unavailable

BOUND = 2
"""Most jobs of one key that run at one time."""

app = Anew(sys.argv[2] if len(sys.argv) > 2 else ":memory:")
_log = -1


def say(event: str, *words: object) -> None:
    """Write one line."""
    os.write(_log, f"{event} {' '.join(map(str, words))}\n".encode())


@app.task(name="plain", policy=[0.05] * 50)
def plain(one: str, ms: float) -> None:
    """Take a while."""
    say("b", one, os.getpid(), time.monotonic_ns())
    time.sleep(ms / 1_000)
    say("e", one, os.getpid(), time.monotonic_ns())


@app.task(name="coroutine", policy=[0.05] * 50)
async def coroutine(one: str, ms: float) -> None:
    """Take a while in the loop."""
    say("b", one, os.getpid(), time.monotonic_ns())
    await asyncio.sleep(ms / 1_000)
    say("e", one, os.getpid(), time.monotonic_ns())


@app.task(name="bounded", policy=[0.05] * 50, limit=Limit(lambda one, ms: key_of(one), concurrency=BOUND))
def bounded(one: str, ms: float) -> None:
    """Take a while, beside few others of the same key."""
    say("b", one, os.getpid(), time.monotonic_ns())
    time.sleep(ms / 1_000)
    say("e", one, os.getpid(), time.monotonic_ns())


def key_of(one: str) -> str:
    """Give the key of a job of `bounded`, "" for others."""
    return one.partition("/")[0] if "/" in one else ""


def produce() -> None:
    """Enqueue until killed."""
    chance = random.Random(os.getpid())
    number = 0
    while True:
        task = chance.choice([plain, coroutine, bounded])
        key = f"key-{chance.randrange(8)}/" if task is bounded else ""
        ids = [f"{key}{os.getpid()}-{number + n}" for n in range(chance.choice([1, 1, 1, 10]))]
        number += len(ids)
        # Who has the turn is stopped, and nothing was stored; or the server was killed, and nobody knows.
        with suppress(StoreBusy, Unavailable):
            task.enqueue_many([(one, chance.choice([0, 1, 5, 60])) for one in ids])
            for one in ids:
                say("E", one)
        time.sleep(chance.random() * 0.05)


def main() -> None:
    """Produce or work."""
    global _log
    _log = os.open(sys.argv[3], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if sys.argv[1] == "produce":
        produce()
    else:
        app.run_worker(burst=sys.argv[1] == "drain")


if __name__ == "__main__":
    main()
