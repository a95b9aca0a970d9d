"""The rules about rows on trial: a store made by hand breaks none, and each planted fault is named by its rule (checklist 59)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from anew.store.sqlite import open_sqlite

from .tie_rows import RULES, Entry, Limit, amiss

NOW = 1_800_000_100_000
"""100 s after a slot of the rare entry, which is a multiple of 300 s."""
LIMITS = (Limit("slow", 1, 0, 40_000), Limit("each", 0, 1, 40_000))
ENTRIES = (Entry("second", 1_000), Entry("rare", 300_000))

GOOD = f"""
INSERT INTO job (id, queue, type, priority, state, ready_at, hooks, batch, unique_digest, unique_scope, dequeued_at, hold_token)
VALUES
    (1, 'q', 'unique', 0, 30, 0, 1, NULL, x'01', 'succeeded', NULL, NULL),
    (2, 'q', 'unique', 0, 60, 0, 1, NULL, x'02', 'succeeded', 5, NULL),
    (3, 'q', 'start', 0, 30, 0, 1, NULL, x'03', 'started', NULL, NULL),
    (4, 'q', 'start', 0, 40, 0, 1, NULL, x'03', 'started', 5, 1),
    (5, 'q', 'brief', 0, 30, 0, 1, NULL, x'05', 'succeeded', NULL, NULL),
    (11, 'q', 'member', 0, 40, 0, 8, 10, NULL, NULL, 5, 1),
    (12, 'q', 'member', 0, 60, 0, 24, 10, NULL, NULL, 5, NULL),
    (21, 'q', 'complete', 0, 30, 0, 32, 20, NULL, NULL, NULL, NULL),
    (31, 'q', 'member', 0, 20, 0, 24, 30, NULL, NULL, 5, NULL),
    (51, 'slow', 't', 0, 40, 0, 0, NULL, NULL, NULL, {NOW - 10}, 1),
    (52, 'slow', 't', 0, 40, 0, 0, NULL, NULL, NULL, {NOW - 40_000}, 2),
    (53, 'slow', 't', 0, 30, 0, 0, NULL, NULL, NULL, {NOW - 20}, NULL),
    (54, 'each', 't', 0, 40, 0, 0, NULL, NULL, NULL, {NOW - 20}, 3),
    (55, 'each', 't', 0, 40, 0, 0, NULL, NULL, NULL, {NOW - 20}, 4),
    ({NOW - 1_000} << 20, 'ticks', 'second', 0, 30, 0, 0, NULL, NULL, NULL, NULL, NULL),
    ({NOW + 7} << 20, 'ticks', 'second', 0, 30, 0, 0, NULL, NULL, NULL, NULL, NULL),
    ({NOW - 80_000} << 20, 'ticks', 'rare', 0, 30, 0, 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO payload VALUES (11, 0, x'00'), (78, 0, x'00'), (79, 0, x'00');
INSERT INTO staged (job_id) VALUES (78);
INSERT INTO leftover VALUES (79);
INSERT INTO unique_lock VALUES
    (x'01', 1, 'succeeded', {NOW + 1}), (x'02', 2, 'succeeded', {NOW + 1}), (x'03', 3, 'started', {NOW + 1}),
    (x'06', 99, 'succeeded', {NOW});
INSERT INTO batch (id, parent, total, pending, failed, committed, complete, success, open_children, unsuccessful_children) VALUES
    (10, NULL, 3, 1, 1, 1, 1, 1, 1, 2), (20, 10, 1, 0, 0, 1, 2, 0, 0, 0), (30, 10, 1, 0, 1, 1, 3, 1, 0, 0),
    (40, 10, 0, 0, 0, 1, 3, 3, 0, 0);
INSERT INTO slot VALUES
    ('slow', {NOW - 10}, 51, 1, 'a'), ('slow', {NOW - 20}, 53, 9, 'a'), ('slow', {NOW - 40_000}, 52, 2, 'a'),
    ('each', {NOW - 20}, 54, 3, 'a'), ('each', {NOW - 20}, 55, 4, 'b');
INSERT INTO cron (group_name, name, expression, paused, next_at, last_slot_at, last_fired_at, job) VALUES
    ('g', 'second * * * * * *', '', 0, {NOW + 1_000}, {NOW}, {NOW + 7}, x''),
    ('g', 'rare */5 * * * *', '', 0, {NOW + 200_000}, {NOW - 100_000}, {NOW - 80_000}, x'');
"""

FAULTS = {
    "a lock that no job can have": [
        "DELETE FROM job WHERE id = 2",
        "UPDATE job SET state = 50, hooks = 0 WHERE id = 1",
    ],
    "a lock until the start of a job that has been started": ["UPDATE job SET dequeued_at = 5 WHERE id = 3"],
    "a job without the lock of its key": [
        "DELETE FROM unique_lock WHERE job_id = 1",
        "DELETE FROM unique_lock WHERE job_id = 3",
        "UPDATE job SET unique_digest = x'01' WHERE id = 4; UPDATE job SET dequeued_at = NULL WHERE id = 4",
    ],
    "pending is not what its members say": [
        "UPDATE batch SET pending = 2 WHERE id = 10",
        "DELETE FROM job WHERE id = 11",
    ],
    "failed is not what its members say": [
        "UPDATE batch SET failed = 0 WHERE id = 10",
        "UPDATE job SET state = 50 WHERE id = 12",
    ],
    "more jobs pending and failed than there are": ["UPDATE batch SET total = 1 WHERE id = 10"],
    "a callback of no batch": ["UPDATE job SET batch = 77 WHERE id = 21"],
    "a callback that is due and not enqueued": [
        "UPDATE batch SET complete = 1 WHERE id = 20; DELETE FROM job WHERE id = 21",
        "UPDATE batch SET success = 1 WHERE id = 40",
    ],
    "a callback enqueued too early": [
        "UPDATE batch SET complete = 3 WHERE id = 10",
        "UPDATE batch SET success = 3 WHERE id = 30",
    ],
    "not one job for an enqueued callback": [
        "DELETE FROM job WHERE id = 21",
        "UPDATE job SET hooks = 64 WHERE id = 21",
    ],
    "open children are not what they say": ["UPDATE batch SET open_children = 2 WHERE id = 10"],
    "unsuccessful children are not what they say": ["UPDATE batch SET unsuccessful_children = 1 WHERE id = 10"],
    "a limited job in flight without a slot": [
        "DELETE FROM slot WHERE job_id = 51",
        "UPDATE slot SET token = 8 WHERE job_id = 54",
    ],
    "more slots in use than there are": [
        f"UPDATE slot SET taken_at = {NOW - 39_999} WHERE job_id = 52",
        "UPDATE job SET state = 40, hold_token = 9 WHERE id = 53",
    ],
    "more slots of one worker in use than it has": ["UPDATE slot SET worker = 'a' WHERE job_id = 55"],
    "a long payload of no job": ["INSERT INTO payload VALUES (77, 0, x'00')"],
    "a slot of an entry twice": [f"UPDATE job SET id = {NOW + 999} << 20 WHERE id = {NOW - 1_000} << 20"],
    "a job for a slot that the entry does not know": [
        f"UPDATE cron SET last_slot_at = {NOW - 1_000}, last_fired_at = NULL WHERE name LIKE 'second%'"
    ],
    "an entry that has fired and no job": ["DELETE FROM job WHERE type = 'rare'"],
    "an entry that goes back": [f"UPDATE cron SET next_at = {NOW - 100_000} WHERE name LIKE 'rare%'"],
    "a job for a slot that was missed for too long": [
        f"UPDATE job SET id = {NOW - 10_000} << 20 WHERE type = 'rare'"
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store."""
    folder = tmp_path_factory.mktemp("schema")
    open_sqlite(folder).close()
    return folder / "anew.db"


def broken(schema: Path, folder: Path, fault: str) -> list[str]:
    (folder / "anew.db").write_bytes(schema.read_bytes())
    with closing(sqlite3.connect(folder / "anew.db")) as store:
        store.executescript(GOOD + fault)
    return [text.partition(":")[0] for text in amiss(folder, NOW, LIMITS, ENTRIES)]


def test_a_store_in_which_all_fits_is_accepted(schema: Path, tmp_path: Path) -> None:
    assert broken(schema, tmp_path, "") == []


@pytest.mark.parametrize(("rule", "fault"), [(rule, fault) for rule in FAULTS for fault in FAULTS[rule]])
def test_reliability_59_a_planted_fault_is_named_by_its_rule(
    schema: Path, tmp_path: Path, rule: str, fault: str
) -> None:
    assert rule in broken(schema, tmp_path, fault)


def test_each_rule_has_a_fault() -> None:
    assert FAULTS.keys() == RULES.keys()
