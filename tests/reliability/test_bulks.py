"""Bulks and kills: of each bulk all jobs are there, or none; of one that was answered, all."""

from __future__ import annotations

import os
import random
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from .load import count
from .server import Server
from .test_crash import fresh_seed
from .wire import Address, Client, Hangup

PRODUCERS = 3
ROUNDS = 100 if os.environ.get("ANEW_NIGHTLY") else 4


@dataclass
class Producer:
    """Sends bulks, each to a queue of its own, until the server is gone.

    Attributes:
        sent: By queue how many jobs it was sent.
        answered: The queues of those bulks that were answered with 201.
    """

    number: int
    size: int
    sent: dict[str, int] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)

    def work(self, address: Address, enough: threading.Event) -> None:
        """Send bulk after bulk, some of long payloads, which are written over several batches."""
        with suppress(OSError, Hangup), Client(address) as client:
            while True:
                queue = f"q{self.number}-{len(self.sent)}"
                payload = "x" * (2_000 if len(self.sent) % 3 else 10)
                self.sent[queue] = self.size
                body = {"jobs": [{"type": "t", "queue": queue, "payload": payload}] * self.size}
                if client.request("POST", "/jobs/bulk", body).status == 201:
                    self.answered.add(queue)
                    enough.set()


@pytest.mark.parametrize("size", [500, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_reliability_12_a_bulk_is_there_whole_or_not_at_all_after_a_kill(tmp_path: Path, size: int) -> None:
    chance = random.Random(seed := fresh_seed())
    print(f"seed {seed}")
    producers = [Producer(number, size) for number in range(PRODUCERS)]
    with Server(tmp_path / "data") as server:
        for _ in range(ROUNDS):
            enough = threading.Event()
            threads = [
                threading.Thread(target=each.work, args=(server.address, enough)) for each in producers
            ]
            for thread in threads:
                thread.start()
            assert enough.wait(30)
            threading.Event().wait(chance.random() * 0.3)  # the instant of the kill is what is tried here
            server.kill()
            for thread in threads:
                thread.join()
            server.start()
        with Client(server.address) as client:
            found = {queue: count(client, f"queue={queue}") for each in producers for queue in each.sent}
    answered = set().union(*(each.answered for each in producers))
    partly = {queue: there for queue, there in found.items() if there not in (0, size)}
    assert partly == {}
    assert {queue for queue in answered if found[queue] != size} == set()
    doubtful = len(found) - len(answered)
    print(f"{ROUNDS} kills, {len(answered)} bulks answered, {doubtful} in doubt")
    assert len(answered) >= ROUNDS
    assert doubtful >= ROUNDS, "kills met bulks that were under way"
