-- Limits of queues, and entries that enqueue jobs by the calendar.

-- Who holds a slot of a queue that has a limit: a worker's id, or "" for one without; NULL where there is no slot. The limits
-- themselves stand in `meta`.
ALTER TABLE job ADD COLUMN hold_worker TEXT;
-- The slots of a queue, the one that was taken first before the others.
CREATE INDEX job_slot ON job (queue, dequeued_at, hold_worker) WHERE state = 40 AND hold_worker IS NOT NULL;

CREATE TABLE cron (
    group_name TEXT NOT NULL,
    name TEXT NOT NULL,
    expression TEXT NOT NULL,
    timezone TEXT,
    paused INTEGER NOT NULL,
    paused_at INTEGER,
    resumed_at INTEGER,
    patience_ms INTEGER,
    next_at INTEGER,
    last_slot_at INTEGER,
    last_fired_at INTEGER,
    -- What it enqueues, as JSON.
    job BLOB NOT NULL,
    PRIMARY KEY (group_name, name)
) STRICT, WITHOUT ROWID;
-- Next slot of all.
CREATE INDEX cron_next ON cron (next_at) WHERE next_at IS NOT NULL;
-- Groups of entries that are paused as a whole.
CREATE TABLE cron_paused (group_name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
