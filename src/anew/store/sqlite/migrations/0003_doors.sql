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
