"""`make faktory-diff`: the same lines to real Faktory and to Anew, and the answers compared.

A server is a URL (``tcp://host:port``; it is FLUSHed), the path of a `faktory` program, which is then started, or ``anew``,
which starts `anew serve` without what Faktory sells, as the open edition is; by URL it has to be one that was started so, with
`--fwp-description Faktory`. A server that is started gets a twin with a password for the dialogues about passwords; by URL they
are left out. Dialogues that use only queues of their own run side by side, the others one after another on an emptied server.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.faktory_wire import BadReply, Closed, FaktoryWire, password_hash
from tests.fwp_clients.servers import AnewServer, RealFaktory

from .answers import CLOSED, normal
from .dialogue import Dialogue
from .generated import generate
from .table import TABLE

SIDE_BY_SIDE = 16
"""Dialogues at once on one server; most of them wait for an empty queue."""

WAITED_S = 1.5
"""From here on a FETCH has waited for its 2 s."""

PASSWORD = "anew-secret"

_STEP = re.compile(r"(?:(\d)(: |<< |< |>$|\?$|\? |# |!$))?(.*)", re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True)
class Peer:
    """One of the two servers: its URL, and that of its twin with a password, if there is one."""

    name: str
    url: str
    locked_url: str | None = None


class Play:
    """One dialogue with one server; ``answers`` holds what came, step by step."""

    def __init__(self, url: str, dialogue: Dialogue, number: int) -> None:
        self.answers: list[str] = []
        self._url = url
        self._wires: dict[str, FaktoryWire] = {}
        self._queues = (f"d{number}a", f"d{number}b")
        self._baseline = self._prepare() if dialogue.alone else None
        try:
            for line in dialogue.lines(number):
                self._step(line)
        finally:
            for wire in self._wires.values():
                wire.close()

    def _prepare(self) -> dict[str, Any]:
        with FaktoryWire.open(self._url) as wire:
            wire.expect("FLUSH")
            # Faktory takes the last PUSH's retry for its default.
            wire.expect('PUSH {"jid":"default-retry","jobtype":"x","args":[],"queue":"default","retry":25}')
            wire.expect("QUEUE REMOVE *")
            return wire.ask("INFO")

    def _step(self, step: str) -> None:
        if step.startswith("~"):
            time.sleep(float(step[1:]))
            return
        found = _STEP.fullmatch(step)
        assert found is not None
        name, act, text = found[1] or "1", (found[2] or ": ").strip(), found[3]
        try:
            reply = self._act(name, act, text)
        except (Closed, ConnectionError):
            reply = CLOSED
        except TimeoutError:
            reply = "<silence>"
        except BadReply as error:
            reply = f"<no reply: {error}>"
        if reply is not None:
            self.answers.append(f"{step[:300]}  ->  {normal(reply, self._queues, self._baseline)}")

    def _act(self, name: str, act: str, text: str) -> str | None:
        if act in ("?", "#"):
            wire = self._wires[name] = FaktoryWire(self._url)
            if act == "#":
                return wire.say(self._hello(wire, text))
            return wire.say(text) if text else wire.greeting
        if name not in self._wires:
            self._wires[name] = FaktoryWire.open(self._url)
        wire = self._wires[name]
        began = time.monotonic()
        match act:
            case "!":
                wire.close()
                return None
            case "<":
                wire.send(text)
                return None
            case "<<":
                wire.send(
                    text.encode("latin-1", "backslashreplace").decode("unicode_escape").encode("latin-1"), b""
                )
                return None
            case ">":
                return wire.read()
        reply = wire.say(text)
        waited = text.startswith("FETCH") and time.monotonic() - began >= WAITED_S
        return f"+waited {reply}" if waited and reply == "$-1" else reply

    def _hello(self, wire: FaktoryWire, text: str) -> str:
        rounds, _, hello = text.partition(" ")
        digest = password_hash(PASSWORD, wire.hi["s"], wire.hi["i"] if rounds == "i" else int(rounds))
        return "HELLO " + hello.replace("HASH", digest)


def play_all(peer: Peer, dialogues: list[Dialogue]) -> dict[str, list[str]]:
    """Hold every dialogue with one server; answers by the dialogue's name."""
    numbered = list(enumerate(dialogues, 1))

    def play(item: tuple[int, Dialogue]) -> tuple[str, list[str]]:
        number, dialogue = item
        url = peer.locked_url if dialogue.locked else peer.url
        assert url is not None
        try:
            return dialogue.name, Play(url, dialogue, number).answers
        except (OSError, Closed, BadReply) as error:
            raise SystemExit(f"{peer.name} cannot be made ready for {dialogue.name!r}: {error!r}") from error

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        answers = dict(pool.map(play, [item for item in numbered if not item[1].alone]))
    return answers | dict(map(play, [item for item in numbered if item[1].alone]))


