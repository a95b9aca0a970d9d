-- State codes: 0 scheduled, 1 retrying, 2 ready, 3 in_flight, 4 completed, 5 dead, 6 cancelled.
-- Waiting states are < 2 and ended ones > 3, so that partial indexes can name them by a comparison.
CREATE TABLE job (
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    type TEXT NOT NULL,
    priority INTEGER NOT NULL,
    state INTEGER NOT NULL,
    ready_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    interruptions INTEGER NOT NULL DEFAULT 0,
    lease_token INTEGER,
    lease_owner INTEGER,
    lease_deadline INTEGER,
    dequeued_at INTEGER,
    failed_at INTEGER,
    first_failed_at INTEGER,
    completed_at INTEGER,
    purge_at INTEGER,
    retry_limit INTEGER,
    policy BLOB,
    retention BLOB,
    phase REAL,
    carry REAL,
    -- A payload above the inline limit lives in its own table, so that a change of state does not rewrite it.
    payload_bytes INTEGER,
    -- Last, so that reading the other columns never walks its overflow pages.
    payload BLOB
) STRICT;

-- Next in line, in one queue.
CREATE INDEX job_ready ON job (queue, priority, id) WHERE state = 2;
-- Next to become due.
CREATE INDEX job_due ON job (ready_at) WHERE state < 2;
-- Next lease to lapse; also finds all that is in flight after a crash.
CREATE INDEX job_lease ON job (lease_deadline) WHERE state = 3;
-- Next whose retention ends.
CREATE INDEX job_purge ON job (purge_at) WHERE state > 3;

-- A long payload in parts, so that it can be written over several transactions.
CREATE TABLE payload (
    job_id INTEGER NOT NULL,
    part INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (job_id, part)
) STRICT, WITHOUT ROWID;

-- Jobs of which parts are written and which are not there yet themselves.
CREATE TABLE staged (job_id INTEGER PRIMARY KEY) STRICT;

CREATE TABLE attempt (
    id INTEGER PRIMARY KEY,
    job_id INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    error_type TEXT,
    message TEXT NOT NULL,
    backtrace TEXT,
    dequeued_at INTEGER NOT NULL,
    failed_at INTEGER NOT NULL,
    decision BLOB
) STRICT;

CREATE INDEX attempt_job ON attempt (job_id, attempt);

-- Jobs by queue and state, kept in step inside each transaction, so that no start and no question has to count.
CREATE TABLE counter (
    queue TEXT PRIMARY KEY,
    scheduled INTEGER NOT NULL,
    retrying INTEGER NOT NULL,
    ready INTEGER NOT NULL,
    in_flight INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    cancelled INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;
