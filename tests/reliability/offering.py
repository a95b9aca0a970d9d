"""A client that offers load by the clock, in a process of its own: requests go when they are due, answered or not.

It first finds out what the server sustains, with so many requests under way on each connection; then it offers a
multiple of that. The server's time is told apart from the client's own: it counts from the moment at which a
request was given to the kernel. It ends when the job was stored, which the answer says (``ready_at``), and when
the kernel took the answer in, whenever the client came round to reading that. The second has one flaw: answers
that the kernel has joined, because the client was slow to read them, all count with the last one.

It is told by one line of JSON as its argument what to do, and prints one line of JSON at its end.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import select
import sys
import time

from .lines import Http1Line, Http2Line, Line
from .load import quantile
from .wire import Address


@dataclasses.dataclass(kw_only=True)
class Order:
    """What to do.

    Attributes:
        address: Where the server listens.
        connections: How many to spread the load over.
        http2: Over HTTP/2 instead of HTTP/1.1.
        depth: Requests under way on each while that is measured.
        sustain_s: How long to measure what the server sustains; 0: not at all.
        offer_s: How long to offer more.
        times: How many times as much as it sustains.
        burst: Requests to offer on each connection in one instant instead.
        body: Of each request.
    """

    address: Address
    connections: int
    http2: bool = False
    depth: int = 1
    sustain_s: float = 0
    offer_s: float = 0
    times: float = 2
    burst: int = 0
    body: object = None


@dataclasses.dataclass(kw_only=True)
class Report:
    """What came of it; the times are of accepted requests, in milliseconds.

    Attributes:
        sustained: Requests accepted a second with `depth` under way on each connection.
        stored: How many were accepted meanwhile.
        offered: Requests sent by the clock.
        seconds: How long sending them took.
        accepted: How many of them were accepted.
        refused: How many were answered otherwise, by status.
        silent: Refusals that do not say when to come again.
        stored_p99: Until it was stored.
        kept_p99: Until the kernel had the answer.
        due_p99: From when a request was due; this client's own delays are in it.
    """

    sustained: float = 0
    stored: int = 0
    offered: int = 0
    seconds: float = 0
    accepted: int = 0
    refused: dict[str, int] = dataclasses.field(default_factory=dict)
    silent: int = 0
    stored_p99: float = 0
    kept_p99: float = 0
    due_p99: float = 0


def stored_at(body: bytes) -> int:
    """Give the instant at which a job was stored, in nanoseconds, by the answer's body."""
    begin = body.index(b'"ready_at":') + len(b'"ready_at":')
    return int(body[begin : body.index(b",", begin)]) * 1_000_000


class Crowd:
    """All connections together.

    Args:
        order: What to do.
    """

    def __init__(self, order: Order) -> None:
        self.order = order
        self.report = Report()
        kind = Http2Line if order.http2 else Http1Line
        self._lines: list[Line] = [kind(order.address, order.body) for _ in range(order.connections)]
        self._by_number = {line.socket.fileno(): line for line in self._lines}
        self._poll = select.epoll()
        for number in self._by_number:
            self._poll.register(number, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        self._kept: list[int] = []
        self._stored: list[int] = []
        self._since_due: list[int] = []

    def sustain(self) -> None:
        """Find out how many requests a second the server accepts, so many under way on each connection."""
        begun = time.time_ns()
        ends = begun + int(self.order.sustain_s * 1e9)
        for line in self._lines:
            line.send([begun] * self.order.depth)
        answered = in_time = 0
        while any(line.busy for line in self._lines):
            for line in self._ready(1):
                for status in self._answers(line):
                    answered += status == 201
                    if time.time_ns() < ends:
                        in_time += status == 201
                        line.send((begun,))
        self.report.stored = answered
        self.report.sustained = in_time / self.order.sustain_s

    def offer(self) -> None:
        """Send by the clock, then wait for the last answer."""
        report, lines = self.report, self._lines
        self._kept.clear()
        self._stored.clear()
        self._since_due.clear()
        interval = 1e9 / (self.order.times * report.sustained)
        total = int(self.order.offer_s * 1e9 / interval)
        begun = sent_at = time.time_ns()
        sent = 0
        while sent < total or any(line.busy for line in lines):
            now = time.time_ns()
            due = min(total, int((now - begun) / interval) + 1)
            if sent < due:
                for first in range(sent, min(due, sent + len(lines))):
                    instants = [begun + int(n * interval) for n in range(first, due, len(lines))]
                    lines[first % len(lines)].send(instants)
                sent, sent_at = due, now
            for line in self._ready(0.001 if sent < total else 1):
                self._count(line)
        report.offered, report.seconds = total, (sent_at - begun) / 1e9

    def burst(self) -> None:
        """Send everything at once, then wait for the last answer."""
        begun = time.time_ns()
        for line in self._lines:
            line.send([begun] * self.order.burst)
        self.report.offered = self.order.burst * len(self._lines)
        while any(line.busy for line in self._lines):
            for line in self._ready(1):
                self._count(line)

    def finish(self) -> Report:
        """Give the figures."""
        report = self.report
        report.accepted = len(self._kept)
        if self._kept:
            report.stored_p99, report.kept_p99, report.due_p99 = (
                quantile([ns / 1e6 for ns in times], 0.99)
                for times in (self._stored, self._kept, self._since_due)
            )
        return report

    def _ready(self, wait_s: float) -> list[Line]:
        ready = []
        for number, _ in self._poll.poll(wait_s):
            line = self._by_number[number]
            line.send_rest()
            ready.append(line)
        return ready

    def _answers(self, line: Line) -> list[int]:
        """Read all that has come on a connection; give the statuses."""
        statuses = []
        while True:
            answers, at = line.read()
            if not at:
                return statuses
            for due, sent, facts, body in answers:
                if facts.status == 201:
                    self._kept.append(at - sent)
                    self._stored.append(stored_at(body) - sent)
                    self._since_due.append(at - due)
                elif not facts.again:
                    self.report.silent += 1
                statuses.append(facts.status)

    def _count(self, line: Line) -> None:
        refused = self.report.refused
        for status in self._answers(line):
            if status != 201:
                refused[str(status)] = refused.get(str(status), 0) + 1


def main(order: Order) -> None:
    """Carry out the order and print the report."""
    gc.disable()
    crowd = Crowd(order)
    if order.sustain_s:
        crowd.sustain()
    if order.offer_s:
        crowd.offer()
    if order.burst:
        crowd.burst()
    print(json.dumps(dataclasses.asdict(crowd.finish())), flush=True)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    main(Order(**given | {"address": tuple(given["address"])}))
