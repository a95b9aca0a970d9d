-- The rows of queues stand in the order in which they were made. By their names, queues that are busy at the same time stand far
-- from each other where there are many, and each commit would write a page for each of them.
CREATE TABLE queue_by_age (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    scheduled INTEGER NOT NULL DEFAULT 0,
    retrying INTEGER NOT NULL DEFAULT 0,
    ready INTEGER NOT NULL DEFAULT 0,
    in_flight INTEGER NOT NULL DEFAULT 0,
    completed INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    -- Ready jobs that stand in no line.
    blocked INTEGER NOT NULL DEFAULT 0,
    -- It stays listed when it has no job; it hands out nothing.
    listed INTEGER NOT NULL DEFAULT 0,
    paused INTEGER NOT NULL DEFAULT 0,
    -- The place of its first ready job.
    head_priority INTEGER,
    head_id INTEGER
) STRICT;
INSERT INTO queue_by_age
    (name, scheduled, retrying, ready, in_flight, completed, dead, cancelled, blocked, listed, paused, head_priority, head_id)
SELECT name, scheduled, retrying, ready, in_flight, completed, dead, cancelled, blocked, listed, paused, head_priority, head_id
FROM queue;
DROP TABLE queue;
ALTER TABLE queue_by_age RENAME TO queue;
CREATE UNIQUE INDEX queue_name ON queue (name);
-- The heads of all lines, with the names of their queues.
CREATE INDEX queue_first ON queue (head_priority, head_id, name) WHERE head_id IS NOT NULL;
