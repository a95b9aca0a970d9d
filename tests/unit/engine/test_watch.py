"""Watching the lists: when somebody looks, what is told of ended attempts, and what it costs when nobody watches."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anew.engine import watch as module
from anew.engine.batch import Batch
from anew.engine.watch import Shown, Wanted, Watch
from anew.engine.windows import Head
from anew.errors import InternalError
from anew.jobs import HoldEnd, HoldKind
from anew.store.protocol import Hold, JobList, Lengths

from .handloop import HandLoop
from .handreads import HandReads
from .rig import Rig, call, fail, new_job, succeed


class Watcher:
    """One that remembers what it sees."""

    def __init__(self, limit: int = 10) -> None:
        self.wanted = [Wanted(of, Head(), limit, False) for of in JobList]
        self.looks: list[Shown] = []

    def wants(self) -> Iterable[Wanted]:
        return self.wanted

    def see(self, look: Shown) -> None:
        self.looks.append(look)

    def keys(self, of: JobList) -> list[int]:
        """The keys in a window, at the last look."""
        return [job.key for job in self.looks[-1].windows[self.wanted[list(JobList).index(of)]].jobs]


class Scene:
    """A watch with everything moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rig = Rig()
        self.loop = HandLoop(self.rig)
        self.reads = HandReads(self.rig.store.reader())
        self.watch = Watch(cast(Any, self.reads), self.rig.engine, cast(Any, self.loop))
        self.took_s = 0.0
        ticks = iter(range(10**9))
        timer = SimpleNamespace(perf_counter=lambda: next(ticks) * self.took_s)
        monkeypatch.setattr(module, "time", timer)  # each look takes as long as `took_s` says

    def watcher(self) -> Watcher:
        """Add one, and let it have its first look."""
        watcher = Watcher()
        self.watch.add(watcher)
        self.loop.advance(0)
        return watcher


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_the_first_look_comes_at_once(scene: Scene) -> None:
    keys = scene.rig.put(new_job(), new_job())
    watcher = scene.watcher()
    assert len(watcher.looks) == 1
    assert watcher.looks[0].lengths == Lengths(2, 0, 0, 0)
    assert watcher.keys(JobList.READY) == keys
    assert scene.watch.lengths == Lengths(2, 0, 0, 0)


def test_what_is_written_is_seen_within_a_tenth_of_a_second_and_once(scene: Scene) -> None:
    watcher = scene.watcher()
    scene.rig.put(new_job())
    scene.rig.put(new_job())
    scene.loop.advance(99)
    assert len(watcher.looks) == 1
    scene.loop.advance(1)
    assert len(watcher.looks) == 2
    assert len(watcher.keys(JobList.READY)) == 2


def test_nothing_is_shown_while_nothing_is_written(scene: Scene) -> None:
    watcher = scene.watcher()
    scene.loop.advance(10_000)
    assert len(watcher.looks) == 1


def test_a_look_is_for_all_who_watch_and_equal_windows_are_read_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []
    real = module.window

    def counted(*given: Any, **more: Any) -> Any:
        read.append(given)
        return real(*given, **more)

    monkeypatch.setattr(module, "window", counted)
    watchers = [Watcher() for _ in range(5)]
    for watcher in watchers:
        scene.watch.add(watcher)
    scene.loop.advance(0)
    assert [len(watcher.looks) for watcher in watchers] == [1] * 5
    assert len(read) == len(JobList)


def test_the_longer_a_look_takes_the_rarer_it_is(scene: Scene) -> None:
    """The reader's thread belongs to others for nine tenths of the time."""
    scene.took_s = 0.5
    watcher = scene.watcher()
    for _ in range(2):
        looks = len(watcher.looks)
        scene.rig.put(new_job())
        scene.loop.advance(4_300)
        assert len(watcher.looks) == looks
        scene.loop.advance(300)
        assert len(watcher.looks) == looks + 1


def test_somebody_who_wants_to_see_something_else_waits_as_long_as_the_look_before_took(scene: Scene) -> None:
    scene.took_s = 0.5
    watcher = scene.watcher()
    scene.watch.look_soon()
    scene.loop.advance(450)
    assert len(watcher.looks) == 1
    scene.loop.advance(100)
    assert len(watcher.looks) == 2


