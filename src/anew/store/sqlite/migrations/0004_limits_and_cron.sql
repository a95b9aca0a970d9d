-- Limits of queues.

-- Who holds a slot of a queue that has a limit: a worker's id, or "" for one without; NULL where there is no slot. The limits
-- themselves stand in `meta`.
ALTER TABLE job ADD COLUMN hold_worker TEXT;
-- The slots of a queue, the one that was taken first before the others.
CREATE INDEX job_slot ON job (queue, dequeued_at, hold_worker) WHERE state = 40 AND hold_worker IS NOT NULL;
