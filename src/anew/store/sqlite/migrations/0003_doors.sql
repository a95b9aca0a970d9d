-- Jobs that come through other doors than HTTP: their own ids, what must be given back unchanged, reservations.

-- The id that a producer gave; not unique.
ALTER TABLE job ADD COLUMN jid TEXT;
-- What the door that it came through must give back unchanged, in that door's own form.
ALTER TABLE job ADD COLUMN meta BLOB;
-- For how long a reservation of it lasts; NULL where the default does.
ALTER TABLE job ADD COLUMN reserve_ms INTEGER;

-- A job in flight by its producer's id: settling names nothing else. Jobs that wait are not in it: ids are random, so each would
-- touch a page of its own.
CREATE INDEX job_jid ON job (jid) WHERE state = 40 AND jid IS NOT NULL;

-- Queues that stay listed when they have no job, and queues that hand out nothing.
ALTER TABLE queue ADD COLUMN listed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;

-- Attempts that have ended, by day (UTC, days since the Unix epoch): all, and those that failed.
CREATE TABLE day (
    day INTEGER PRIMARY KEY,
    processed INTEGER NOT NULL,
    failed INTEGER NOT NULL
) STRICT;

-- What a job is tied to: bits, 0 for nearly all jobs, so that nothing below is looked at for them.
ALTER TABLE job ADD COLUMN hooks INTEGER NOT NULL DEFAULT 0;
-- It is not started later than this.
ALTER TABLE job ADD COLUMN expires_at INTEGER;
-- The batch that it is a member or a callback of.
ALTER TABLE job ADD COLUMN batch INTEGER;
-- Jobs that are not to be stored again under the same id, in whatever state (`Hook.ONCE`); others touch this index nowhere.
CREATE INDEX job_once ON job (jid) WHERE hooks & 128;
-- Its unique key and for how long it holds it; whether it holds it now is said by `unique_lock`.
ALTER TABLE job ADD COLUMN unique_digest BLOB;
ALTER TABLE job ADD COLUMN unique_scope TEXT;

-- Keys that are held. A lock with an end outlives its job.
CREATE TABLE unique_lock (
    digest BLOB PRIMARY KEY,
    job_id INTEGER NOT NULL,
    scope TEXT NOT NULL,
    ends_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX unique_lock_job ON unique_lock (job_id);
CREATE INDEX unique_lock_end ON unique_lock (ends_at) WHERE ends_at IS NOT NULL;

-- Batches: counters, never lists of jobs. Callbacks wait as the jobs that they will be, as JSON.
CREATE TABLE batch (
    id INTEGER PRIMARY KEY,
    parent INTEGER,
    total INTEGER NOT NULL,
    pending INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    committed INTEGER NOT NULL,
    complete INTEGER NOT NULL,
    success INTEGER NOT NULL,
    open_children INTEGER NOT NULL,
    unsuccessful_children INTEGER NOT NULL,
    purge_at INTEGER,
    meta BLOB,
    on_complete BLOB,
    on_success BLOB
) STRICT;
CREATE INDEX batch_purge ON batch (purge_at) WHERE purge_at IS NOT NULL;

-- What is known of jobs' progress, by the id that they are known by; it outlives the job.
CREATE TABLE progress (
    jid TEXT PRIMARY KEY,
    job_id INTEGER,
    word TEXT NOT NULL,
    percent INTEGER,
    description TEXT,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX progress_age ON progress (updated_at);
