"""The client `faktory` from PyPI, driven from the command line; clients.py in the folder above says how."""

from __future__ import annotations

import json
import sys
from typing import Any

import faktory


def say(**words: Any) -> None:
    """Print one JSON line."""
    print(json.dumps(words), flush=True)


def echo(*args: Any) -> None:
    """Succeed."""
    say(ran=args)


def fail(*args: Any) -> None:
    """Fail."""
    say(failing=args)
    raise ValueError("boom")


class Worker(faktory.Worker):
    """A worker that beats whenever it can, and says when it becomes quiet."""

    send_heartbeat_every = 0

    def heartbeat(self) -> None:
        before = self.is_quiet
        super().heartbeat()
        if self.is_quiet and not before:
            say(quiet=True)


def push(url: str, job: dict[str, Any]) -> None:
    """Push one job."""
    with faktory.Client(faktory=url) as client:
        say(pushed=client.queue(job.pop("jobtype"), **job))


def work(url: str, options: dict[str, Any]) -> None:
    """Work on one queue until told to stop."""
    worker = Worker(faktory=url, queues=[options["queue"]], worker_id=options["wid"], use_threads=True)
    worker.register("echo", echo)
    worker.register("fail", fail)
    worker.run()


if __name__ == "__main__":
    {"push": push, "work": work}[sys.argv[1]](sys.argv[2], json.loads(sys.argv[3]))
