"""A program that embeds the engine, to be killed at any instant: it writes down what was acknowledged to it.

Each line of its log is one event: ``E id`` an enqueue was acknowledged, ``R id`` it was refused, ``s id`` a success is about to be
reported, ``S id`` it was acknowledged. What is in doubt is no event. The log is written with one system call a line, so that a kill
loses none that was written.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from anew.engine import ThreadCommit
from anew.errors import InDoubt, NotFound, StoreBusy
from anew.jobs import Failed, NewJob
from anew.tasks.opening import open_engine

QUEUES = ["a", "b", "c"]


class Log:
    """What one process was told."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, event: str, ids: list[str]) -> None:
        """Write one line a job, all at once."""
        os.write(self._fd, "".join(f"{event} {one}\n" for one in ids).encode())


def run(
    database: str, log_path: str, seed: int, open_it: Callable[[str], ThreadCommit] = open_engine
) -> None:
    """Enqueue, take, settle, fail and give back until killed."""
    engine = open_it(database)
    log, chance = Log(Path(log_path)), random.Random(seed)
    number = 0
    while True:
        kind = chance.random()
        if kind < 0.45:
            n = chance.choice([1, 1, 1, 5, 40])
            jobs = []
            ids = []
            for _ in range(n):
                number += 1
                ids.append(f"{os.getpid()}-{seed}-{number}")
                body = msgspec.Raw(b'"' + ids[-1].encode() + b" " * chance.choice([0, 100, 5_000]) + b'"')
                jobs.append(NewJob(type="t", queue=chance.choice(QUEUES), payload=body))
            try:
                engine.enqueue(jobs)
            except StoreBusy:
                log.write("R", ids)
            except InDoubt:
                pass
            else:
                log.write("E", ids)
        else:
            with suppress(StoreBusy, InDoubt):
                _work(engine, log, chance)


def _work(engine: ThreadCommit, log: Log, chance: random.Random) -> None:
    taken = engine.take(chance.choice([None, ["a"], ["b", "c"]]), chance.choice([1, 3, 30]), timeout_s=0.01)
    done = [row for row in taken.rows if chance.random() < 0.7]
    keys = {row[0] for row in done}
    ids = [row[-1].decode().strip('" ') for row in done]
    log.write("s", ids)
    missing = set(engine.succeed([row[0] for row in done], taken.token))
    log.write("S", [one for one, row in zip(ids, done, strict=True) if row[0] not in missing])
    for row in taken.rows:
        if row[0] in keys:
            continue
        with suppress(NotFound):
            if chance.random() < 0.5:
                engine.fail(row[0], Failed(message="no", retry_at=int(time.time() * 1_000) + 20), taken.token)
            else:
                engine.release([row[0]], taken.token)
