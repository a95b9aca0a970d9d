"""A random load with a model of what the server must do about it.

The rule under test: a ready job and a free slot never both wait. After every step the model knows which jobs
lie ready in which queue and which taker has how many free slots; as long as one could go to the other, a
delivery must come, and within ``PATIENCE_S``. Who gets which job is the server's choice.
"""

from __future__ import annotations

import select
import time
from dataclasses import dataclass, field
from random import Random

from .client import Client
from .stream import TakeStream

PATIENCE_S = 30.0
"""How long a deliverable job may lie. A lost wake-up lies until the next enqueue, however long that takes."""

PAST = 1_600_000_000_000


@dataclass(slots=True)
class Taker:
    """A take stream and what the model knows about it; ``held`` maps job ids to their queues."""

    stream: TakeStream
    queues: frozenset[str]
    prefetch: int
    held: dict[str, str] = field(default_factory=dict)


class Storm:
    """Takers on two queues, under random enqueues, settlements and disconnects.

    Args:
        client: Client of the server.
        prefix: Start of the names of both queues.
        seed: Decides everything that is random here.
        limit: The server's global in-flight limit; None for one that is out of reach.
    """

    def __init__(self, client: Client, prefix: str, *, seed: int, limit: int | None = None) -> None:
        self.client = client
        self.rng = Random(seed)
        self.limit = limit
        self.queues = [prefix + "a", prefix + "b"]
        self.ready: dict[str, set[str]] = {queue: set() for queue in self.queues}
        self.takers = [self._new_taker() for _ in range(self.rng.randint(3, 6))]

    def close(self) -> None:
        """Close every stream."""
        for taker in self.takers:
            taker.stream.close()

    def trial(self) -> None:
        """Add one to six jobs, let them arrive, settle a random part of what is held, let more arrive."""
        self._enqueue(self.rng.choice(self.queues), self.rng.randint(1, 6))
        self._deliver()
        if self.rng.random() < 0.05:
            self._replace_a_taker()
            self._deliver()
        self._settle()
        self._deliver()

    def check_counts(self) -> None:
        """Compare the server's own view with the model, once it has noticed the last disconnect."""
        queues = ",".join(self.queues)
        for status, count in (("ready", sum(map(len, self.ready.values()))), ("in_flight", self._held())):
            self.client.eventually(
                lambda status=status, count=count: self.client.count(queue=queues, status=status) == count,
                f"{count} jobs are {status}",
            )

    def _new_taker(self) -> Taker:
        queues = self.rng.choice([self.queues[:1], self.queues[1:], self.queues])
        prefetch = self.rng.choice([1, 1, 1, 2])
        return Taker(self.client.take(",".join(queues), prefetch=prefetch), frozenset(queues), prefetch)

    def _held(self) -> int:
        return sum(len(taker.held) for taker in self.takers)

    def _deliverable(self) -> str:
        """Describe a ready job and a free slot that wait for each other; empty when there is no such pair."""
        if self.limit is not None and self._held() >= self.limit:
            return ""
        for taker in self.takers:
            if len(taker.held) < taker.prefetch:
                for queue in taker.queues:
                    if self.ready[queue]:
                        return f"{len(self.ready[queue])} jobs lie ready in {queue} beside a free slot"
        return ""

    def _deliver(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while waiting := self._deliverable():
            left = deadline - time.monotonic()
            assert left > 0, waiting
            select.select([taker.stream for taker in self.takers], [], [], left)
            for taker in self.takers:
                for job in taker.stream.arrived():
                    self.ready[job["queue"]].remove(job["id"])
                    assert job["queue"] in taker.queues
                    taker.held[job["id"]] = job["queue"]
                assert len(taker.held) <= taker.prefetch
            assert self.limit is None or self._held() <= self.limit

    def _enqueue(self, queue: str, count: int) -> None:
        """In one bulk, or singly from that many connections at once."""
        if self.rng.random() < 0.5:
            self.ready[queue].update(self.client.enqueue_many(queue, count))
            return
        body = f'{{"type":"t","queue":"{queue}","payload":null}}'
        head = f"POST /jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        wires = [self.client.wire() for _ in range(count)]
        for wire in wires:
            wire.send((head + body).encode())
        for wire in wires:
            self.ready[queue].add(wire.read_response().data["id"])
            wire.close()

    def _settle(self) -> None:
        """Settle some of what is held: in one call, singly, by failure, by deletion."""
        held = sorted((job_id, number) for number, taker in enumerate(self.takers) for job_id in taker.held)
        done = self.rng.sample(held, self.rng.randint(0, len(held)))
        for job_id, number in done:
            del self.takers[number].held[job_id]
        ids = [job_id for job_id, _ in done]
        way = self.rng.random()
        if ids and way < 0.1:
            assert self.client.delete(f"/jobs/{ids.pop()}").status == 204
        elif ids and way < 0.2:
            job = self.client.fail(ids.pop(), retry_at=PAST)
            self.ready[job["queue"]].add(job["id"])
        if way < 0.6 and ids:
            assert self.client.post("/jobs/success", {"ids": ids}).status == 204
        else:
            for job_id in ids:
                self.client.succeed(job_id)

    def _replace_a_taker(self) -> None:
        """A worker goes away; its jobs are ready again and another comes in its place."""
        at = self.rng.randrange(len(self.takers))
        gone = self.takers[at]
        gone.stream.close()
        for job_id, queue in gone.held.items():
            self.ready[queue].add(job_id)
        self.takers[at] = self._new_taker()
