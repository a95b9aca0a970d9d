"""Replies that may differ become equal, and those that may not stay different."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from .answers import normal
from .dialogue import Dialogue, again
from .faktory import differences
from .generated import generate
from .table import TABLE

NOW = "<now>"
"""Becomes the time of the test: a name that changes with the second would not be the same for each of its processes."""


def plain(reply: str) -> str:
    """A reply, comparable, outside any dialogue."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return normal(reply.replace(NOW, now), (), None)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("-ERR invalid JSON: here", "-ERR invalid JSON: or there"),
        (
            f'${{"jid":"a","args":[],"created_at":"{NOW}Z"}}',
            f'${{"jid":"a","args":[],"created_at":"{NOW}.123456789Z"}}',
        ),
        ('${"jid":"a","args":[{"b":1,"a":2}]}', '${"jid":"a","args":[{"a":2,"b":1}]}'),
        ('${"q":0.5}', '${"q":0.25}'),
        (
            r"""${"a":"invalid timestamp for 'at': \"x\": one"}""",
            r"""${"a":"invalid timestamp for 'at': \"x\": two"}""",
        ),
        ('+HI {"v":2,"i":4000,"s":"1"}', '+HI {"v":2,"i":8095,"s":"ffff"}'),
    ],
)
def test_what_may_differ_is_equal(one: str, other: str) -> None:
    assert plain(one) == plain(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("+OK", "$-1"),
        ("-ERR invalid JSON: x", "-ERR invalid ACK x"),
        ("-ERR Job not found a", "-ERR Job not found b"),
        ('${"jid":"a","args":[]}', '${"args":[],"jid":"a"}'),
        (
            '${"jid":"a","args":[],"at":"2099-01-01T00:00:00Z"}',
            '${"jid":"a","args":[],"at":"2099-01-01T00:00:00.0Z"}',
        ),
        (
            f'${{"jid":"a","args":[],"created_at":"{NOW}Z"}}',
            f'${{"jid":"a","args":[],"created_at":"{NOW}.120Z"}}',
        ),
        ('${"q":0}', '${"q":0.5}'),
        ('${"a":"jobs must have a jobtype parameter"}', '${"a":"Job not unique"}'),
        ('+HI {"v":2,"i":3999,"s":"1"}', '+HI {"v":2,"i":4000,"s":"1"}'),
    ],
)
def test_what_may_not_differ_stays_different(one: str, other: str) -> None:
    assert plain(one) != plain(other)


def test_the_first_difference_is_shown() -> None:
    found = differences(["A  ->  +OK", "B  ->  +OK"], ["A  ->  +OK", "B  ->  $-1"])
    assert found.split() == ["step", "2:", "B", "first:", "+OK", "second:", "$-1"]


def test_names_of_dialogues_are_unique() -> None:
    names = [dialogue.name for dialogue in (*TABLE, *generate(1, 5))]
    assert len(names) == len(set(names))


def test_the_table_has_every_number_that_two_servers_can_show() -> None:
    # Hash vectors (7), 2000 connections (18), TLS (21), the spread of waits (55), an expiry's counters (63), a restart (65).
    numbers = {number for dialogue in TABLE for number in dialogue.numbers}
    assert set(range(1, 89)) - numbers == {7, 18, 21, 55, 63, 65}


def test_what_touches_others_is_held_alone() -> None:
    def alone(step: str) -> bool:
        return Dialogue(name="", numbers=(), steps=(step,)).alone

    assert all(
        map(
            alone,
            ["INFO", "FLUSH", "QUEUE PAUSE *", 'MUTATE {"cmd":"clear","target":"dead"}', 'PUSH {"retry":0}'],
        )
    )
    assert not any(map(alone, ["FETCH @q", "QUEUE PAUSE @q", again(), 'PUSH {"jid":"@1"}']))


def test_a_seed_gives_the_same_dialogues() -> None:
    assert generate(7, 3) == generate(7, 3)
    assert generate(7, 3) != generate(8, 3)
