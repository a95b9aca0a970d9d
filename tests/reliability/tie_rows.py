"""Holds the rows of a store against each other: locks against jobs, counters of batches against members, slots, cron entries.

Each rule is a query that finds what breaks it. They hold in every committed state, so they may be asked of a server that works, of
one that has just started, and of the files that a killed one has left. Nothing of the server's code is used. What the rules need
of the load: a job with a unique key is kept when it dies, and so is a member of a batch; a job of type ``brief`` has a lock
that ends soon; nobody joins a committed batch; the jobs of cron entries stay where they are.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import apsw

FILES = ("anew.db", "anew.db-wal")
SHOWN = 3
PATIENCE_MS = 60_000
"""How late a cron entry of Faktory's tables may fire."""
STEP_BACK_MS = 5_000
"""How far the clock of a run is set back at most; ids go on from the latest time that was seen."""


class Limit(NamedTuple):
    """A throttle: most slots of a queue, or most of one worker; 0 means none."""

    queue: str
    concurrency: int
    per_worker: int
    timeout_ms: int


class Entry(NamedTuple):
    """A cron entry, told by the type of its jobs; it has a slot at each multiple of `every_ms`."""

    type: str
    every_ms: int


_PREPARE = """
CREATE TEMP TABLE throttle (queue TEXT, concurrency INTEGER, per_worker INTEGER, timeout_ms INTEGER);
CREATE TEMP TABLE entry (type TEXT, every_ms INTEGER);
CREATE TEMP VIEW used AS
    SELECT slot.queue, slot.worker, slot.job_id
    FROM slot JOIN job ON job.id = slot.job_id JOIN throttle AS t ON t.queue = slot.queue
    WHERE job.state = 40 AND job.hold_token IS slot.token AND slot.taken_at > (SELECT at FROM instant) - t.timeout_ms;
CREATE TEMP VIEW member AS
    SELECT batch, sum(state < 50 AND hooks & 16 = 0) AS pending, sum(state <> 50 AND hooks & 16 <> 0) AS failed
    FROM job WHERE hooks & 8 GROUP BY batch;
CREATE TEMP VIEW callback AS
    SELECT id, 32 AS bit, complete AS state FROM batch UNION ALL SELECT id, 64, success FROM batch;
CREATE TEMP VIEW level AS
    SELECT id, parent, CASE
        WHEN NOT committed OR pending > 0 OR open_children > 0 OR complete IN (1, 2) THEN 0
        WHEN failed > 0 OR unsuccessful_children > 0 THEN 1
        WHEN success IN (1, 2) THEN 0 ELSE 2 END AS level
    FROM batch;
CREATE TEMP VIEW tick AS
    SELECT job.type, job.id, job.id >> 20 AS at, entry.every_ms FROM job JOIN entry ON entry.type = job.type;
"""

