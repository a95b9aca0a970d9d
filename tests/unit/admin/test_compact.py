"""`POST /compact`: some of it in each batch, until nothing is left to do."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from msgspec.structs import replace

from anew.admin.compact import Compacting
from anew.errors import StoreBusy
from anew.http.formats import JSON
from anew.jobs import State
from anew.store.protocol import Rewrite
from anew.store.sqlite import open_sqlite
from tests.unit.engine.grouped import Group
from tests.unit.engine.rig import NOW, call, new_job
from tests.unit.http.asked import Asked


def compacting(group: Group) -> Compacting:
    return Compacting(cast(Any, SimpleNamespace(commit=group.commit)), cast(Any, group.loop))


def test_zizq_94_compaction_is_answered_with_204_when_nothing_is_left_to_remove() -> None:
    group = Group()
    keys = group.rig.put(*[new_job() for _ in range(1_000)])
    jobs = group.rig.store.load(keys)
    dead = [Rewrite(replace(job, state=State.DEAD, purge_at=NOW), job.queue, job.state) for job in jobs]
    group.rig.do(call(lambda batch: batch.store.rewrite(dead)))
    request = Asked("POST", "/compact")
    compacting(group).compact(request, JSON, ())
    group.loop.settle()
    assert request.answers == []
    group.loop.advance(1_000)
    assert (request.answer.status, request.answer.body) == (204, b"")
    assert group.rig.store.load(keys) == []
    assert max(group.batches) == 1


def test_a_client_that_goes_ends_it() -> None:
    group = Group()
    request = Asked("POST", "/compact")
    request.gone = True
    compacting(group).compact(request, JSON, ())
    assert group.batches == []
    assert group.loop.soon == []


def test_what_cannot_be_compacted_now_is_said() -> None:
    group = Group()
    request = Asked("POST", "/compact")

    def busy(op: Any) -> None:
        op.done(StoreBusy("another program is writing"))

    context: Any = SimpleNamespace(commit=SimpleNamespace(submit=busy))
    Compacting(context, cast(Any, group.loop)).compact(request, JSON, ())
    assert request.answer.status == 503


def test_the_log_is_copied_into_the_database_though_it_is_short(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "data")
    group = Group(store)
    group.rig.put(new_job())
    database = tmp_path / "data" / "anew.db"
    before = database.stat().st_mtime_ns, b"send" in database.read_bytes()
    assert before[1] is False
    request = Asked("POST", "/compact")
    compacting(group).compact(request, JSON, ())
    group.loop.advance(1_000)
    assert request.answer.status == 204
    assert b"send" in database.read_bytes()
    store.close()
