-- Statements that only PostgreSQL has, or has in its own words.

-- name: failing
-- Of so many jobs that are dead and so many that will be tried again: what they last failed with, the most frequent first.
WITH failing (id) AS (
    SELECT id FROM (SELECT id, state FROM job WHERE state > 40 ORDER BY purge_at LIMIT ?1) AS a WHERE state = @DEAD
    UNION SELECT id FROM (SELECT id, state FROM job WHERE state > 40 AND purge_at IS NOT NULL ORDER BY purge_at DESC LIMIT ?1) AS b
        WHERE state = @DEAD
    UNION SELECT id FROM (SELECT id, state FROM job WHERE state > 40 AND purge_at IS NULL LIMIT ?1) AS k WHERE state = @DEAD
    UNION SELECT id FROM (SELECT id, state FROM job WHERE state < @READY AND near_at IS NULL ORDER BY ready_at LIMIT ?1) AS c
        WHERE state = @RETRYING
    UNION SELECT id FROM (SELECT id, state FROM job WHERE near_at IS NOT NULL ORDER BY near_at LIMIT ?1) AS d
        WHERE state = @RETRYING
)
SELECT @bytes(job.type), @bytes(a.error_type), count(*) FILTER (WHERE job.state = @DEAD),
    count(*) FILTER (WHERE job.state = @RETRYING), max(a.failed_at),
    (array_agg(@bytes(substr(a.message, 1, 1000)) ORDER BY a.failed_at DESC))[1]
FROM failing @then(job ON job.id = failing.id) CROSS JOIN LATERAL (SELECT * FROM attempt AS b
    WHERE b.job_id = job.id AND b.attempt <= job.attempts + 1 ORDER BY b.attempt DESC, b.id DESC LIMIT 1) AS a
GROUP BY 1, 2 ORDER BY count(*) DESC, 1, 2 LIMIT ?2;

-- name: first_heads
-- The heads that come first of all, from a place on; only the index is read.
SELECT priority, id, name FROM queue_head WHERE (priority, id) >= (?, ?) ORDER BY priority, id LIMIT ?;

-- name: heads_behind
-- Those that come behind one of them.
SELECT priority, id, @bytes(name) FROM queue_head WHERE (priority, id) > (?, ?) ORDER BY priority, id LIMIT ?;

-- name: read_queues
-- What is derived of some queues. Here and in what follows the last version of a row is the one that stands, see 0008_versions.sql.
SELECT name, @counters, listed, paused, head_priority, head_id FROM (VALUES @rows(text)) AS v @last_queue;

-- name: write_counters
-- Queues whose numbers of jobs have changed and whose heads have not.
WITH v AS (VALUES @rows(text, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint)),
last AS (SELECT v.*, q.at FROM v @last_queue),
old AS (UPDATE queue SET (@counters) = (column2, column3, column4, column5, column6, column7, column8, column9), id = DEFAULT
    FROM last WHERE queue.ctid = last.at RETURNING name)
INSERT INTO queue (name, @counters) SELECT * FROM v WHERE column1 NOT IN (SELECT name FROM old);

-- name: write_queues
-- Queues whose heads have changed.
WITH v AS (VALUES @rows(text, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint)),
last AS (SELECT v.*, q.at FROM v @last_queue),
old AS (UPDATE queue SET (@counters, head_priority, head_id, id)
    = (column2, column3, column4, column5, column6, column7, column8, column9, column10, column11, DEFAULT)
    FROM last WHERE queue.ctid = last.at RETURNING name)
INSERT INTO queue (name, @counters, head_priority, head_id) SELECT * FROM v WHERE column1 NOT IN (SELECT name FROM old);

-- name: write_flags
-- Queues that are listed or paused now, or no longer.
WITH v AS (VALUES @rows(text, bigint, bigint)),
last AS (SELECT v.*, q.at FROM v @last_queue),
old AS (UPDATE queue SET listed = column2, paused = column3, id = DEFAULT FROM last WHERE queue.ctid = last.at RETURNING name)
INSERT INTO queue (name, listed, paused) SELECT * FROM v WHERE column1 NOT IN (SELECT name FROM old);

-- name: drop_queues
-- Queues that have no job any more.
DELETE FROM queue WHERE ctid = ANY(ARRAY(SELECT q.at FROM (VALUES @rows(text)) AS v @last_queue));

