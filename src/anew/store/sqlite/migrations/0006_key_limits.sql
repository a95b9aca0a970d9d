-- Limits of keys. A new column without an index changes no row, so this takes no longer where a million jobs are stored.

-- Of the jobs of a queue, those that are ready and stand in no line (state 32), as their key lets no more of them start.
ALTER TABLE queue ADD COLUMN blocked INTEGER NOT NULL DEFAULT 0;

-- One row a key: its bounds as JSON, its bucket, and when it is to be looked at again by itself.
CREATE TABLE limit_key (
    name TEXT PRIMARY KEY,
    bounds BLOB NOT NULL,
    debt INTEGER NOT NULL,
    at INTEGER NOT NULL,
    look_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX limit_key_look ON limit_key (look_at) WHERE look_at IS NOT NULL;

-- One row a job of a key, as long as the job is stored. What each standing means is said in `jobs/key_limits.py`. Queue and
-- priority are those of its job while that is blocked or unblocked.
CREATE TABLE limited (
    job_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    standing INTEGER NOT NULL,
    queue TEXT,
    priority INTEGER
) STRICT;
CREATE INDEX limited_name ON limited (name, standing, queue, priority, job_id);
