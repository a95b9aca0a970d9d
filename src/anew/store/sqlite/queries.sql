-- Every statement of the hot path, by name. `@rows(n)` stands for as many rows of n marks as a batch needs, `@marks` for one mark
-- a key. One statement a batch and verb: a row at a time would give the interpreter's lock away at every step.

-- name: insert_plain
-- New jobs that say nothing of their own beyond the usual.
INSERT INTO job (id, queue, type, priority, state, ready_at, payload) VALUES @rows(7);

-- name: insert_usual
-- The same where priority, state and time are the same for all: they are bound once.
INSERT INTO job (id, queue, type, payload, priority, state, ready_at)
SELECT column1, column2, column3, column4, ?1, ?2, ?3 FROM (VALUES @rows(4));

-- name: insert_rich
-- New jobs with limits, policy, retention or a payload that is kept apart.
INSERT INTO job (id, queue, type, priority, state, ready_at, retry_limit, policy, retention, payload_bytes, payload)
VALUES @rows(11);

-- name: insert_payload
INSERT INTO payload (job_id, part, data) VALUES (?, ?, ?);

-- name: stage
INSERT INTO staged (job_id) VALUES (?);

-- name: adopt
DELETE FROM staged WHERE job_id BETWEEN ? AND ?;

-- name: delete_staged
DELETE FROM payload WHERE job_id IN (SELECT job_id FROM staged WHERE job_id BETWEEN ? AND ?);

-- name: select_ready
-- The next jobs of one queue, all that goes to the worker.
SELECT id, queue, type, priority, ready_at, attempts, failed_at, retry_limit, policy, retention, payload_bytes, payload
FROM job WHERE queue = ? AND state = 2 ORDER BY priority, id LIMIT ?;

-- name: ready_heads
-- The next places in line of one queue; only the index is read.
SELECT priority, id FROM job WHERE queue = ? AND state = 2 ORDER BY priority, id LIMIT ?;

-- name: select_ready_by_key
SELECT id, queue, type, priority, ready_at, attempts, failed_at, retry_limit, policy, retention, payload_bytes, payload
FROM job WHERE id IN (@marks) AND state = 2;

-- name: lease
-- Follows select_ready in the same transaction with the same order, so it meets the same rows.
UPDATE job SET state = 3, lease_token = ?, lease_owner = ?, lease_deadline = ?, dequeued_at = ?
WHERE id IN (SELECT id FROM job WHERE queue = ? AND state = 2 ORDER BY priority, id LIMIT ?);

-- name: lease_by_key
UPDATE job SET state = 3, lease_token = ?, lease_owner = ?, lease_deadline = ?, dequeued_at = ?
WHERE id IN (@marks) AND state = 2;

-- name: payload
SELECT data FROM payload WHERE job_id = ? ORDER BY part;

-- name: finish
-- Only what is in flight can be finished; a key that does not come back was not.
DELETE FROM job WHERE id IN (@marks) AND state = 3 RETURNING id, queue;

-- name: load
SELECT id, queue, type, priority, state, ready_at, attempts, interruptions, retry_limit, policy, retention, dequeued_at,
    failed_at, first_failed_at, completed_at, purge_at, phase, carry, payload_bytes
FROM job WHERE id IN (@marks) ORDER BY id;

-- name: load_payload
SELECT id, queue, type, priority, state, ready_at, attempts, interruptions, retry_limit, policy, retention, dequeued_at,
    failed_at, first_failed_at, completed_at, purge_at, phase, carry, payload_bytes, payload
FROM job WHERE id IN (@marks) ORDER BY id;

-- name: complete
UPDATE job SET state = 4, completed_at = ?, purge_at = v.column2, lease_token = NULL, lease_owner = NULL,
    lease_deadline = NULL, interruptions = 0
FROM (VALUES @rows(2)) AS v WHERE job.id = v.column1 AND job.state = 3 RETURNING job.queue;

-- name: apply
-- What a failed or interrupted attempt made of its job. Only a job that is still in flight takes it.
UPDATE job SET state = v.column2, ready_at = coalesce(v.column3, job.ready_at), attempts = v.column4, failed_at = v.column5,
    first_failed_at = v.column6, purge_at = v.column7, phase = v.column8, carry = v.column9, interruptions = v.column10,
    lease_token = NULL, lease_owner = NULL, lease_deadline = NULL
FROM (VALUES @rows(10)) AS v WHERE job.id = v.column1 AND job.state = 3 RETURNING job.id, job.queue, job.state;