-- name: count_ended
-- Attempts that have ended on a day.
WITH old AS (UPDATE day SET processed = processed + ?2, failed = failed + ?3, id = DEFAULT
    WHERE ctid = (SELECT ctid FROM day WHERE day = ?1 ORDER BY id DESC LIMIT 1) RETURNING day)
INSERT INTO day (day, processed, failed) SELECT ?1::bigint, ?2::bigint, ?3::bigint WHERE NOT EXISTS (SELECT FROM old);

-- name: ready_behind
-- The next places of one queue's line behind one (priority, id); only the index is read, which PostgreSQL searches by pairs.
SELECT priority, id FROM job WHERE queue = ?4 AND state = @READY AND (priority, id) > (?1, ?2) ORDER BY priority, id LIMIT ?3;

-- name: ready_before
-- The same, before it, nearest first.
SELECT priority, id FROM job WHERE queue = ?4 AND state = @READY AND (priority, id) < (?1, ?2) ORDER BY priority DESC, id DESC LIMIT ?3;

-- name: scheduled_behind
-- Waiting jobs by their time, behind one place; of those whose time is far the first are looked at.
SELECT ready_at, id FROM (
    SELECT * FROM (SELECT ready_at, id FROM job WHERE state < @READY AND near_at IS NULL AND (ready_at, id) > (?1, ?2)
        ORDER BY ready_at, id LIMIT ?3) AS near
    UNION ALL SELECT ready_at, id FROM (SELECT ready_at, id FROM job WHERE near_at IS NOT NULL ORDER BY near_at LIMIT ?4) AS far
        WHERE (ready_at, id) > (?1, ?2)
) AS waiting ORDER BY ready_at, id LIMIT ?3;

-- name: scheduled_before
-- The same, before it, nearest first; of those whose time is far the last are looked at.
SELECT ready_at, id FROM (
    SELECT * FROM (SELECT ready_at, id FROM job WHERE state < @READY AND near_at IS NULL AND (ready_at, id) < (?1, ?2)
        ORDER BY ready_at DESC, id DESC LIMIT ?3) AS near
    UNION ALL SELECT ready_at, id FROM (SELECT ready_at, id FROM job WHERE near_at IS NOT NULL ORDER BY near_at DESC LIMIT ?4) AS far
        WHERE (ready_at, id) < (?1, ?2)
) AS waiting ORDER BY ready_at DESC, id DESC LIMIT ?3;

-- name: middle_attempts
-- As for all engines, but that the records are found by their job, whose index has not the order of ids.
SELECT id, outcome, coalesce(error_type, ''), octet_length(message) + coalesce(octet_length(backtrace), 0)
FROM attempt WHERE job_id = ?1
    AND (?2 = 0 OR id > (SELECT id FROM attempt WHERE job_id = ?1 ORDER BY id + 0 LIMIT 1 OFFSET ?2 - 1))
    AND id < (SELECT id FROM attempt WHERE job_id = ?1 ORDER BY id + 0 DESC LIMIT 1 OFFSET ?3 - 1)
ORDER BY id + 0 LIMIT ?4;

-- name: purge_publications
-- By their places in the table: their keys are pairs.
DELETE FROM publication WHERE ctid = ANY(ARRAY(SELECT ctid FROM publication WHERE purge_at <= ? ORDER BY purge_at LIMIT ?)) RETURNING purge_at;

-- name: drop_begun_attempts
-- Attempts that have not begun after all.
DELETE FROM delivery_attempt WHERE ctid = ANY(ARRAY(SELECT a.ctid FROM (VALUES @rows(bigint, bigint)) AS v
    CROSS JOIN LATERAL (SELECT ctid FROM delivery_attempt WHERE delivery = v.column1 AND number = v.column2 OFFSET 0) AS a));

-- name: begun_attempts
-- Those of some attempts that are there.
SELECT a.delivery, a.number, a.started_at, a.document FROM (VALUES @rows(bigint, bigint)) AS v
@then(delivery_attempt AS a ON a.delivery = v.column1 AND a.number = v.column2);

-- name: held_under
-- Which of these jobs are in flight under the token that came with them. Read in the transaction that then settles them.
SELECT v.column1, v.column2 FROM (VALUES @rows(bigint, bigint)) AS v @then(job ON job.id = v.column1)
WHERE job.state = @IN_FLIGHT AND job.hold_token = v.column2;

