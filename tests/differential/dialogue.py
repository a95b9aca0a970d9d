"""What is said to a server, as data: a dialogue is a name, the checklist numbers it belongs to, and steps.

A step is one string; C is a connection's digit, opened with ``HELLO {"v":2}`` where it is first named:

=================  =============================================================================================
``LINE``           connection 1 says the line and reads its reply
``C: LINE``        connection C does
``C< LINE``        C sends the line and does not read
``C<< TEXT``       C sends these bytes, with ``\\r``, ``\\n``, ``\\xHH`` as in Python, and nothing more
``C>``             C reads one reply
``C?``             C connects and says nothing; the greeting is its reply
``C? HELLO``       C connects and says this line
``C# ROUNDS JSON`` C connects and says HELLO with this object and a ``pwdhash`` of ROUNDS (``i``: as the greeting asks)
``C!``             C closes its socket
``~SECONDS``       wait
=================  =============================================================================================

``@q`` and ``@r`` are queues, ``@w`` a worker id and ``@1`` to ``@9`` jids that no other dialogue uses.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_ALONE = re.compile(
    r'INFO|FLUSH|"retry"|"default"|FETCH default|QUEUE \w+ \*|MUTATE(?!.*"jids":\[")', re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """One dialogue.

    Attributes:
        name: What it asks, unique.
        numbers: Numbers of the protocol's checklist.
        steps: What is said.
        differs: Why Anew answers otherwise on purpose; empty if it does not.
        slow: It waits for longer than a few seconds.
        locked: It needs servers that ask for a password.
    """

    name: str
    numbers: tuple[int, ...]
    steps: tuple[str, ...]
    differs: str = ""
    slow: bool = False
    locked: bool = False

    @property
    def alone(self) -> bool:
        """Whether it sees or changes what other dialogues use.

        A ``retry`` counts: in Faktory a PUSH with one changes the default of later jobs.
        """
        return any(_ALONE.search(step) for step in self.steps)

    def lines(self, number: int) -> list[str]:
        """Its steps with the names of run ``number``."""
        names = {"q": f"d{number}a", "r": f"d{number}b", "w": f"worker-{number}"}

        def name(found: re.Match[str]) -> str:
            return names.get(found[1]) or f"job-{number:05}-{found[1]}"

        return [re.sub(r"@([qrw1-9])", name, step) for step in self.steps]


def compact(value: Any) -> str:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def job(jid: str = "@1", **fields: Any) -> str:
    """A job in queue ``@q``; a field that is ``...`` is left out."""
    whole = {"jid": jid, "jobtype": "kind", "args": [], "queue": "@q"} | fields
    return compact({name: value for name, value in whole.items() if value is not ...})


def push(jid: str = "@1", **fields: Any) -> str:
    """A PUSH of ``job``."""
    return "PUSH " + job(jid, **fields)


def mutate(cmd: Any, target: Any, **chosen: Any) -> str:
    """A MUTATE; without ``chosen`` it has no filter."""
    return "MUTATE " + compact({"cmd": cmd, "target": target} | ({"filter": chosen} if chosen else {}))


def again(target: str = "retries", *jids: str) -> str:
    """Make the jobs of these jids, ``@1`` by default, ready now."""
    return mutate("requeue", target, jids=list(jids or ("@1",)))


def ack(jid: str = "@1") -> str:
    """An ACK."""
    return "ACK " + compact({"jid": jid})


def fail(jid: str = "@1", **fields: Any) -> str:
    """A FAIL."""
    return "FAIL " + compact({"jid": jid, "errtype": "E", "message": "m"} | fields)