-- name: insert_attempt
INSERT INTO attempt (job_id, attempt, outcome, error_type, message, backtrace, dequeued_at, failed_at, decision)
VALUES @rows(9);

-- name: rewrite
-- A patch meets the row it was computed from: same queue, same state.
UPDATE job SET queue = v.column2, priority = v.column3, state = v.column4, ready_at = v.column5, attempts = v.column6,
    retry_limit = v.column7, policy = v.column8, retention = v.column9, purge_at = v.column10,
    first_failed_at = v.column11, carry = v.column12,
    lease_token = CASE v.column4 WHEN 3 THEN job.lease_token END,
    lease_owner = CASE v.column4 WHEN 3 THEN job.lease_owner END,
    lease_deadline = CASE v.column4 WHEN 3 THEN job.lease_deadline END
FROM (VALUES @rows(14)) AS v WHERE job.id = v.column1 AND job.queue = v.column13 AND job.state = v.column14
RETURNING job.id;

-- name: release
-- Back to the old place in line: neither ready_at nor attempts move.
UPDATE job SET state = 2, lease_token = NULL, lease_owner = NULL, lease_deadline = NULL, interruptions = interruptions + ?
WHERE id IN (@marks) AND state = 3 RETURNING queue;

-- name: select_in_flight
SELECT id FROM job INDEXED BY job_lease WHERE state = 3 LIMIT ?;

-- name: select_due
SELECT id, queue, state FROM job WHERE state < 2 AND ready_at <= ? ORDER BY ready_at LIMIT ?;

-- name: promote
-- Follows select_due in the same transaction, so it meets the same rows.
UPDATE job SET state = 2 WHERE id IN (SELECT id FROM job WHERE state < 2 AND ready_at <= ? ORDER BY ready_at LIMIT ?);

-- name: next_due
SELECT ready_at FROM job WHERE state < 2 ORDER BY ready_at LIMIT 1;

-- name: lapsed
SELECT id FROM job WHERE state = 3 AND lease_deadline <= ? ORDER BY lease_deadline LIMIT ?;

-- name: purgeable
SELECT id FROM job WHERE state > 3 AND purge_at <= ? ORDER BY purge_at LIMIT ?;

-- name: delete
DELETE FROM job WHERE id IN (@marks) RETURNING id, queue, state;

-- name: is_staging
SELECT EXISTS (SELECT 1 FROM staged);

-- name: delete_all_payloads
-- Without a condition SQLite drops the table's pages unread.
DELETE FROM payload;

-- name: delete_unstaged
DELETE FROM payload WHERE job_id NOT IN (SELECT job_id FROM staged);

-- name: delete_payloads
DELETE FROM payload WHERE job_id IN (@marks);

-- name: delete_attempts
DELETE FROM attempt WHERE job_id IN (@marks);

-- name: payload_sizes
-- The length of a blob is in its row's head, so nothing of it is read.
SELECT id, coalesce(payload_bytes, length(payload)) FROM job WHERE id IN (@marks);

-- name: errors
SELECT attempt, outcome, message, error_type, backtrace, dequeued_at, failed_at, decision FROM attempt
WHERE job_id = ? AND attempt > ? ORDER BY attempt, id LIMIT ?;

-- name: errors_backwards
SELECT attempt, outcome, message, error_type, backtrace, dequeued_at, failed_at, decision FROM attempt
WHERE job_id = ? AND attempt < ? ORDER BY attempt DESC, id DESC LIMIT ?;

-- name: failed_jobs
-- Jobs with a recorded failure, the latest first.
SELECT DISTINCT job_id FROM attempt WHERE job_id < ? AND outcome = 'error' ORDER BY job_id DESC LIMIT ?;

-- name: failures
-- When each recorded failure of these jobs began and ended, job by job.
SELECT job_id, dequeued_at, failed_at FROM attempt WHERE job_id IN (@marks) AND outcome = 'error' ORDER BY job_id;

-- name: read_counters
SELECT queue, scheduled, retrying, ready, in_flight, completed, dead, cancelled FROM counter;

-- name: write_counters
INSERT INTO counter (queue, scheduled, retrying, ready, in_flight, completed, dead, cancelled) VALUES @rows(8)
ON CONFLICT (queue) DO UPDATE SET scheduled = excluded.scheduled, retrying = excluded.retrying, ready = excluded.ready,
    in_flight = excluded.in_flight, completed = excluded.completed, dead = excluded.dead, cancelled = excluded.cancelled;

-- name: drop_counter
DELETE FROM counter WHERE queue = ?;

-- name: read_meta
SELECT name, value FROM meta;

-- name: write_meta
INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
