"""Anew on one file, measured as its peers are."""

import sys

import bodies

from anew import Anew

WORKER = [
    *(sys.executable, "-m", "anew", "worker", "anew_peer:app"),
    *("--concurrency", "8", "--log-level", "warn"),
]

app = Anew(f"{bodies.FOLDER}/jobs.db")


@app.task(name="noop")
def noop(n: int) -> None:
    bodies.noop(n)


@app.task(name="coroutine")
async def coroutine(n: int) -> None:
    bodies.noop(n)


@app.task(name="stamp")
def stamp(at: float) -> None:
    bodies.stamp(at)


@app.task(name="slow")
def slow(n: int) -> None:
    bodies.slow(n)


TASKS = {"noop": noop, "coroutine": coroutine, "stamp": stamp, "slow": slow}


def enqueue(task, argument):
    TASKS[task].enqueue(argument)


def enqueue_many(task, arguments):
    TASKS[task].enqueue_many([(argument,) for argument in arguments])
