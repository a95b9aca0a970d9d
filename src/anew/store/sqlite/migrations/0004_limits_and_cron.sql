-- Limits of queues, and entries that enqueue jobs by the calendar.

-- Slots of queues that have a limit; the limits themselves stand in `meta`. A slot is in use while its job is in flight, in its
-- queue and under its token; other rows are left over. The worker is "" where it has no id. It is a table of its own because an
-- index of jobs would cost those of all queues some writes.
CREATE TABLE slot (
    queue TEXT NOT NULL,
    taken_at INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    token INTEGER,
    worker TEXT NOT NULL,
    PRIMARY KEY (queue, taken_at, job_id)
) STRICT, WITHOUT ROWID;

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