def test_who_asks_during_a_look_gets_another_behind_it(scene: Scene) -> None:
    scene.reads.holding = True
    watcher = scene.watcher()
    scene.watch.look_soon()
    scene.watch.look_soon()
    scene.loop.advance(1_000)
    assert len(scene.reads.held) == 1
    scene.reads.release()
    scene.loop.advance(0)
    assert len(watcher.looks) == 2


def test_the_ends_of_attempts_are_told_with_the_next_look_and_once(scene: Scene) -> None:
    first, second, third = scene.rig.put(new_job(), new_job(), new_job())
    scene.rig.worker()
    watcher = scene.watcher()
    scene.rig.do(succeed(first))
    scene.rig.do(fail(second))
    scene.loop.advance(100)
    assert watcher.looks[-1].ended == ([first], [second])
    scene.rig.do(succeed(third, first))  # the second report of the first finds nothing
    scene.loop.advance(100)
    assert watcher.looks[-1].ended == ([third], [])


def test_a_reservation_that_lapses_counts_as_a_failure(scene: Scene) -> None:
    (key,) = scene.rig.put(new_job())
    watcher = scene.watcher()
    hold = Hold(
        HoldKind.RESERVATION, 7, scene.rig.store.session, scene.rig.clock.now() + 10, scene.rig.clock.now()
    )

    def lapse(batch: Batch) -> None:
        batch.take_under(hold, None, 1, 1_000)
        batch.end_holds([key], HoldEnd.LAPSED)

    scene.rig.do(call(lapse))
    scene.loop.advance(100)
    assert watcher.looks[-1].ended == ([], [key])


def test_more_ends_than_are_kept_are_told_as_too_many(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ENDED", 2)
    keys = scene.rig.put(*[new_job() for _ in range(6)])
    scene.rig.worker()
    watcher = scene.watcher()
    for key in keys[:3]:
        scene.rig.do(succeed(key))
    scene.loop.advance(100)
    assert watcher.looks[-1].ended is None
    scene.rig.do(succeed(keys[3]))
    scene.loop.advance(100)
    assert watcher.looks[-1].ended == ([keys[3]], [])


def test_without_somebody_who_watches_nothing_is_noted_and_nothing_looked_at(scene: Scene) -> None:
    assert Batch(scene.rig.engine.parts, 0).ended is None
    watcher = scene.watcher()
    assert Batch(scene.rig.engine.parts, 0).ended is not None
    scene.watch.remove(watcher)
    assert Batch(scene.rig.engine.parts, 0).ended is None
    done = scene.reads.done
    scene.rig.put(new_job())
    scene.loop.advance(60_000)
    assert scene.reads.done == done
    assert scene.loop.live() == []
    scene.watch.remove(watcher)  # again has no effect


def test_ends_in_a_transaction_that_does_not_last_are_not_told(scene: Scene) -> None:
    (key,) = scene.rig.put(new_job())
    scene.rig.worker()
    watcher = scene.watcher()

    def broken(batch: Batch) -> None:
        batch.finish([key])
        raise RuntimeError("planned")

    scene.rig.do(call(broken))
    scene.loop.advance(200)
    assert all(look.ended in (None, ([], [])) for look in watcher.looks)


def test_a_look_that_fails_is_tried_again_after_some_seconds(scene: Scene) -> None:
    watcher = scene.watcher()
    scene.reads.failing = InternalError("planned")
    scene.rig.put(new_job())
    scene.loop.advance(100)
    scene.reads.failing = None
    scene.loop.advance(4_800)
    assert len(watcher.looks) == 1
    scene.loop.advance(300)
    assert len(watcher.looks) == 2


def test_a_look_that_is_refused_is_tried_again(scene: Scene) -> None:
    scene.reads.refusing = True
    watcher = scene.watcher()
    assert watcher.looks == []
    scene.reads.refusing = False
    scene.loop.advance(6_000)
    assert len(watcher.looks) == 1


def test_one_who_raises_is_shown_nothing_more_and_hurts_nobody(scene: Scene) -> None:
    bad, good = Watcher(), Watcher()
    bad.see = lambda look: 1 / 0  # type: ignore[assignment,return-value,method-assign]
    scene.watch.add(bad)
    scene.watch.add(good)
    scene.loop.advance(0)
    scene.rig.put(new_job())
    scene.loop.advance(100)
    assert len(good.looks) == 2
