"""Publications take turns, one topic after the other: what others store, or publish elsewhere, need not wait for all of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from anew.engine import Call
from anew.engine.ops import Verb
from anew.errors import Overloaded
from anew.topics.publishing import Published

MOST: Final = 4 << 20
"""The weight of publications that wait for one batch, unless a single one has more: some 25 ms of writing."""

DELIVERY: Final = 8 << 10
"""The weight of a delivery that is made, beside the bytes of its message: so many bytes are written in its time."""

MOST_WAITING: Final = 1_000
"""Publications that may wait for their turn; more are refused."""

_KNOWN: Final = 10_000


class _Publication(NamedTuple):
    weight: int
    verb: Verb
    done: Callable[[Any], None]


class Turns:
    """Submits publications, each topic's in their order, a bounded weight of them at one time."""

    def __init__(self, submit: Callable[[Call], None]) -> None:
        self._submit = submit
        self._lines: dict[str, deque[_Publication]] = {}  # by topic; who comes first is next
        self._waiting = 0
        self._weight = 0
        self._deliveries: dict[str, int] = {}  # of one message, by topic, as its last publication made

    def add(self, topic: str, messages: int, size: int, verb: Verb, done: Callable[[Any], None]) -> None:
        """Publish when it is its turn.

        Args:
            topic: Its name.
            messages: How many.
            size: Bytes of all.
            verb: Gives `Published`.
            done: Called with what it gives, or with an AnewError.
        """
        if self._waiting >= MOST_WAITING:
            done(Overloaded("more publications are waiting than can be stored soon; try again in a second"))
            return
        weight = size + messages * self._deliveries.get(topic, 0) * DELIVERY
        self._lines.setdefault(topic, deque()).append(_Publication(weight, verb, done))
        self._waiting += 1
        self._go_on()

    def _go_on(self) -> None:
        while self._lines:
            topic, line = next(iter(self._lines.items()))
            if self._weight and self._weight + line[0].weight > MOST:
                return
            one = line.popleft()
            del self._lines[topic]
            if line:
                self._lines[topic] = line  # behind the others
            self._waiting -= 1
            self._weight += one.weight
            self._submit(Call(one.verb, partial(self._stored, topic, one)))

    def _stored(self, topic: str, one: _Publication, result: Any) -> None:
        self._weight -= one.weight
        if isinstance(result, Published) and not result.repeated:
            self._note(topic, result.deliveries // len(result.ids))
        one.done(result)
        self._go_on()

    def _note(self, topic: str, deliveries: int) -> None:
        if len(self._deliveries) >= _KNOWN:
            self._deliveries.clear()
        self._deliveries[topic] = deliveries
