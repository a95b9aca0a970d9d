-- One file for many processes, and room for what comes.
--
-- State codes: 10 scheduled, 20 retrying, 30 ready, 40 in_flight, 50 completed, 60 dead, 70 cancelled. They leave room
-- between them. Waiting states are < 30 and ended ones > 40, so that partial indexes can name them by a comparison.
DROP INDEX job_ready;
DROP INDEX job_due;
DROP INDEX job_lease;
DROP INDEX job_purge;

UPDATE job SET state = 10 * (state + 1);

-- The hold on an attempt. Kinds: 10 stream, 20 reservation, 30 session. The owner is a row of `session`.
ALTER TABLE job RENAME COLUMN lease_token TO hold_token;
ALTER TABLE job RENAME COLUMN lease_owner TO hold_owner;
ALTER TABLE job RENAME COLUMN lease_deadline TO hold_deadline;
ALTER TABLE job ADD COLUMN hold_kind INTEGER;
-- CRC-32 of the payload; NULL where the job is older than this column.
ALTER TABLE job ADD COLUMN payload_crc INTEGER;
-- Rows of `attempt` that this job has, and the bytes of their texts.
ALTER TABLE job ADD COLUMN records INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN record_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE job SET (records, record_bytes) = (
    SELECT count(*), coalesce(sum(octet_length(message) + coalesce(octet_length(backtrace), 0)), 0)
    FROM attempt WHERE job_id = job.id
) WHERE failed_at IS NOT NULL;
-- When a waiting job whose time is far is entered into the index of due times; NULL: it is there.
ALTER TABLE job ADD COLUMN near_at INTEGER;
-- What was in flight belonged to a server that has ended: its sessions had no rows.
UPDATE job SET hold_kind = 10, hold_owner = 0 WHERE state = 40;

-- Next in line, in one queue.
CREATE INDEX job_ready ON job (queue, priority, id) WHERE state = 30;
-- Next to become due. Jitter scatters the times of jobs that fail together, and each would change a page of its own here: so
-- those whose time is far stand in a coarse index first, side by side, and are entered here many at a time.
CREATE INDEX job_due ON job (ready_at) WHERE state < 30 AND near_at IS NULL;
CREATE INDEX job_far ON job (near_at) WHERE near_at IS NOT NULL;
-- Next hold to lapse; with owner and kind, so that the jobs of a session that is gone are found in the index alone.
CREATE INDEX job_hold ON job (hold_deadline, hold_owner, hold_kind) WHERE state = 40;
-- Next whose retention ends.
CREATE INDEX job_purge ON job (purge_at) WHERE state > 40;

-- What is derived by queue, kept in step by each commit: jobs by state, and the place of the first ready job. The heads' index
-- is the one index over all queues: an index over all ready jobs would cost each job two more writes.
CREATE TABLE queue (
    name TEXT PRIMARY KEY,
    scheduled INTEGER NOT NULL DEFAULT 0,
    retrying INTEGER NOT NULL DEFAULT 0,
    ready INTEGER NOT NULL DEFAULT 0,
    in_flight INTEGER NOT NULL DEFAULT 0,
    completed INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    head_priority INTEGER,
    head_id INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO queue (name, scheduled, retrying, ready, in_flight, completed, dead, cancelled)
SELECT queue, scheduled, retrying, ready, in_flight, completed, dead, cancelled FROM counter
WHERE scheduled <> 0 OR retrying <> 0 OR ready <> 0 OR in_flight <> 0 OR completed <> 0 OR dead <> 0 OR cancelled <> 0;
DROP TABLE counter;
WITH RECURSIVE names (name) AS (
    SELECT min(queue) FROM job WHERE state = 30
    UNION ALL
    SELECT (SELECT min(queue) FROM job WHERE state = 30 AND queue > names.name) FROM names WHERE name IS NOT NULL
)
INSERT INTO queue (name, head_priority, head_id)
SELECT name,
    (SELECT priority FROM job WHERE queue = names.name AND state = 30 ORDER BY priority, id LIMIT 1),
    (SELECT id FROM job WHERE queue = names.name AND state = 30 ORDER BY priority, id LIMIT 1)
FROM names WHERE name IS NOT NULL
ON CONFLICT (name) DO UPDATE SET head_priority = excluded.head_priority, head_id = excluded.head_id;
CREATE INDEX queue_first ON queue (head_priority, head_id) WHERE head_id IS NOT NULL;

-- Attempts whose records were dropped because a job had too many, counted by outcome and error type.
CREATE TABLE attempt_count (
    job_id INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    error_type TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    PRIMARY KEY (job_id, outcome, error_type)
) STRICT, WITHOUT ROWID;

-- Jobs that are deleted while many records or long payloads of theirs are still to be removed, some at a time.
CREATE TABLE leftover (job_id INTEGER PRIMARY KEY) STRICT;

-- Processes that may hold jobs. Each also keeps a file locked; a row whose file is not locked belongs to a dead process.
CREATE TABLE session (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    pid INTEGER NOT NULL,
    started_at INTEGER NOT NULL
) STRICT;

-- Payloads that are written ahead belong to a session too: when it has died, they are removed.
ALTER TABLE staged ADD COLUMN owner INTEGER NOT NULL DEFAULT 0;

-- When each periodic duty was last done, whoever did it.
CREATE TABLE duty (
    name TEXT PRIMARY KEY,
    done_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
