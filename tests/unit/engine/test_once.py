"""Jobs that are stored once: a repeat is found by its producer's id, in the transaction that would insert it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from anew.engine import Enqueued, Entry
from anew.engine.staging import PART_BYTES
from anew.jobs.codec import JobHooks, PushedJob
from anew.store.selection import Filter
from anew.store.sqlite import open_sqlite

from .grouped import Group
from .rig import ALL, Once, Rig, enqueue, succeed


def named(jid: str, *, once: bool = True, args: bytes = b"[]") -> PushedJob:
    hooks = JobHooks(once=True) if once else None
    return PushedJob(type="send", queue="mail", payload=msgspec.Raw(args), jid=jid, hooks=hooks)


def put(rig: Rig, *jobs: PushedJob) -> Enqueued:
    result = rig.do(enqueue(*jobs))
    assert isinstance(result, Enqueued)
    return result


def test_a_repeat_is_the_first_job_in_one_call_in_one_batch_and_later() -> None:
    rig = Rig()
    first, second = rig.apply(enqueue(named("a"), named("b"), named("a")), enqueue(named("b"), named("c")))
    assert (list(first.keys)[2], dict(first.existing)) == (first.keys[0], {2: Entry.REPEATED})
    assert (second.keys[0], dict(second.existing)) == (first.keys[1], {0: Entry.REPEATED})
    third = put(rig, named("c"), named("d"))
    assert (third.keys[0], dict(third.existing)) == (second.keys[1], {0: Entry.REPEATED})
    assert rig.store.find(Filter(), ALL) == [*first.keys[:2], second.keys[1], third.keys[1]]


def test_jobs_without_the_mark_neither_are_repeats_nor_have_any() -> None:
    rig = Rig()
    assert not put(rig, named("a", once=False), named("a"), named("a", once=False)).existing
    assert put(rig, named("a")).existing == {0: Entry.REPEATED}


def test_an_id_is_free_again_when_its_job_is_gone() -> None:
    rig = Rig()
    worker = rig.worker()
    put(rig, named("a"))
    rig.do(succeed(*worker.keys))
    assert not put(rig, named("a")).existing


def test_another_process_has_stored_it(tmp_path: Path) -> None:
    here, there = Rig(open_sqlite(tmp_path)), Rig(open_sqlite(tmp_path, exclusive=False))
    (key,) = put(here, named("a")).keys
    assert put(there, named("a")).keys[0] == key
    here.store.close()
    there.store.close()


@pytest.mark.usefixtures("both_ways")
def test_a_long_repeat_leaves_nothing_behind() -> None:
    group = Group()
    long = b'["%b"]' % (b"x" * PART_BYTES)
    for _ in range(2):
        op = enqueue(named("a", args=long), named("b"))
        op.done = done = Once()
        group.commit.submit_long(op)
        group.loop.settle()
    assert done.result.existing == {0: Entry.REPEATED, 1: Entry.REPEATED}
    rows = [group.rig.store._link.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES]
    assert rows == [2, 2, 0]  # the first long payload has two parts


TABLES = ("job", "payload", "staged")
