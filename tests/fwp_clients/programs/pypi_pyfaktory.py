"""The client `pyfaktory` from PyPI, driven from the command line; clients.py in the folder above says how."""

from __future__ import annotations

import json
import sys
from typing import Any

from pyfaktory import Client, Consumer, Job, JobFilter, MutateOperation, Producer
from pyfaktory.util.enums import State


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


class WorkerClient(Client):
    """A connection that says when the server has made it quiet."""

    def _set_state(self, new_state: State) -> bool:
        changed = super()._set_state(new_state)
        if changed and new_state == State.QUIET:
            say(quiet=True)
        return changed


def push(url: str, job: dict[str, Any]) -> None:
    """Push one job."""
    with Client(faktory_url=url) as client:
        say(pushed=Producer(client).push(Job(**job)))


def bulk(url: str, jobs: list[dict[str, Any]]) -> None:
    """Push several jobs in one command."""
    with Client(faktory_url=url) as client:
        say(refused=Producer(client).push_bulk([Job(**job) for job in jobs]))


def info(url: str, _: None) -> None:
    """Print the server's figures."""
    with Client(faktory_url=url) as client:
        say(info=client.info())


def mutate(url: str, order: dict[str, Any]) -> None:
    """Change a set."""
    chosen = JobFilter(**{"jids": None, "regexp": None, "jobtype": None} | order["filter"])
    with Client(faktory_url=url) as client:
        done = client.mutate(MutateOperation(cmd=order["cmd"], target=order["target"], filter=chosen))
        say(mutated=done)


def work(url: str, options: dict[str, Any]) -> None:
    """Work on one queue until told to stop."""
    with WorkerClient(
        faktory_url=url, role="consumer", worker_id=options["wid"], beat_period=1
    ) as connection:
        consumer = Consumer(connection, queues=[options["queue"]], concurrency=1, grace_period=5)
        consumer.register("echo", echo)
        consumer.register("fail", fail)
        consumer.run()


if __name__ == "__main__":
    verbs = {"push": push, "bulk": bulk, "info": info, "mutate": mutate, "work": work}
    verbs[sys.argv[1]](sys.argv[2], json.loads(sys.argv[3]))
