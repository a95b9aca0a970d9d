-- Statements that only PostgreSQL has, or has in its own words.

-- name: failing
-- Of so many jobs that are dead and so many that will be tried again: what they last failed with, the most frequent first.
WITH failing (id) AS (
    SELECT id FROM (SELECT id, state FROM job WHERE state > 40 ORDER BY purge_at LIMIT ?1) AS a WHERE state = @DEAD
    UNION SELECT id FROM (SELECT id, state FROM job WHERE state > 40 ORDER BY purge_at DESC NULLS LAST LIMIT ?1) AS b WHERE state = @DEAD
    UNION SELECT id FROM (SELECT id, state FROM job WHERE state < @READY AND near_at IS NULL ORDER BY ready_at LIMIT ?1) AS c
        WHERE state = @RETRYING
    UNION SELECT id FROM (SELECT id, state FROM job WHERE near_at IS NOT NULL ORDER BY near_at LIMIT ?1) AS d
        WHERE state = @RETRYING
)
SELECT @bytes(job.type), @bytes(a.error_type), count(*) FILTER (WHERE job.state = @DEAD),
    count(*) FILTER (WHERE job.state = @RETRYING), max(a.failed_at),
    (array_agg(@bytes(substr(a.message, 1, 1000)) ORDER BY a.failed_at DESC))[1]
FROM failing JOIN job ON job.id = failing.id JOIN attempt AS a ON a.id = (SELECT b.id FROM attempt AS b
    WHERE b.job_id = job.id AND b.attempt <= job.attempts + 1 ORDER BY b.attempt DESC, b.id DESC LIMIT 1)
GROUP BY 1, 2 ORDER BY count(*) DESC, 1, 2 LIMIT ?2;

-- name: show_alive
-- This process's session lives as long as the connection that has this lock; whether it could be taken.
SELECT pg_try_advisory_lock('turn'::regclass::oid::int, ?::int);

-- name: session_stands
-- Whether nobody has taken this process for dead.
SELECT 1 FROM session WHERE id = ? AND pid = ? AND started_at = ?;

-- name: forget_commits
-- Who wrote last is remembered of so many sessions.
DELETE FROM wrote WHERE session < ?;

-- name: committed
-- The last version that a session has written, as the next one to write has noted it.
SELECT version FROM wrote WHERE session = ?;

-- name: begun
-- The jobs that a process had begun with.
SELECT job_id FROM begun WHERE session = ?;

-- name: is_alive
-- Whether somebody has that lock.
SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid = 'turn'::regclass::oid AND objid = ?::oid;

-- name: holds_turn
-- Who has the turn to write, and does not wait for it.
SELECT a.pid, coalesce(host(a.client_addr), 'this machine'), a.application_name FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.relation = 'turn'::regclass AND l.mode = 'RowShareLock' AND l.granted AND a.wait_event_type IS DISTINCT FROM 'Lock'
    AND a.pid <> pg_backend_pid() LIMIT 1;

-- name: outbox_rows
-- The first jobs that somebody's own transactions have left.
SELECT id, job FROM outbox WHERE refused IS NULL ORDER BY id LIMIT ?;

-- name: drop_outbox_rows
-- Those that are jobs now.
DELETE FROM outbox WHERE id IN (@marks);

-- name: refuse_outbox_row
-- One that can be no job.
UPDATE outbox SET refused = ? WHERE id = ?;

-- name: damaged
-- Jobs of which something cannot be read and that have not been set aside.
SELECT id FROM job WHERE (
    state NOT IN (@STATES) OR (payload IS NULL AND payload_bytes IS NULL)
    OR payload_bytes <> coalesce((SELECT sum(length(data)) FROM payload WHERE job_id = job.id), 0)
) AND id NOT IN (SELECT job_id FROM attempt WHERE outcome = 'corrupt');

-- name: extent
-- For the doctor: how many jobs there are, and the bytes of all tables.
SELECT (SELECT count(*) FROM job), (SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class
    WHERE relnamespace = 'anew'::regnamespace AND relkind = 'r');

-- name: alive_sessions
-- For the doctor: the sessions whose processes have the locks that show that they live.
SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND classid = 'turn'::regclass::oid;

-- name: count_refused
-- For the doctor: rows of the outbox that can be no jobs.
SELECT count(*) FROM outbox WHERE refused IS NOT NULL;