@contextlib.contextmanager
def peer(name: str) -> Iterator[Peer]:
    """The server that the command line names; started and stopped here if it is no URL."""
    if name.startswith("tcp://"):
        yield Peer(name, name)
        return
    with contextlib.ExitStack() as stack:

        def begin(password: str | None) -> str:
            anew = name == "anew"
            server = AnewServer(password, fwp_description="Faktory") if anew else RealFaktory(name, password)
            stack.callback(server.close)
            return server.url

        yield Peer(name, begin(None), begin(PASSWORD))


def differences(first: list[str], second: list[str]) -> str:
    """Where two dialogues part, for a person; nothing if they do not."""
    for number, (one, other) in enumerate(zip(first, second, strict=True), 1):
        if one != other:
            said, _, answer = one.partition("  ->  ")
            return (
                f"  step {number}: {said}\n    first:  {answer}\n    second: {other.partition('  ->  ')[2]}"
            )
    return ""


def report(dialogues: list[Dialogue], first: dict[str, list[str]], second: dict[str, list[str]]) -> int:
    """Print what differs; give the number of dialogues that differ without a reason."""
    counts = {"equal": 0, "differ": 0, "differ on purpose": 0}
    for dialogue in dialogues:
        found = differences(first[dialogue.name], second[dialogue.name])
        verdict = "equal" if not found else "differ on purpose" if dialogue.differs else "differ"
        counts[verdict] += 1
        if found:
            reason = f" ({dialogue.differs})" if dialogue.differs else ""
            print(f"{verdict}: {dialogue.name} {list(dialogue.numbers)}{reason}\n{found}")
    numbers = sorted({number for dialogue in dialogues for number in dialogue.numbers})
    print(
        f"{len(dialogues)} dialogues, {sum(map(len, first.values()))} answers, {len(numbers)} checklist numbers:",
        end=" ",
    )
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return counts["differ"]


def main() -> int:
    """Compare; 0 if nothing differs that may not."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.faktory", description=__doc__)
    parser.add_argument("first", nargs="?", default=os.environ.get("ANEW_TEST_FAKTORY"))
    parser.add_argument("second", nargs="?", default="anew")
    parser.add_argument("--seed", type=int, default=1, help="of the generated dialogues")
    parser.add_argument("--generated", type=int, default=100, help="how many of them")
    parser.add_argument("--only", default="", help="dialogues whose name matches this regular expression")
    parser.add_argument(
        "--slow", action="store_true", help="those too that wait for reservations to expire, 80 s"
    )
    parser.add_argument("--show", action="store_true", help="print what the first server answers")
    options = parser.parse_args()
    if not options.first:
        parser.error("name the first server, or set ANEW_TEST_FAKTORY")
    with peer(options.first) as one, peer(options.second) as other:
        locked = one.locked_url is not None and other.locked_url is not None
        dialogues = [
            dialogue
            for dialogue in [*TABLE, *generate(options.seed, options.generated)]
            if re.search(options.only, dialogue.name)
            and (options.slow or not dialogue.slow)
            and (locked or not dialogue.locked)
        ]
        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(play_all, (one, other), (dialogues, dialogues))
    if options.show:
        for dialogue in dialogues:
            print(dialogue.name, list(dialogue.numbers), *first[dialogue.name], sep="\n  ")
    return 1 if report(dialogues, first, second) else 0


if __name__ == "__main__":
    sys.exit(main())
