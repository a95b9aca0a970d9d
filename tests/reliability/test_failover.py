"""A standby takes over from the primary: what was accepted is there, and the old primary takes nothing from Anew any more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anew.engine import ThreadCommit
from anew.errors import StoreBusy, StoreFailed
from anew.store.selection import Filter
from anew.tasks.opening import open_engine
from tests.standby import Pair
from tests.waiting import until

from .failover import END_BACKENDS, WRITTEN, run
from .test_crash import fresh_seed
from .test_processes import put

pytestmark = pytest.mark.alone

PROMOTIONS, ROUNDS = 20, 5
ALL_JOBS = Filter()


@pytest.fixture(scope="module")
def servers() -> Iterator[Pair]:
    """A primary whose commits wait for its standby."""
    with closing(Pair()) as one:
        yield one


@pytest.fixture
def pair(servers: Pair) -> Pair:
    """The same, with nothing stored."""
    servers.empty()
    return servers


def test_reliability_37_a_promotion_loses_resurrects_and_strands_nothing(pair: Pair, tmp_path: Path) -> None:
    one, promoted = run(1, fresh_seed(), tmp_path, pair)
    print(one.report)
    assert promoted["promotions"] == 1
    assert one.report.counts["enqueued"] > 20, f"too little load to mean anything: {one.report}"
    assert one.report.ok, one.report


@pytest.mark.nightly
@pytest.mark.parametrize("round_", range(ROUNDS))
def test_reliability_37_39_a_hundred_promotions(pair: Pair, tmp_path: Path, round_: int) -> None:
    one, promoted = run(PROMOTIONS, fresh_seed(), tmp_path, pair)
    print(one.report)
    assert promoted["promotions"] == PROMOTIONS
    assert promoted["old one back"] > 0
    assert one.report.counts["enqueued"] > 10 * PROMOTIONS, f"too little load to mean anything: {one.report}"
    assert one.report.ok, one.report


@pytest.mark.nightly
def test_the_rig_catches_what_a_standby_that_nobody_waits_for_has_not_got(tmp_path: Path) -> None:
    """The control run."""
    with closing(Pair(synchronous=False)) as pair:
        pair.empty()
        one, _ = run(2, fresh_seed(), tmp_path, pair)
    print(one.report)
    assert one.report.wrong["lost"] + one.report.wrong["resurrected"] > 0, one.report


def beside(call: Callable[[], Any]) -> Future[Any]:
    """Call something in a thread, which the test does not wait for."""
    result: Future[Any] = Future()

    def go() -> None:
        try:
            result.set_result(call())
        except Exception as error:
            result.set_exception(error)

    threading.Thread(target=go, daemon=True).start()
    return result


def patiently(call: Callable[[], Any]) -> Any:
    """Call something until the store is not busy."""
    while True:
        try:
            return call()
        except StoreBusy:
            pass


@pytest.mark.parametrize("verb", ["take", "enqueue"])
def test_reliability_39_the_old_primary_accepts_nothing_from_who_knows_no_other(
    pair: Pair, verb: str
) -> None:
    """Nobody follows it any more, so that nothing it commits is confirmed: neither what is accepted nor what is handed out."""
    old = pair.primary
    program = open_engine(pair.url_of(old))
    put(program, 3)
    pair.promote()
    old.start("synchronous_standby_names=*")
    before = pair.ask(old, WRITTEN)
    calls: dict[str, Callable[[], Any]] = {
        "take": lambda: program.take(None, 1),
        "enqueue": lambda: put(program, 1),
    }
    call = beside(lambda: patiently(calls[verb]))
    until(lambda: pair.ask(old, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))
    with pytest.raises(TimeoutError):
        call.result(1.0)
    assert pair.ask(old, WRITTEN) == before
    program.engine.store.abandon("the test is over")
    pair.mend()
    assert pair.ask(pair.primary, "SELECT count(*) FROM anew.job WHERE state = 30") == 3


def test_reliability_39_an_older_timeline_is_refused_by_who_has_seen_the_newer_one_or_may_ask_it() -> None:
    """Though the old primary is named first, takes writes and confirms them."""
    with closing(Pair(synchronous=False)) as pair, closing(open_engine(pair.url())) as program:
        put(program, 1)
        with pytest.raises(StoreFailed, match="is a standby, which takes no writes"):
            open_engine(pair.url_of(pair.standby))
        old = pair.primary
        pair.promote()
        old.start()
        before = pair.ask(old, WRITTEN)
        patiently(lambda: put(program, 1))
        assert ports(program) == {pair.primary.port}
        pair.ask(pair.primary, END_BACKENDS)
        patiently(lambda: put(program, 1))
        with closing(open_engine(pair.url())) as fresh:
            assert put(fresh, 1)
            assert ports(fresh) == {pair.primary.port}
        pair.primary.stop()
        refused = f"127.0.0.1:{old.port} is on timeline 1, and another server has taken over from it"
        until(lambda: refused in why_busy(program))
        assert pair.ask(old, WRITTEN) == before


def ports(program: ThreadCommit) -> set[int]:
    """Give the ports that its connections lead to, once there are all of them."""
    link: Any = program.engine.store._link  # type: ignore[attr-defined]
    reader: Any = program.engine.store.reader()
    with closing(reader):
        reader.count(ALL_JOBS)
        until(lambda: not link._presence._connection.closed)
        connections = [link.connection, link._presence._connection, reader._link._connection]
        return {one.info.port for one in connections}


def why_busy(program: ThreadCommit) -> str:
    """Tell why nothing can be written."""
    try:
        program.engine.store.begin(synced=True)
    except StoreBusy as busy:
        return str(busy)
    program.engine.store.rollback()
    return ""
