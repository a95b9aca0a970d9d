-- Whoever has lost its connection while a COMMIT was under way finds out whether it lasts, and whoever was taken for dead that it was.

-- The session that has written the present version, and how many sessions were taken for dead so far.
ALTER TABLE turn ADD COLUMN writer BIGINT NOT NULL DEFAULT 0, ADD COLUMN buried BIGINT NOT NULL DEFAULT 0;

-- The last version that each session has written, but for the one that wrote last. The number of a transaction would not tell what became
-- of it: after a crash PostgreSQL may give the same number once more.
CREATE TABLE wrote (session BIGINT PRIMARY KEY, version BIGINT NOT NULL)
    WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);

-- Which job each slot of a process runs; 0: none. A crash of the server empties it, and then all that a dead process held is suspected.
CREATE UNLOGGED TABLE begun (
    session BIGINT NOT NULL REFERENCES session ON DELETE CASCADE,
    slot BIGINT NOT NULL,
    job_id BIGINT NOT NULL,
    PRIMARY KEY (session, slot)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