RULES = {
    "a lock that no job can have": """
        SELECT l.job_id FROM unique_lock AS l LEFT JOIN job AS j ON j.id = l.job_id, instant
        WHERE (l.ends_at IS NULL OR l.ends_at > instant.at) AND (j.id IS NULL OR j.state IN (50, 70)
            OR j.unique_digest IS NOT l.digest OR j.unique_scope IS NOT l.scope)""",
    "a lock until the start of a job that has been started": """
        SELECT j.id FROM unique_lock AS l JOIN job AS j ON j.id = l.job_id
        WHERE l.scope = 'started' AND j.dequeued_at IS NOT NULL""",
    "a job without the lock of its key": """
        SELECT j.id FROM job AS j LEFT JOIN unique_lock AS l ON l.digest = j.unique_digest
        WHERE j.hooks & 1 AND j.type <> 'brief' AND l.job_id IS NOT j.id
            AND (j.unique_scope = 'succeeded' OR (j.unique_scope = 'started' AND j.dequeued_at IS NULL))""",
    "pending is not what its members say": """
        SELECT b.id FROM batch AS b LEFT JOIN member AS m ON m.batch = b.id WHERE b.pending <> coalesce(m.pending, 0)""",
    "failed is not what its members say": """
        SELECT b.id FROM batch AS b LEFT JOIN member AS m ON m.batch = b.id WHERE b.failed <> coalesce(m.failed, 0)""",
    "more jobs pending and failed than there are": "SELECT id FROM batch WHERE total < pending + failed",
    "a callback of no batch": """
        SELECT id FROM job WHERE hooks & 96 AND state < 50 AND batch NOT IN (SELECT id FROM batch)""",
    "a callback that is due and not enqueued": """
        SELECT id FROM batch WHERE committed AND pending = 0 AND open_children = 0 AND (complete = 1
            OR (success = 1 AND complete IN (0, 3) AND failed = 0 AND unsuccessful_children = 0))""",
    "a callback enqueued too early": """
        SELECT id FROM batch WHERE (complete > 1 OR success > 1) AND (NOT committed OR pending > 0
            OR (success > 1 AND (failed > 0 OR unsuccessful_children > 0 OR complete IN (1, 2))))""",
    "not one job for an enqueued callback": """
        SELECT c.id FROM callback AS c
        WHERE (SELECT count(*) FROM job WHERE batch = c.id AND hooks & c.bit) <> (c.state = 2)""",
    "open children are not what they say": """
        SELECT b.id FROM batch AS b WHERE b.open_children <> (SELECT count(*) FROM level WHERE parent = b.id AND level = 0)""",
    "unsuccessful children are not what they say": """
        SELECT b.id FROM batch AS b
        WHERE b.unsuccessful_children <> (SELECT count(*) FROM level WHERE parent = b.id AND level < 2)""",
    "a limited job in flight without a slot": """
        SELECT j.id FROM job AS j JOIN throttle AS t ON t.queue = j.queue, instant
        WHERE j.state = 40 AND j.dequeued_at > instant.at - t.timeout_ms AND NOT EXISTS (
            SELECT 1 FROM slot WHERE slot.queue = j.queue AND slot.job_id = j.id AND slot.token IS j.hold_token)""",
    "more slots in use than there are": """
        SELECT t.queue FROM throttle AS t
        WHERE t.concurrency AND t.concurrency < (SELECT count(*) FROM used WHERE queue = t.queue)""",
    "more slots of one worker in use than it has": """
        SELECT t.queue FROM throttle AS t JOIN used ON used.queue = t.queue
        WHERE t.per_worker GROUP BY t.queue, used.worker HAVING count(*) > t.per_worker""",
    "a long payload of no job": """
        SELECT job_id FROM payload WHERE job_id NOT IN (SELECT id FROM job) AND job_id NOT IN (SELECT job_id FROM staged)
            AND job_id NOT IN (SELECT job_id FROM leftover)""",
    "a slot of an entry twice": """
        SELECT max(id) FROM tick GROUP BY type, at / every_ms HAVING count(*) > 1""",
    "a job for a slot that the entry does not know": """
        SELECT max(tick.id) FROM tick JOIN cron ON cron.name LIKE tick.type || ' %' GROUP BY tick.type
        HAVING max(tick.at / tick.every_ms * tick.every_ms) > coalesce(cron.last_slot_at, 0)""",
    "an entry that has fired and no job": """
        SELECT cron.name FROM cron JOIN entry ON cron.name LIKE entry.type || ' %' WHERE cron.last_fired_at IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM tick WHERE tick.type = entry.type AND tick.at >= cron.last_fired_at)""",
    "an entry that goes back": "SELECT name FROM cron WHERE next_at <= last_slot_at",
    "a job for a slot that was missed for too long": f"""
        SELECT id FROM tick WHERE at % every_ms > {PATIENCE_MS + STEP_BACK_MS}""",
}


def amiss(folder: Path, now: int, limits: Iterable[Limit] = (), entries: Iterable[Entry] = ()) -> list[str]:
    """Name what does not fit in the store of a server, whether it runs or not; nothing in the folder is changed.

    Args:
        folder: Its data directory.
        now: Epoch ms by the server's clock.
        limits: Of its queues.
        entries: Those whose jobs nobody takes.
    """
    with contextlib.closing(apsw.Connection(str(folder / FILES[0]), apsw.SQLITE_OPEN_READONLY)) as store:
        store.execute("CREATE TEMP TABLE instant (at INTEGER)")
        store.execute(_PREPARE)
        store.execute("INSERT INTO instant VALUES (?)", (now,))
        store.executemany("INSERT INTO throttle VALUES (?, ?, ?, ?)", limits)
        store.executemany("INSERT INTO entry VALUES (?, ?)", entries)
        store.execute("BEGIN")  # one state for all rules
        return [text for rule, query in RULES.items() for text in _broken(store, rule, query)]


def _broken(store: apsw.Connection, rule: str, query: str) -> list[str]:
    found = [row[0] for row in store.execute(query)]
    return [f"{rule}: {found[:SHOWN]}"] if found else []


def copied(folder: Path, to: Path) -> Path:
    """Copy what a killed server has left, so that a look at it recovers nothing for the next one."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    for name in FILES:
        if (folder / name).exists():
            shutil.copyfile(folder / name, to / name)
    return to
