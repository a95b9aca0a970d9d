"""Publications take turns."""

from __future__ import annotations

from typing import Any

from anew.engine import Call
from anew.errors import NotFound, Overloaded
from anew.http.turns import MOST, MOST_WAITING, Turns
from anew.topics.publishing import Published


class Batches:
    """What was submitted, each a name, and what was answered."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.answers: list[Any] = []
        self.turns = Turns(self.calls.append)

    def add(self, topic: str, name: str, size: int, messages: int = 1) -> None:
        self.turns.add(topic, messages, size, lambda _: name, self.answers.append)

    def names(self) -> list[str]:
        return [call.verb(None) for call in self.calls]  # type: ignore[arg-type]

    def apply(self, result: object = Published([1], 0, False)) -> list[str]:
        """Have the batch applied that was submitted; tell what was in it."""
        calls, names = list(self.calls), self.names()
        self.calls.clear()
        for call in calls:
            call.done(result)
        return names


def test_small_ones_share_a_batch_and_large_ones_take_several() -> None:
    batches = Batches()
    for name in "abc":
        batches.add("t", name, 100)
    assert batches.apply() == ["a", "b", "c"]
    for name in "abc":
        batches.add("t", name, MOST // 2)
    batches.add("t", "huge", 3 * MOST)
    assert [batches.apply() for _ in range(4)] == [["a", "b"], ["c"], ["huge"], []]
    assert len(batches.answers) == 7


def test_a_flood_on_one_topic_does_not_hold_up_another() -> None:
    batches = Batches()
    for name in "abc":
        batches.add("flood", name, MOST)
    batches.add("other", "x", 10)
    assert [batches.apply() for _ in range(3)] == [["a"], ["b"], ["x"]]
    assert batches.apply() == ["c"]


def test_what_a_topic_makes_of_a_message_weighs() -> None:
    batches = Batches()
    batches.add("wide", "first", 10)
    batches.apply(Published([1], 400, False))
    for name in "ab":
        batches.add("wide", name, 10)
        batches.add("narrow", name.upper(), 10)
    assert batches.apply(NotFound("no topic")) == ["a", "A"]  # b waits, and who comes behind it
    assert batches.apply() == ["b", "B"]
    assert [type(one) for one in batches.answers] == [Published, NotFound, NotFound, Published, Published]


def test_those_that_come_when_too_many_wait_are_refused() -> None:
    batches = Batches()
    for _ in range(MOST_WAITING + 1):
        batches.add("t", "a", MOST)
    assert batches.answers == []
    batches.add("t", "b", 1)
    assert isinstance(batches.answers.pop(), Overloaded)
    batches.apply()
    batches.add("t", "b", 1)
    assert len(batches.answers) == 1
