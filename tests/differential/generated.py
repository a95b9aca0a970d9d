"""Dialogues that nobody thought of: sequences of good commands, and lines with a few characters changed, from a seed."""

from __future__ import annotations

from random import Random
from typing import Any

from .dialogue import Dialogue, ack, again, fail, job, mutate, push

LENGTH = 30
"""Commands in a sequence."""

PUNCTUATION = '{}[]",:0-.x\\'
"""What is put into a line or over a character of it: JSON's own, so that keys and verbs stay known; no space, which
Faktory refuses within MUTATE's JSON."""


def generate(seed: int, count: int) -> list[Dialogue]:
    """``count`` sequences and as many changed lines."""
    rng = Random(seed)
    sequences = [_sequence(rng, f"sequence {seed}.{number}") for number in range(count)]
    return sequences + [_changed(rng, f"changed line {seed}.{number}") for number in range(count)]


def _sequence(rng: Random, name: str) -> Dialogue:
    """Jobs pushed, taken, settled and moved, and what INFO says of it.

    A FETCH comes only where a job is sure to wait. Only one job at a time is moved from retries, because the order of those
    that are moved together depends on their random waits; and only to an empty queue, because Faktory puts it last and Anew
    where it stood before.
    """
    steps: list[str] = []
    waiting = {"@q": 0, "@r": 0}
    jids: list[str] = []
    while len(steps) < LENGTH:
        queue = rng.choice(list(waiting))
        match rng.choice(
            [
                "push",
                "push",
                "push",
                "bulk",
                "later",
                "fetch",
                "fetch",
                "fetch",
                "ack",
                "fail",
                "mutate",
                "again",
                "remove",
                "info",
            ]
        ):
            case "push":
                steps.append(push(_new(rng, jids), queue=queue, **_fields(rng)))
                waiting[queue] += 1
            case "bulk":
                count = rng.randrange(4)
                steps.append(
                    "PUSHB ["
                    + ",".join(job(_new(rng, jids), queue=queue, **_fields(rng)) for _ in range(count))
                    + "]"
                )
                waiting[queue] += count
            case "later":
                steps.append(
                    push(
                        _new(rng, jids),
                        queue=queue,
                        at=f"21{len(jids):02}-05-06T07:08:09Z",
                        **_fields(rng),
                    )
                )
            case "fetch" if waiting[queue]:
                steps.append(f"FETCH {queue}")
                waiting[queue] -= 1
            case "ack" if jids:
                steps.append(ack(rng.choice(jids)))
            case "fail" if jids:
                steps.append(fail(rng.choice(jids), message=rng.choice(["", "why", " x "])))
            case "mutate":
                chosen = rng.choice(
                    [{}, {"jobtype": "kind"}, {"regexp": "*kind2*"}, {"regexp": "*", "jobtype": "kind2"}]
                )
                steps.append(
                    mutate(
                        rng.choice(["clear", "discard", "kill"]),
                        rng.choice(["scheduled", "retries", "dead"]),
                        **chosen,
                    )
                )
            case "again" if jids:
                steps.append("QUEUE REMOVE @q @r")
                waiting = dict.fromkeys(waiting, 0)
                steps.append(again(rng.choice(["scheduled", "retries", "dead"]), rng.choice(jids)))
            case "remove" if rng.random() < 0.3:
                steps.append(f"QUEUE REMOVE {queue}")
                waiting[queue] = 0
            case "info":
                steps.append("INFO")
    return Dialogue(name=name, numbers=(), steps=(*steps, "INFO"))


def _new(rng: Random, jids: list[str]) -> str:
    jids.append(f"@{rng.randrange(1, 10)}-{len(jids)}")
    return jids[-1]


def _fields(rng: Random) -> dict[str, Any]:
    choices: dict[str, list[Any]] = {
        "jobtype": ["kind", "kind2"],
        "args": [[], [1, "two"], [{"b": [None, True], "a": 2.5}]],
        "retry": [0, 1, 2, 25, -1],
        "reserve_for": [0, 60, 3600],
        "custom": [{}, {"x": 1}, None],
        "backtrace": [0, 10],
    }
    return {name: rng.choice(values) for name, values in choices.items() if rng.random() < 0.6} | {
        "retry": rng.choice(choices["retry"])
    }


def _changed(rng: Random, name: str) -> Dialogue:
    """A good line, changed in one to three places after its verb; then a job that shows whether it was stored."""
    line = rng.choice(
        [
            push(args=[1, "a", {"b": None}], custom={"c": [True]}, reserve_for=100),
            f"PUSHB [{job()},{job('@2', args=[1.5])}]",
            ack(),
            fail(backtrace=["x", "y"]),
            mutate("kill", "dead", jids=["@1"]),
        ]
    )
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(line.index(" ") + 1, len(line))
        if line[at] != "@" and line[at - 1] != "@":
            line = line[:at] + rng.choice(["", rng.choice(PUNCTUATION)]) + line[at + rng.randrange(2) :]
    return Dialogue(
        name=name, numbers=(), steps=("1: FETCH", f"1: {line}", push("@9", args=["sentinel"]), "FETCH @q")
    )
