"""Texts that PostgreSQL does not take."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
import pytest

from anew.errors import InvalidInput
from anew.jobs import NewJob
from anew.jobs.codec import JobHooks, LimitKey, PushedJob
from anew.store.postgres import open_postgres
from anew.store.postgres.texts import column
from anew.store.postgres.words import STATEMENTS
from anew.store.selection import Filter, Page
from tests.postgres import empty_database
from tests.unit.engine.rig import Rig, enqueue, fail, new_job

LONG = "".join(random.Random(5).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=512))
"""The longest name that the edges let through, in which nothing is to be compressed."""


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig(open_postgres(empty_database()))
    yield rig
    rig.store.close()


def pushed(**given: object) -> PushedJob:
    return PushedJob(**{"type": "t", "queue": "q", "payload": msgspec.Raw(b"1"), "jid": "j", **given})  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
@pytest.mark.parametrize("field", ["queue", "type", "jid"])
def test_a_name_that_cannot_be_kept_is_refused_by_its_field_and_nothing_of_its_bulk_is_stored(
    rig: Rig, field: str, text: str
) -> None:
    """With another character in its place it could be another job's name."""
    bulk = [pushed() for _ in range(200)]
    setattr(bulk[150], field, text)
    refused, (key,) = (
        rig.apply(enqueue(*bulk), enqueue(new_job()))[0],
        rig.store.find(Filter(), Page(limit=500)),
    )
    assert isinstance(refused, InvalidInput)
    assert (refused.field, rig.job(key).queue) == (field, new_job().queue)
    assert repr(text) in str(refused)


@pytest.mark.parametrize("field", ["queues", "types", "jids"])
@pytest.mark.parametrize("names", [1, 1_001])
def test_a_filter_by_such_a_name_is_refused_too(rig: Rig, field: str, names: int) -> None:
    (key,) = rig.put(pushed())
    wanted = Filter(**{field: frozenset({"a\0b", *map(str, range(names - 1))})})
    reader = rig.store.reader()
    with pytest.raises(InvalidInput):
        reader.find(wanted, Page(limit=10))
    assert reader.find(Filter(), Page(limit=10)) == [key]
    reader.close()


def test_what_only_describes_is_kept_with_another_character(rig: Rig) -> None:
    (key,) = rig.put(new_job())
    rig.worker()
    rig.do(fail(key, message="a\0b"))
    (record,) = rig.store.records.errors(key, Page(limit=10))
    assert record.message == "a\ufffdb"


def test_the_longest_names_are_kept_and_found(rig: Rig) -> None:
    """An index's row has 2,704 bytes at most: queue, type, jid and key of a job together have fewer than that in each."""
    job = pushed(
        queue=LONG, type=LONG, jid=LONG, hooks=JobHooks(limit=LimitKey(LONG[:255], concurrency=1), once=True)
    )
    (key,) = rig.put(job)
    assert isinstance(rig.do(enqueue(job)), object)
    assert rig.store.find(Filter(queues={LONG}, types={LONG}, jids={LONG}), Page(limit=10)) == [key]
    assert rig.worker([LONG]).held == {key}
    assert rig.broken_rules() == []


def test_a_name_too_long_for_an_index_is_refused_and_the_store_goes_on(rig: Rig) -> None:
    name = "".join(random.Random(5).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=5_000))
    (refused,) = rig.apply(enqueue(NewJob(type="t", queue=name, payload=msgspec.Raw(b"1"))))
    assert isinstance(refused, InvalidInput)
    assert str(refused).startswith("a name is too long for PostgreSQL: index row size 5032 exceeds")
    assert str(refused).endswith('maximum 2704 for index "job_ready"')
    assert len(rig.put(new_job())) == 1


@pytest.mark.parametrize(
    ("name", "n", "field"),
    [
        ("insert_plain", 2, "queue"),
        ("insert_plain", 11, "type"),
        ("insert_usual", 5, "queue"),
        ("insert_usual", 11, "type"),
        ("insert_attempt", 5, "message"),
        ("read_queues", 2, "name"),
        ("named", 1, "jid"),
        ("select_ready", 1, "queue"),
        ("rewrite", 2, "queue"),
        ("whole_lines", 1, "queue"),
        ("subscription_at", 2, "endpoint"),
        ("queue_rows", 1, "name"),
        ("write_meta", 1, "name"),
        ("publication", 2, "key"),
    ],
)
def test_the_column_of_a_value_is_told_from_the_statement(name: str, n: int, field: str) -> None:
    assert column(STATEMENTS.text(name, 2), n) == field
