"""Somebody looks at the database as it was, for long: a transaction that nobody has ended, a dump, a standby's query.

Until they are through PostgreSQL keeps all rows and index entries that have gone since. A take steps over none of them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from anew.store.postgres import examination, open_postgres
from anew.store.sql.examination import Finding
from tests.postgres import empty_database
from tests.unit.engine.rig import Rig, plain, succeed

GONE = 2_000
"""Jobs that have gone since: a search over them all would visit as many pages."""

BATCHES = 300
"""Batches that each write the row of their queue."""

FEW = 50
"""Pages: of the tree and the rows of the jobs that are found."""


@pytest.fixture
def url() -> str:
    """The address of an empty database."""
    return empty_database("snapshot")


@pytest.fixture
def rig(url: str) -> Iterator[Rig]:
    """An engine whose database somebody looks at from its beginning on."""
    rig = Rig(open_postgres(url))
    with psycopg.connect(url) as looking:
        looking.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM anew.job")
        yield rig
    rig.store.close()


def pages(node: dict[str, Any]) -> int:
    """Give the pages that a plan has read."""
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """What the statements have read that begin with some words, in pages, from when these are a key on."""
    execute = psycopg.RawCursor.execute
    found: dict[str, list[int]] = {}

    def noted(cursor: Any, text: str, bound: Any, **how: Any) -> Any:
        for words in [words for words in found if text.startswith(words)]:
            explained = psycopg.RawCursor(cursor.connection)
            execute(explained, f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}", bound)  # it is done twice
            (((plan,),),) = explained.fetchall()
            found[words].append(pages(plan["Plan"]))
        return execute(cursor, text, bound, **how)

    monkeypatch.setattr(psycopg.RawCursor, "execute", noted)
    return found


@pytest.mark.parametrize("prefetch", [1, 200])
def test_reliability_40_a_take_steps_over_no_job_that_has_gone_while_a_snapshot_is_open(
    rig: Rig, read: dict[str, list[int]], prefetch: int
) -> None:
    rig.do(plain(GONE))
    worker = rig.worker(prefetch=GONE)
    rig.do(succeed(*worker.keys))
    rig.leave(worker)
    assert rig.store.queues.counts() == {}
    rig.do(plain(300))

    read |= {"SELECT id, queue, type, priority": [], "SELECT column1, (SELECT priority FROM job": []}
    taker = rig.worker(prefetch=prefetch)
    rig.do(succeed(*taker.keys))
    assert len(taker.keys) == min(2 * prefetch, 300)
    found = [number for numbers in read.values() for number in numbers]
    assert found
    assert max(found) < FEW + 3 * prefetch


@pytest.mark.parametrize("queues", [["mail"], None])
def test_reliability_40_a_row_is_found_among_all_that_it_has_been_while_a_snapshot_is_open(
    url: str, rig: Rig, read: dict[str, list[int]], queues: list[str] | None
) -> None:
    rig.do(plain(BATCHES))
    taker = rig.worker(queues, prefetch=1)
    while len(taker.keys) < BATCHES - 10:
        rig.do(succeed(taker.keys[-1]))
    of_queues, of_day = "WITH v AS (VALUES", "WITH old AS (UPDATE day"
    read |= {of_queues: [], of_day: [], "SELECT priority, id, name FROM queue_head": []}
    before = looked_at(url, rig)
    for _ in range(5):
        rig.do(succeed(taker.keys[-1]))
    assert read[of_queues]
    assert read[of_day]
    assert bool(read["SELECT priority, id, name FROM queue_head"]) is (queues is None)
    assert max(number for numbers in read.values() for number in numbers) < FEW
    assert_few(looked_at(url, rig) - before, 5)


def test_reliability_40_two_processes_in_turn_find_theirs_while_a_snapshot_is_open(
    url: str, rig: Rig
) -> None:
    rigs = rig, Rig(open_postgres(url), clock=rig.clock)
    for _ in range(BATCHES // 2):
        for one in rigs:
            one.do(plain(1))
    before = looked_at(url, *rigs)
    for _ in range(5):
        for one in rigs:
            one.do(plain(1))
    assert_few(looked_at(url, *rigs) - before, 10)
    rigs[1].store.close()


def looked_at(url: str, *rigs: Rig) -> Counter[str]:
    """How often tables were walked, and how many entries of each index were read, since the beginning."""
    for rig in rigs:
        link: Any = rig.store._link  # type: ignore[attr-defined]
        link.execute("SELECT pg_stat_force_next_flush()")
    found: Counter[str] = Counter()
    with psycopg.connect(url) as asking:
        for kind, name in (("seq_scan", "relname"), ("idx_tup_read", "indexrelname")):
            table = "pg_stat_user_tables" if kind == "seq_scan" else "pg_stat_user_indexes"
            text = f"SELECT {name}, {kind} FROM {table} WHERE schemaname = 'anew'"
            found.update(
                {f"{kind} of {of}": number for of, number in asking.execute(text.encode()).fetchall()}
            )
    return found


def assert_few(found: Counter[str], batches: int) -> None:
    """Each batch has looked its rows up, and nothing that they have been before."""
    of_rows = ("turn", "turn_version", "queue", "queue_name", "day", "day_pkey", "wrote", "wrote_pkey")
    looked = {what: number for what, number in found.items() if what.split()[-1] in of_rows}
    assert looked["idx_tup_read of turn_version"] >= batches
    assert not any(number for what, number in looked.items() if what.startswith("seq_scan")), looked
    assert max(looked.values()) <= 8 * batches, looked


def looked_up(url: str) -> dict[str, Finding]:
    """What the doctor finds; the tests' database does without syncs, which is not what these are about."""
    return {found.name: found for found in examination.examine(url, time.time_ns() // 1_000_000).findings}


def test_the_doctor_tells_who_looks_for_long_and_only_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    url = empty_database("looked")
    open_postgres(url).close()
    monkeypatch.setattr(examination, "OLD_SNAPSHOT_S", 0)
    assert "snapshot" not in looked_up(url)
    with psycopg.connect(url, application_name="a report") as looking:
        looking.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM anew.job")
        finding = looked_up(url)["snapshot"]
        pid = looking.info.backend_pid
        assert f"a transaction of a report (process {pid}) has been open for 0 minutes" in finding.found
        assert f"pg_terminate_backend({pid})" in finding.mend
        monkeypatch.setattr(examination, "OLD_SNAPSHOT_S", 600)
        assert "snapshot" not in looked_up(url)