-- name: delete_staged
-- Payloads that were written ahead, of jobs that have not come.
DELETE FROM payload WHERE job_id = ANY(ARRAY(SELECT job_id FROM staged WHERE job_id BETWEEN ? AND ?));

-- name: last_errors
-- The latest record of each of these jobs, its message cut.
SELECT job.id, a.attempt, @bytes(a.outcome), @bytes(substr(a.message, 1, 1000)), @bytes(a.error_type), NULL, NULL,
    a.dequeued_at, a.failed_at, NULL
FROM job CROSS JOIN LATERAL (SELECT * FROM attempt AS b WHERE b.job_id = job.id AND b.attempt <= job.attempts + 1
    ORDER BY b.attempt DESC, b.id DESC LIMIT 1) AS a
WHERE job.id IN (@marks);

-- name: last_decisions
-- The latest record of each of these jobs.
SELECT job.id, a.id, a.attempt, a.decision
FROM job CROSS JOIN LATERAL (SELECT * FROM attempt AS b WHERE b.job_id = job.id AND b.attempt <= job.attempts + 1
    ORDER BY b.attempt DESC, b.id DESC LIMIT 1) AS a
WHERE job.id IN (@marks);

-- name: leave_deliveries
-- Deliveries of messages that are removed, and whose jobs somebody has removed: they are over.
UPDATE delivery SET status = @DELIVERY_CANCELLED, purge_at = ? WHERE message IN (@marks) AND status = @DELIVERY_LIVE
    AND (SELECT 1 FROM job WHERE job.id = delivery.job) IS NULL;

-- name: subscription_at
-- The subscription of an endpoint. The order is one that only the index of endpoints has.
SELECT @subscription FROM subscription WHERE topic = ?1 AND endpoint >= ?2 AND endpoint <= ?2 ORDER BY endpoint LIMIT 1;

-- name: deliveries_of
-- Deliveries of a subscription. Compared as pairs, as in what follows, no other index than theirs is of use.
SELECT @delivery FROM delivery WHERE (subscription, id) > (?1, ?2) AND (subscription, id) <= (?1, ?3)
ORDER BY subscription, id LIMIT ?4;

-- name: last_deliveries_of
-- The last deliveries of a subscription up to one, the newest first.
SELECT @delivery FROM delivery WHERE (subscription, id) >= (?1, 0) AND (subscription, id) <= (?1, ?2)
ORDER BY subscription DESC, id DESC LIMIT ?3;

-- name: delivery_of
-- The delivery of a message to a subscription.
SELECT @delivery FROM delivery WHERE (message, subscription) >= (?1, ?2) AND (message, subscription) <= (?1, ?2);

-- name: deliveries_of_message
-- Deliveries of a message, by subscription.
SELECT @delivery FROM delivery WHERE (message, subscription) > (?1, ?2) AND (message, subscription) <= (?1, 9223372036854775807)
ORDER BY message, subscription LIMIT ?3;

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
SELECT version FROM wrote WHERE session = ? ORDER BY version DESC LIMIT 1;

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
-- The first jobs that somebody's own transactions have left: so many (?1), and of their bytes no more than ?2 but for the last one.
SELECT id, job FROM (
    SELECT id, job, sum(octet_length(job)) OVER (ORDER BY id) - octet_length(job) AS before
    FROM (SELECT id, job FROM outbox WHERE refused IS NULL ORDER BY id LIMIT ?1) AS first_rows
) AS counted WHERE before < ?2 ORDER BY id;

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

-- name: count_jobs
-- For the doctor: how many jobs there are.
SELECT count(*) FROM job;

-- name: store_facts
-- What the store is: its engine, the bytes of all tables, and the number of its schema.
SELECT 'PostgreSQL ' || current_setting('server_version'), (SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
    WHERE relnamespace = 'anew'::regnamespace AND relkind = 'r'), (SELECT version FROM schema_version);

-- name: alive_sessions
-- For the doctor: the sessions whose processes have the locks that show that they live.
SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND classid = 'turn'::regclass::oid;

-- name: count_refused
-- For the doctor: rows of the outbox that can be no jobs.
SELECT count(*) FROM outbox WHERE refused IS NOT NULL;
