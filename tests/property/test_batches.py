"""Whole families of batches, moved at random: counters hold, each callback comes once at most, and once where all has succeeded."""

from __future__ import annotations

from dataclasses import dataclass, field

import hypothesis.strategies as st
from hypothesis import given, settings

from anew.jobs.batches import (
    BatchRow,
    Callback,
    CallbackState,
    Level,
    Moved,
    Result,
    Standing,
    callback_succeeded,
    child_joined,
    child_moved,
    committed,
    job_moved,
    joined,
    level,
    new_batch,
)
from tests.property.examples import examples


@dataclass
class Family:
    """Batches with their jobs by name, as the rules never see them. `log` has what was enqueued and acknowledged, in order."""

    rows: dict[int, BatchRow] = field(default_factory=dict)
    jobs: dict[int, list[Standing]] = field(default_factory=dict)
    waiting: list[tuple[int, Callback]] = field(default_factory=list)
    log: list[tuple[str, int, Callback]] = field(default_factory=list)

    def open(self, parent: int | None, *, complete: bool, success: bool) -> None:
        key = len(self.rows)
        self.rows[key] = new_batch(key, parent, complete=complete, success=success)
        self.jobs[key] = []
        if parent is not None:
            self.apply(child_joined(self.rows[parent]))
        self.check()

    def apply(self, moved: Moved) -> None:
        """Store a move, and tell the parents up to the root."""
        before = level(self.rows[moved.row.key])
        self.rows[moved.row.key] = moved.row
        for callback in moved.enqueue:
            self.waiting.append((moved.row.key, callback))
            self.log.append(("enqueued", moved.row.key, callback))
        if moved.told is not None:
            assert (moved.told.before, moved.told.after) == (before, level(moved.row))
            self.apply(child_moved(self.rows[moved.told.parent], moved.told.before, moved.told.after))

    def join(self, key: int, jobs: int) -> None:
        self.jobs[key] += [Standing.PENDING] * jobs
        self.apply(joined(self.rows[key], jobs))
        self.check()

    def report(self, key: int, job: int, result: Result) -> None:
        if self.jobs[key] and self.jobs[key][job % len(self.jobs[key])] is not Standing.SUCCEEDED:
            job %= len(self.jobs[key])
            moved, self.jobs[key][job] = job_moved(self.rows[key], self.jobs[key][job], result)
            self.apply(moved)
        self.check()

    def commit(self, key: int) -> None:
        self.apply(committed(self.rows[key]))
        self.check()

    def acknowledge(self, index: int) -> None:
        if self.waiting:
            key, callback = self.waiting.pop(index % len(self.waiting))
            self.log.append(("acknowledged", key, callback))
            self.apply(callback_succeeded(self.rows[key], callback))
        self.check()

    def finish(self) -> None:
        """Commit everything, let every job succeed, acknowledge every callback."""
        for key in self.rows:
            self.commit(key)
            for job in range(len(self.jobs[key])):
                self.report(key, job, Result.SUCCEEDED)
        while self.waiting:
            self.acknowledge(0)

    def children(self, key: int) -> list[BatchRow]:
        return [row for row in self.rows.values() if row.parent == key]

    def check(self) -> None:
        for key, row in self.rows.items():
            standings = self.jobs[key]
            assert row.total == len(standings)
            assert row.pending == standings.count(Standing.PENDING)
            assert row.failed == standings.count(Standing.FAILED)
            levels = [level(child) for child in self.children(key)]
            assert row.open_children == levels.count(Level.OPEN)
            assert row.unsuccessful_children == len(levels) - levels.count(Level.SUCCEEDED)
        enqueued = [entry for entry in self.log if entry[0] == "enqueued"]
        assert len(set(enqueued)) == len(enqueued)


keys = st.integers(0, 5)
moves = st.one_of(
    st.tuples(st.just("open"), keys, st.booleans(), st.booleans()),
    st.tuples(st.just("join"), keys, st.integers(1, 3)),
    st.tuples(st.just("report"), keys, st.integers(0, 9), st.sampled_from(Result)),
    st.tuples(st.just("commit"), keys),
    st.tuples(st.just("acknowledge"), keys),
)


def play(steps: list[tuple[object, ...]]) -> Family:
    family = Family()
    family.open(None, complete=True, success=True)
    for name, number, *rest in steps:
        assert isinstance(number, int)
        key = number % len(family.rows)
        match name:
            case "open":
                family.open(key, complete=bool(rest[0]), success=bool(rest[1]))
            case "acknowledge":
                family.acknowledge(number)
            case _:
                getattr(family, str(name))(key, *rest)
    return family


@given(st.lists(moves, max_size=60))
@settings(max_examples=examples(300), deadline=None)
def test_whatever_happens_a_family_that_succeeds_in_the_end_has_each_callback_once(
    steps: list[tuple[object, ...]],
) -> None:
    family = play(steps)
    family.finish()
    for key, row in family.rows.items():
        assert level(row) is Level.SUCCEEDED
        for callback, state in ((Callback.COMPLETE, row.complete), (Callback.SUCCESS, row.success)):
            expected = 0 if state is CallbackState.ABSENT else 1
            assert family.log.count(("enqueued", key, callback)) == expected
        if row.complete is not CallbackState.ABSENT and row.success is not CallbackState.ABSENT:
            acknowledged = family.log.index(("acknowledged", key, Callback.COMPLETE))
            assert acknowledged < family.log.index(("enqueued", key, Callback.SUCCESS))


@given(st.lists(st.tuples(keys, st.booleans(), st.booleans(), st.integers(0, 3)), max_size=8))
@settings(max_examples=examples(200), deadline=None)
def test_a_parents_callbacks_come_after_those_of_its_children(
    shape: list[tuple[int, bool, bool, int]],
) -> None:
    """Where all are made before anything runs, as it is meant."""
    family = Family()
    family.open(None, complete=True, success=True)
    for number, complete, success, jobs in shape:
        family.open(number % len(family.rows), complete=complete, success=success)
        family.join(len(family.rows) - 1, jobs)
    family.finish()
    for place, (what, key, _) in enumerate(family.log):
        if what == "enqueued":
            for child in family.children(key):
                assert all(other != child.key for _, other, _ in family.log[place:])


@given(st.lists(moves, max_size=60), keys)
@settings(max_examples=examples(200), deadline=None)
def test_success_never_comes_while_a_job_has_failed(steps: list[tuple[object, ...]], number: int) -> None:
    family = play(steps)
    key = number % len(family.rows)
    fresh = family.rows[key].success is not CallbackState.ENQUEUED
    family.join(key, 1)
    if fresh and ("enqueued", key, Callback.SUCCESS) not in family.log:
        family.report(key, len(family.jobs[key]) - 1, Result.DROPPED)
        dropped = len(family.jobs[key]) - 1
        for other in range(len(family.rows)):
            family.commit(other)
            for job in range(len(family.jobs[other])):
                if (other, job) != (key, dropped):
                    family.report(other, job, Result.SUCCEEDED)
        while family.waiting:
            family.acknowledge(0)
        assert ("enqueued", key, Callback.SUCCESS) not in family.log
