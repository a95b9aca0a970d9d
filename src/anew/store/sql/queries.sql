-- Every statement of the stores that speak SQL, by name, in words that both engines know; what only one of them knows is in its own
-- `own.sql`. One statement for a batch and verb: a row at a time would give the interpreter's lock away at every step of SQLite's, and
-- wait for the network at each of PostgreSQL's.
--
-- `@rows(n)` stands for as many rows of n marks as a batch needs; `@rows(type, ...)` for the same where PostgreSQL cannot know the types
-- of their columns; `@marks` for one mark a key. `@READY`, `@KEY_BLOCKED`, `@DELIVERY_LIVE` and their like stand for the codes of states,
-- `@job` and `@taken` for the columns that `rows.py` reads by place, `@counters` for one column a state. What the engines say in
-- different words: `@by(index)` names the index to use, `@bytes(text)` gives a text undecoded, `@least` and `@most` choose among values.
-- `@then(table ON ...)` joins in this order, `@first(SELECT ...)` asks whether a key is one of the few that a statement finds,
-- `@none(SELECT ...)` whether it finds nothing: PostgreSQL is to look these up row by row, whatever it believes of the tables' sizes.
--
-- Jobs that are named by their keys are compared as `state + 0 = ...`: no partial index has that, and PostgreSQL, whose plans may be
-- made before it has seen many rows, would else walk the index of all jobs in flight for the sake of a few.

-- name: insert_plain
-- New jobs that need the usual columns alone.
INSERT INTO job (id, queue, type, priority, state, ready_at, payload, payload_crc) VALUES @rows(8);

-- name: insert_usual
-- The same where priority, state and time are the same for all: they are bound once.
INSERT INTO job (id, queue, type, payload, payload_crc, priority, state, ready_at)
SELECT column1, column2, column3, column4, column5, ?1, ?2, ?3 FROM (VALUES @rows(bigint, text, text, bytea, bigint)) AS v;

-- name: insert_rich
-- New jobs with limits, policy, retention or a payload that is kept apart.
INSERT INTO job (id, queue, type, priority, state, ready_at, retry_limit, policy, retention, payload_bytes, payload, payload_crc)
VALUES @rows(12);

-- name: insert_pushed
-- New jobs that name themselves.
INSERT INTO job (id, queue, type, priority, state, ready_at, retry_limit, policy, retention, payload_bytes, payload, payload_crc,
    jid, meta, reserve_ms, attempts)
VALUES @rows(16);

-- name: insert_hooked
-- New jobs that are tied to something.
INSERT INTO job (id, queue, type, priority, state, ready_at, retry_limit, policy, retention, payload_bytes, payload, payload_crc,
    jid, meta, reserve_ms, attempts, hooks, expires_at, batch, unique_digest, unique_scope)
VALUES @rows(21);

-- name: insert_moved
-- Jobs that come from another queue with their past.
INSERT INTO job (id, queue, type, priority, state, ready_at, retry_limit, policy, retention, payload_bytes, payload, payload_crc,
    jid, meta, reserve_ms, attempts, failed_at, first_failed_at, records, record_bytes, purge_at,
    hold_kind, hold_token, hold_owner, hold_deadline, dequeued_at)
VALUES @rows(26);

-- name: hooked
-- Those of some jobs that are tied to something.
SELECT id, state, hooks, expires_at, batch, unique_digest, unique_scope, jid, folded FROM job WHERE id IN (@marks) AND hooks > 0
ORDER BY id;

-- name: purgeable_hooked
-- Those of the jobs that `reap` is about to remove.
SELECT id, state, hooks, expires_at, batch, unique_digest, unique_scope, jid, folded FROM job
WHERE id @first(SELECT id FROM job WHERE state > @IN_FLIGHT AND purge_at <= ? ORDER BY purge_at LIMIT ?) AND hooks > 0
ORDER BY id;

-- name: add_hooks
-- Set bits.
UPDATE job SET hooks = hooks | ? WHERE id IN (@marks);

-- name: drop_expiry
-- Clear bits, and the time that they are about.
UPDATE job SET hooks = hooks & ?, expires_at = NULL WHERE id IN (@marks);

-- name: stored_once
-- Jobs that are not to be stored again, by their producers' ids.
SELECT jid, id FROM job @by(job_once) WHERE @once AND jid IN (@marks);

-- name: locks
-- Who holds keys, and in which state that job is, if it is still there.
SELECT digest, job_id, scope, ends_at, (SELECT state FROM job WHERE id = unique_lock.job_id) FROM unique_lock
WHERE digest IN (@marks);

-- name: take_locks
-- Give keys to jobs, whoever had them.
INSERT INTO unique_lock (digest, job_id, scope, ends_at) VALUES @rows(4)
ON CONFLICT (digest) DO UPDATE SET job_id = excluded.job_id, scope = excluded.scope, ends_at = excluded.ends_at;

-- name: claim_lock
-- Give a key back to a job (digest, job, scope, now), if nobody has it.
INSERT INTO unique_lock (digest, job_id, scope) VALUES (?1, ?2, ?3)
ON CONFLICT (digest) DO UPDATE SET job_id = excluded.job_id, scope = excluded.scope, ends_at = NULL WHERE unique_lock.ends_at <= ?4;

-- name: release_locks
-- Take keys from jobs that still have them.
DELETE FROM unique_lock WHERE job_id IN (@marks);

-- name: reap_locks
-- Some of those that have ended.
DELETE FROM unique_lock WHERE digest @first(SELECT digest FROM unique_lock WHERE ends_at <= ? ORDER BY ends_at LIMIT ?) RETURNING job_id;

-- name: insert_batch
INSERT INTO batch (id, parent, total, pending, failed, committed, complete, success, open_children, unsuccessful_children, purge_at,
    meta, on_complete, on_success) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: batches
SELECT id, parent, total, pending, failed, committed, complete, success, open_children, unsuccessful_children
FROM batch WHERE id IN (@marks) ORDER BY id;

-- name: write_batch
-- A batch's counters; its parent never changes.
UPDATE batch SET total = ?, pending = ?, failed = ?, committed = ?, complete = ?, success = ?, open_children = ?,
    unsuccessful_children = ?, purge_at = ? WHERE id = ?;

-- name: batch_parts
-- What was given with a batch.
SELECT meta, on_complete, on_success FROM batch WHERE id = ?;

-- name: purgeable_batches
SELECT id FROM batch WHERE purge_at <= ? ORDER BY purge_at LIMIT ?;

-- name: delete_batches
DELETE FROM batch WHERE id IN (@marks);

-- name: progress
SELECT jid, job_id, word, percent, description, updated_at FROM progress WHERE jid IN (@marks);

-- name: write_progress
INSERT INTO progress (jid, job_id, word, percent, description, updated_at) VALUES @rows(6)
ON CONFLICT (jid) DO UPDATE SET job_id = excluded.job_id, word = excluded.word, percent = excluded.percent,
    description = excluded.description, updated_at = excluded.updated_at;

-- name: reap_progress
DELETE FROM progress WHERE jid @first(SELECT jid FROM progress WHERE updated_at <= ? ORDER BY updated_at LIMIT ?) RETURNING 1;

-- name: extend_hold
-- A reservation lasts longer, never shorter.
UPDATE job SET hold_deadline = @most(hold_deadline, ?) WHERE id = ? AND state + 0 = @IN_FLIGHT AND hold_kind = @RESERVATION AND hold_token = ?;

-- name: insert_payload
-- One part of a payload that is kept apart.
INSERT INTO payload (job_id, part, data) VALUES (?, ?, ?);

-- name: stage
-- A job whose payload is written ahead of it, and by which session.
INSERT INTO staged (job_id, owner) VALUES (?, ?);

-- name: adopt
-- These jobs have come: their payloads are staged no more.
DELETE FROM staged WHERE job_id BETWEEN ? AND ?;

-- name: delete_staged
-- Payloads that were written ahead, of jobs that have not come.
DELETE FROM payload WHERE job_id IN (SELECT job_id FROM staged WHERE job_id BETWEEN ? AND ?);

-- name: staged_by_nobody
-- Jobs whose payloads were written ahead by sessions that are gone.
SELECT job_id FROM staged WHERE owner NOT IN (SELECT id FROM session);

-- name: select_ready
-- The next jobs of one queue from a place on, all that goes to the worker.
SELECT @taken FROM job WHERE queue = ? AND state = @READY AND (priority, id) >= (?, ?) ORDER BY priority, id LIMIT ?;

-- name: ready_heads
-- The places in line of one queue from one on; only the index is read.
SELECT priority, id FROM job WHERE queue = ? AND state = @READY AND (priority, id) >= (?, ?) ORDER BY priority, id LIMIT ?;

-- name: places
-- The place in each of many queues' lines, from a place of its own on, that so many are before; only the index is read.
SELECT column1,
    (SELECT priority FROM job WHERE queue = column1 AND state = @READY AND (priority, id) >= (column2, column3)
        ORDER BY priority, id LIMIT 1 OFFSET ?1),
    (SELECT id FROM job WHERE queue = column1 AND state = @READY AND (priority, id) >= (column2, column3)
        ORDER BY priority, id LIMIT 1 OFFSET ?1)
FROM (VALUES @rows(text, integer, bigint)) AS v;

-- name: whole_lines
-- All places of many short queues; only the index is read.
SELECT job.queue, job.priority, job.id FROM (VALUES @rows(text)) AS v
@then(job @by(job_ready) ON job.queue = v.column1 AND job.state = @READY);

-- name: next_priority
-- The first job of the next priority in a queue, and since when it has been ready.
SELECT priority, id, ready_at FROM job WHERE queue = ? AND state = @READY AND priority > ? ORDER BY priority, id LIMIT 1;

-- name: ready_since
-- Since when the first ready job of each of some queues has been ready.
SELECT column1, (SELECT ready_at FROM job WHERE queue = column1 AND state = @READY ORDER BY priority, id LIMIT 1)
FROM (VALUES @rows(text)) AS v;

-- name: first_heads
-- The heads that come first of all, from a place on; only the index is read.
SELECT head_priority, head_id, name FROM queue WHERE head_id IS NOT NULL AND (head_priority, head_id) >= (?, ?)
ORDER BY head_priority, head_id LIMIT ?;

-- name: heads_behind
-- Those that come behind one of them.
SELECT head_priority, head_id, @bytes(name) FROM queue WHERE head_id IS NOT NULL AND (head_priority, head_id) > (?, ?)
ORDER BY head_priority, head_id LIMIT ?;

-- name: read_queues
-- What is derived of some queues.
SELECT name, @counters, listed, paused, head_priority, head_id FROM queue @by(queue_name) WHERE name IN (@marks);

-- name: read_counters
-- All counters.
SELECT name, @counters FROM queue;

-- name: totals
-- The counters of all queues together.
SELECT @sums FROM queue;

-- name: busiest
-- The queues with the most ready jobs.
SELECT @bytes(name), paused, @counters FROM queue WHERE @shown ORDER BY ready + blocked DESC, name LIMIT ?;

-- name: queue_rows
-- Queues that have jobs or are paused, from a name on.
SELECT @bytes(name), paused, @counters FROM queue WHERE name >= ? AND @shown ORDER BY name LIMIT ?;

-- name: queue_count
-- How many there are.
SELECT count(*) FROM queue WHERE @shown;

-- name: write_counters
-- Queues whose numbers of jobs have changed and whose heads have not; their index stays as it is.
INSERT INTO queue (name, @counters) VALUES @rows(9)
ON CONFLICT (name) DO UPDATE SET @new_counters;

-- name: write_queues
-- Queues whose heads have changed.
INSERT INTO queue (name, @counters, head_priority, head_id) VALUES @rows(11)
ON CONFLICT (name) DO UPDATE SET @new_counters, head_priority = excluded.head_priority, head_id = excluded.head_id;

-- name: write_flags
-- Queues that are listed or paused now, or no longer.
INSERT INTO queue (name, listed, paused) VALUES @rows(3) ON CONFLICT (name) DO UPDATE SET listed = excluded.listed, paused = excluded.paused;

-- name: drop_queues
-- Queues that have no job any more.
DELETE FROM queue @by(queue_name) WHERE name IN (@marks);

-- name: listed_queues
-- Queues that stay listed without a job.
SELECT name, paused FROM queue WHERE listed <> 0;

-- name: known_queues
-- Queues that are listed or have a job to hand out.
SELECT name FROM queue WHERE listed <> 0 OR head_id IS NOT NULL OR blocked <> 0;

-- name: flagged_queues
-- Queues that are listed or paused.
SELECT name FROM queue WHERE listed <> 0 OR paused <> 0;

-- name: names_of
SELECT id, queue, type FROM job WHERE id IN (@marks);

-- name: lengths
-- How many jobs the lists have that people look at.
SELECT coalesce(sum(ready), 0), coalesce(sum(blocked), 0), coalesce(sum(in_flight), 0), coalesce(sum(scheduled + retrying), 0)
FROM queue;

-- name: paused_lines
-- The first place of each queue that is paused and has ready jobs: it has no head.
SELECT (SELECT priority FROM job WHERE job.queue = queue.name AND state = @READY ORDER BY priority, id LIMIT 1),
    (SELECT id FROM job WHERE job.queue = queue.name AND state = @READY ORDER BY priority, id LIMIT 1), name
FROM queue WHERE paused <> 0 AND ready > 0;

-- name: lines_behind
-- In each queue the next place behind one (priority, id). SQLite searches an index by a pair of values only if the second is no key.
SELECT job.priority, job.id, v.name FROM (
    SELECT name, coalesce(
        (SELECT id FROM job WHERE job.queue = queue.name AND state = @READY AND priority = ?1 AND id > ?2 ORDER BY id LIMIT 1),
        (SELECT id FROM job WHERE job.queue = queue.name AND state = @READY AND priority > ?1 ORDER BY priority, id LIMIT 1)
    ) AS next FROM queue WHERE ready > 0
) AS v @then(job ON job.id = v.next);

-- name: lines_before
-- The same, before it.
SELECT job.priority, job.id, v.name FROM (
    SELECT name, coalesce(
        (SELECT id FROM job WHERE job.queue = queue.name AND state = @READY AND priority = ?1 AND id < ?2 ORDER BY id DESC LIMIT 1),
        (SELECT id FROM job WHERE job.queue = queue.name AND state = @READY AND priority < ?1
            ORDER BY priority DESC, id DESC LIMIT 1)
    ) AS next FROM queue WHERE ready > 0
) AS v @then(job ON job.id = v.next);

-- name: ready_behind
-- The next places of one queue's line behind one (priority, id); only the index is read.
SELECT priority, id FROM job WHERE queue = ?4 AND state = @READY AND priority = ?1 AND id > ?2
UNION ALL SELECT priority, id FROM job WHERE queue = ?4 AND state = @READY AND priority > ?1
ORDER BY priority, id LIMIT ?3;

-- name: ready_before
-- The same, before it, nearest first.
SELECT priority, id FROM job WHERE queue = ?4 AND state = @READY AND priority = ?1 AND id < ?2
UNION ALL SELECT priority, id FROM job WHERE queue = ?4 AND state = @READY AND priority < ?1
ORDER BY priority DESC, id DESC LIMIT ?3;

-- name: in_flight_behind
-- Jobs in flight by when they were taken, behind one place; their index has not this order, so only so many (?4) are looked at.
SELECT at, id FROM (SELECT coalesce(dequeued_at, 0) AS at, id FROM job @by(job_hold) WHERE state = @IN_FLIGHT LIMIT ?4) AS held
WHERE (at, id) > (?1, ?2) ORDER BY at, id LIMIT ?3;

-- name: in_flight_before
-- The same, before it, nearest first.
SELECT at, id FROM (SELECT coalesce(dequeued_at, 0) AS at, id FROM job @by(job_hold) WHERE state = @IN_FLIGHT LIMIT ?4) AS held
WHERE (at, id) < (?1, ?2) ORDER BY at DESC, id DESC LIMIT ?3;

-- name: scheduled_behind
-- Waiting jobs by their time, behind one place; those whose time is far stand in an index without this order, so only the first (?4) of
-- them are looked at.
SELECT ready_at, id FROM job @by(job_due) WHERE state < @READY AND near_at IS NULL AND ready_at = ?1 AND id > ?2
UNION ALL SELECT ready_at, id FROM job @by(job_due) WHERE state < @READY AND near_at IS NULL AND ready_at > ?1
UNION ALL SELECT ready_at, id FROM (SELECT ready_at, id FROM job WHERE near_at IS NOT NULL ORDER BY near_at LIMIT ?4) AS far
    WHERE (ready_at, id) > (?1, ?2)
ORDER BY ready_at, id LIMIT ?3;

-- name: scheduled_before
-- The same, before it, nearest first; of those whose time is far the last are looked at.
SELECT ready_at, id FROM job @by(job_due) WHERE state < @READY AND near_at IS NULL AND ready_at = ?1 AND id < ?2
UNION ALL SELECT ready_at, id FROM job @by(job_due) WHERE state < @READY AND near_at IS NULL AND ready_at < ?1
UNION ALL SELECT ready_at, id FROM (SELECT ready_at, id FROM job WHERE near_at IS NOT NULL ORDER BY near_at DESC LIMIT ?4) AS far
    WHERE (ready_at, id) < (?1, ?2)
ORDER BY ready_at DESC, id DESC LIMIT ?3;

-- name: select_ready_by_key
-- Jobs that were found by their index entries, all that goes to the worker.
SELECT @taken FROM job WHERE id IN (@marks) AND state + 0 = @READY;

-- name: hold
-- Follows select_ready in the same transaction with the same order, so it meets the same rows.
UPDATE job SET state = @IN_FLIGHT, hold_kind = ?, hold_token = ?, hold_owner = ?, hold_deadline = ?, dequeued_at = ?
WHERE id @first(SELECT id FROM job WHERE queue = ? AND state = @READY AND (priority, id) >= (?, ?) ORDER BY priority, id LIMIT ?);

-- name: hold_by_key
-- Put jobs in flight that are still ready.
UPDATE job SET state = @IN_FLIGHT, hold_kind = ?, hold_token = ?, hold_owner = ?, hold_deadline = ?, dequeued_at = ?
WHERE id IN (@marks) AND state + 0 = @READY;

-- name: select_reserved
-- Jobs that were found by their index entries, all of them, as they will be in flight under a hold (kind, token).
SELECT @reserved, payload_bytes, payload_crc, payload FROM job WHERE id IN (@marks) AND state + 0 = @READY;

-- name: select_first_reserved
-- The next jobs of one queue from a place on, as they will be in flight under a hold (kind, token).
SELECT @reserved, payload_bytes, payload_crc, payload FROM job WHERE queue = ? AND state = @READY AND (priority, id) >= (?, ?)
ORDER BY priority, id LIMIT ?;

-- name: reserve_by_key
-- Put jobs in flight that are still ready, each for as long as it says.
UPDATE job SET state = @IN_FLIGHT, hold_kind = ?, hold_token = ?, hold_owner = ?, hold_deadline = ? + coalesce(reserve_ms, ?),
    dequeued_at = ?
WHERE id IN (@marks) AND state + 0 = @READY;

-- name: slots
-- The slots in use of a queue that were taken after an instant, in order.
SELECT slot.taken_at, slot.worker FROM slot @then(job ON job.id = slot.job_id)
WHERE slot.queue = ? AND slot.taken_at > ? AND job.state + 0 = @IN_FLIGHT AND job.queue = slot.queue AND job.hold_token IS NOT DISTINCT FROM slot.token
ORDER BY slot.taken_at;

-- name: occupy
-- Who has the slots of jobs that were taken.
INSERT INTO slot (queue, taken_at, job_id, token, worker)
SELECT job.queue, job.dequeued_at - v.column3, job.id, job.hold_token, v.column2 FROM (VALUES @rows(bigint, text, bigint)) AS v
@then(job ON job.id = v.column1) WHERE true
ON CONFLICT (queue, taken_at, job_id) DO UPDATE SET token = excluded.token, worker = excluded.worker;

-- name: occupy_all
-- A queue gets a limit: all that it has in flight takes a slot.
INSERT INTO slot (queue, taken_at, job_id, token, worker)
SELECT queue, coalesce(dequeued_at, 0) - ?, id, hold_token, '' FROM job @by(job_hold) WHERE state = @IN_FLIGHT AND queue = ?
ON CONFLICT (queue, taken_at, job_id) DO UPDATE SET token = excluded.token, worker = excluded.worker;

-- name: drop_left_slots
-- The slots of a queue that are in use no more, or were taken up to an instant.
DELETE FROM slot WHERE queue = ? AND (taken_at <= ? OR @none(SELECT 1 FROM job
    WHERE job.id = slot.job_id AND job.state + 0 = @IN_FLIGHT AND job.queue = slot.queue AND job.hold_token IS NOT DISTINCT FROM slot.token));

-- name: free_slots
-- The slots of a worker that is gone.
DELETE FROM slot WHERE queue = ? AND worker = ?;

-- name: drop_slots
-- The slots of a queue that has no limit any more.
DELETE FROM slot WHERE queue = ?;

-- name: named
-- Reserved jobs by their producers' ids, the one that was taken last behind the others.
SELECT jid, id, hold_token FROM job WHERE jid IN (@marks) AND state = @IN_FLIGHT AND hold_kind = @RESERVATION ORDER BY dequeued_at, id;

-- name: payload
-- All parts of a payload, in order.
SELECT data FROM payload WHERE job_id = ? ORDER BY part;

-- name: finish
-- Jobs in flight that are nothing but their row, and have none of these bits of ties; a key that does not come back is another one.
DELETE FROM job WHERE hooks & ? = 0 AND id IN (@marks) AND state + 0 = @IN_FLIGHT AND payload_bytes IS NULL AND records = 0
    AND @not_kept
RETURNING id, queue, batch;

-- name: held_under
-- Which of these jobs are in flight under the token that came with them. Read in the transaction that then settles them.
SELECT v.column1, v.column2 FROM (VALUES @rows(bigint, bigint)) AS v JOIN job ON job.id = v.column1
WHERE job.state + 0 = @IN_FLIGHT AND job.hold_token = v.column2;

-- name: hold_kinds
SELECT id, hold_kind FROM job WHERE id IN (@marks) AND state + 0 = @IN_FLIGHT ORDER BY id;

-- name: load
-- Jobs without their payloads, in order of key.
SELECT @job, payload_bytes, payload_crc FROM job WHERE id IN (@marks) ORDER BY id;

-- name: load_payload
-- The same with the payloads that stand in the row.
SELECT @job, payload_bytes, payload_crc, payload FROM job WHERE id IN (@marks) ORDER BY id;

-- name: load_undecoded
-- Jobs of which a queue or a type is no UTF-8.
SELECT @undecoded_job, payload_bytes, payload_crc FROM job WHERE id IN (@marks) ORDER BY id;

-- name: load_payload_undecoded
SELECT @undecoded_job, payload_bytes, payload_crc, payload FROM job WHERE id IN (@marks) ORDER BY id;

-- name: complete
-- Only what is in flight can be completed; kept until the instant beside its key.
UPDATE job SET state = @COMPLETED, completed_at = ?, purge_at = v.column2, hold_kind = NULL, hold_token = NULL,
    hold_owner = NULL, hold_deadline = NULL, interruptions = 0
FROM (VALUES @rows(bigint, bigint)) AS v WHERE job.id = v.column1 AND job.state + 0 = @IN_FLIGHT RETURNING job.id, job.queue;

-- name: keep_results
-- What came of jobs that are kept. What a door must give back unchanged of its own jobs, which have its ids, is left alone.
UPDATE job SET meta = v.column2 FROM (VALUES @rows(bigint, bytea)) AS v
WHERE job.id = v.column1 AND job.state + 0 = @COMPLETED AND job.jid IS NULL;

-- name: apply
-- What a failed or interrupted attempt made of its job. Only a job that is still in flight takes it.
UPDATE job SET state = v.column2, ready_at = coalesce(v.column3, job.ready_at), attempts = v.column4, failed_at = v.column5,
    first_failed_at = v.column6, purge_at = v.column7, phase = v.column8, carry = v.column9, interruptions = v.column10,
    records = @least(job.records, 1000000000) + 1, record_bytes = @least(job.record_bytes, 1000000000000) + v.column11, near_at = v.column12,
    hold_kind = NULL, hold_token = NULL, hold_owner = NULL, hold_deadline = NULL
FROM (VALUES @rows(bigint, bigint, bigint, bigint, bigint, bigint, bigint, float8, float8, bigint, bigint, bigint)) AS v WHERE job.id = v.column1 AND job.state + 0 = @IN_FLIGHT
RETURNING job.id, job.queue, job.state, job.records;

-- name: insert_attempt
-- Records of ended attempts.
INSERT INTO attempt (job_id, attempt, outcome, error_type, message, backtrace, dequeued_at, failed_at, decision, worker)
VALUES @rows(10);

-- name: middle_attempts
-- The records between the first and the last ones of a job, in order of time: (job, first to keep, last to keep, limit).
SELECT id, outcome, coalesce(error_type, ''), octet_length(message) + coalesce(octet_length(backtrace), 0)
FROM attempt WHERE job_id = ?1
    AND (?2 = 0 OR id > (SELECT id FROM attempt WHERE job_id = ?1 ORDER BY id LIMIT 1 OFFSET ?2 - 1))
    AND id < (SELECT id FROM attempt WHERE job_id = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?3 - 1)
ORDER BY id LIMIT ?4;

-- name: drop_attempts
-- Remove single records.
DELETE FROM attempt WHERE id IN (@marks);

-- name: forget_records
-- Count the records that a job has no longer.
UPDATE job SET records = records - ?, record_bytes = record_bytes - ? WHERE id = ?;

-- name: count_attempts
-- Add to the counts of records that were dropped.
INSERT INTO attempt_count (job_id, outcome, error_type, attempts) VALUES @rows(4)
ON CONFLICT (job_id, outcome, error_type) DO UPDATE SET attempts = attempt_count.attempts + excluded.attempts;

-- name: counted_attempts
-- What was dropped of a job, the most frequent first.
SELECT outcome, error_type, attempts FROM attempt_count WHERE job_id = ? ORDER BY attempts DESC, outcome, error_type;

-- name: count_outcomes
-- How many attempts of a job have ended in one way: those in full, and those that were dropped.
SELECT (SELECT count(*) FROM attempt WHERE job_id = ? AND outcome = ?)
    + (SELECT coalesce(sum(attempts), 0) FROM attempt_count WHERE job_id = ? AND outcome = ?);

-- name: corrupt_among
-- Which of these jobs were set aside because something stored of them cannot be read.
SELECT DISTINCT job_id FROM attempt WHERE job_id IN (@marks) AND outcome = 'corrupt';

-- name: rewrite
-- A patch meets the row it was computed from: same queue, same state.
UPDATE job SET queue = v.column2, priority = v.column3, state = v.column4, ready_at = v.column5, attempts = v.column6,
    retry_limit = v.column7, policy = v.column8, retention = v.column9, purge_at = v.column10,
    first_failed_at = v.column11, carry = v.column12, interruptions = v.column13, near_at = NULL,
    hold_kind = CASE v.column4 WHEN @IN_FLIGHT THEN job.hold_kind END,
    hold_token = CASE v.column4 WHEN @IN_FLIGHT THEN job.hold_token END,
    hold_owner = CASE v.column4 WHEN @IN_FLIGHT THEN job.hold_owner END,
    hold_deadline = CASE v.column4 WHEN @IN_FLIGHT THEN job.hold_deadline END
FROM (VALUES @rows(bigint, text, bigint, bigint, bigint, bigint, bigint, bytea, bytea, bigint, bigint, float8, bigint, text, bigint)) AS v WHERE job.id = v.column1 AND job.queue = v.column14 AND job.state = v.column15
RETURNING job.id;

-- name: release
-- Back to the old place in line; attempts do not move. A job that somebody has given a later time meanwhile is left alone.
UPDATE job SET state = @READY, hold_kind = NULL, hold_token = NULL, hold_owner = NULL, hold_deadline = NULL,
    interruptions = @least(interruptions, 1000000000) + ?
WHERE id IN (@marks) AND state + 0 = @IN_FLIGHT AND ready_at <= ? RETURNING id, queue;

-- name: held_by
-- In the index alone: nothing of the rows is read.
SELECT id FROM job @by(job_hold) WHERE state = @IN_FLIGHT AND hold_owner = ? AND hold_kind IS DISTINCT FROM 20 LIMIT ?;

-- name: held_by_nobody
-- In flight under a session that has no row: it ended before this program knew sessions, or its row was lost.
SELECT id FROM job @by(job_hold) WHERE state = @IN_FLIGHT
    AND (hold_kind IS DISTINCT FROM 20 OR hold_deadline IS NULL)
    AND (hold_owner IS NULL OR hold_owner NOT IN (SELECT id FROM session)) LIMIT ?;

-- name: select_due
-- Waiting jobs whose time has come, and whether each came under its producer's id; the rows that `promote` changes then.
SELECT id, queue, state, jid IS NOT NULL FROM job WHERE state < @READY AND near_at IS NULL AND ready_at <= ? ORDER BY ready_at LIMIT ?;

-- name: promote
-- Follows select_due in the same transaction, so it meets the same rows.
UPDATE job SET state = @READY
WHERE id @first(SELECT id FROM job WHERE state < @READY AND near_at IS NULL AND ready_at <= ? ORDER BY ready_at LIMIT ?);

-- name: next_due
-- The earliest time that a waiting job waits for, or has to be entered among the due.
SELECT min(at) FROM (
    SELECT * FROM (SELECT ready_at AS at FROM job WHERE state < @READY AND near_at IS NULL ORDER BY ready_at LIMIT 1) AS near
    UNION ALL SELECT * FROM (SELECT near_at FROM job WHERE near_at IS NOT NULL ORDER BY near_at LIMIT 1) AS far
) AS waiting;

-- name: draw_near
-- Enter jobs into the index of due times.
UPDATE job SET near_at = NULL
WHERE id @first(SELECT id FROM job WHERE near_at IS NOT NULL AND near_at <= ? ORDER BY near_at LIMIT ?);

-- name: lapsed
-- Jobs in flight whose hold is past its deadline, by lease time.
SELECT id FROM job WHERE state = @IN_FLIGHT AND hold_deadline <= ? ORDER BY hold_deadline LIMIT ?;

-- name: purgeable
-- Ended jobs whose retention is over.
SELECT id FROM job WHERE state > @IN_FLIGHT AND purge_at <= ? ORDER BY purge_at LIMIT ?;

-- name: delete
-- In whatever state; gives what must be counted and removed with them.
DELETE FROM job WHERE id IN (@marks) RETURNING id, queue, state, records, record_bytes + coalesce(payload_bytes, 0);

-- name: is_staging
-- Whether any payload is written ahead just now.
SELECT EXISTS (SELECT 1 FROM staged);

-- name: delete_all_payloads
-- Without a condition SQLite drops the table's pages unread.
DELETE FROM payload;

-- name: delete_unstaged
-- Payloads of all jobs that have come, when every job is removed.
DELETE FROM payload WHERE job_id NOT IN (SELECT job_id FROM staged);

-- name: fold_into
-- What new jobs have made of one that is there.
UPDATE job SET payload_bytes = ?, payload = ?, payload_crc = ?, folded = folded + ?, expires_at = ? WHERE id = ?;

-- name: delete_payloads
-- Payloads of deleted jobs.
DELETE FROM payload WHERE job_id IN (@marks);

-- name: delete_attempts
-- Records of deleted jobs.
DELETE FROM attempt WHERE job_id IN (@marks);

-- name: delete_attempt_counts
-- Counts of dropped records of deleted jobs.
DELETE FROM attempt_count WHERE job_id IN (@marks);

-- name: set_aside
-- A job whose state cannot be read: no statement that names states would ever meet it again.
UPDATE job SET state = ?, purge_at = ?, failed_at = ?, records = records + 1, hold_kind = NULL, hold_token = NULL,
    hold_owner = NULL, hold_deadline = NULL
WHERE id = ? AND state NOT IN (@STATES) RETURNING queue, attempts;

-- name: all_texts
SELECT id, @bytes(queue), @bytes(type) FROM job;

-- name: rename
-- A job whose queue or type cannot be read. It gets a state that is none, and that no index holds, so that `set_aside` alone takes it.
UPDATE job SET queue = ?, type = ?, state = @NO_STATE WHERE id = ?;

-- name: queue_texts
SELECT @bytes(name) FROM queue @unindexed;

-- name: drop_queue_text
DELETE FROM queue WHERE @bytes(name) = ?;

-- name: leave_over
-- Deleted jobs whose records or payloads are too much for one transaction.
INSERT INTO leftover (job_id) VALUES @rows(1) ON CONFLICT DO NOTHING;

-- name: leftovers
-- Deleted jobs of which something is still to be removed.
SELECT job_id FROM leftover LIMIT ?;

-- name: leftover_attempts
-- Some records of a deleted job.
SELECT id FROM attempt WHERE job_id = ? LIMIT ?;

-- name: leftover_parts
-- Some parts of the payload of a deleted job.
SELECT part FROM payload WHERE job_id = ? LIMIT ?;

-- name: drop_part
-- One part of a payload.
DELETE FROM payload WHERE job_id = ? AND part = ?;

-- name: drop_leftover
-- Nothing is left of this deleted job.
DELETE FROM leftover WHERE job_id = ?;

-- name: payloads
-- The payloads that stand in the row, and what is known of those that are kept apart.
SELECT id, payload_bytes, payload_crc, payload FROM job WHERE id IN (@marks);

-- name: payload_sizes
-- The length of a blob is in its row's head, so nothing of it is read.
SELECT id, coalesce(payload_bytes, length(payload), 0) FROM job WHERE id IN (@marks);

-- name: errors
-- A job's records by attempt, from one on. Texts are read as bytes: a flipped bit in one must not keep the others from being shown.
SELECT attempt, @bytes(outcome), @bytes(message), @bytes(error_type), @bytes(backtrace), @bytes(worker), dequeued_at,
    failed_at, decision FROM attempt
WHERE job_id = ? AND attempt > ? ORDER BY attempt, id LIMIT ?;

-- name: errors_backwards
-- The same from the last one back.
SELECT attempt, @bytes(outcome), @bytes(message), @bytes(error_type), @bytes(backtrace), @bytes(worker), dequeued_at,
    failed_at, decision FROM attempt
WHERE job_id = ? AND attempt < ? ORDER BY attempt DESC, id DESC LIMIT ?;

-- name: last_errors
-- The latest record of each of these jobs, its message cut. An interruption bears the number of the attempt that it ended,
-- which the job does not count.
SELECT job.id, a.attempt, @bytes(a.outcome), @bytes(substr(a.message, 1, 1000)), @bytes(a.error_type), NULL, NULL,
    a.dequeued_at, a.failed_at, NULL
FROM job JOIN attempt AS a ON a.id = (SELECT b.id FROM attempt AS b
    WHERE b.job_id = job.id AND b.attempt <= job.attempts + 1 ORDER BY b.attempt DESC, b.id DESC LIMIT 1)
WHERE job.id IN (@marks);

-- name: last_decisions
-- The latest record of each of these jobs, as last_errors finds it.
SELECT job.id, a.id, a.attempt, a.decision
FROM job JOIN attempt AS a ON a.id = (SELECT b.id FROM attempt AS b
    WHERE b.job_id = job.id AND b.attempt <= job.attempts + 1 ORDER BY b.attempt DESC, b.id DESC LIMIT 1)
WHERE job.id IN (@marks);

-- name: redecide
-- Other decisions in records.
UPDATE attempt SET decision = v.column2 FROM (VALUES @rows(bigint, bytea)) AS v WHERE attempt.id = v.column1;

-- name: due_until
-- Of so many jobs that wait for their time, the next ones to come due: how many they are, and when the last of them is due.
SELECT count(*), max(ready_at) FROM (
    SELECT ready_at FROM (SELECT ready_at FROM job @by(job_due) WHERE state < @READY AND near_at IS NULL ORDER BY ready_at LIMIT ?1) AS near
    UNION ALL SELECT ready_at FROM (SELECT ready_at FROM job @by(job_far) WHERE near_at IS NOT NULL ORDER BY near_at LIMIT ?1) AS far
) AS waiting;

-- name: due_counts
-- The same jobs by their state and by the step of so many milliseconds, counted from an instant, in which they come due.
SELECT @most(0, (ready_at - ?2) / ?3), state, count(*) FROM (
    SELECT ready_at, state FROM (SELECT ready_at, state FROM job @by(job_due) WHERE state < @READY AND near_at IS NULL ORDER BY ready_at LIMIT ?1) AS near
    UNION ALL SELECT ready_at, state FROM (SELECT ready_at, state FROM job @by(job_far) WHERE near_at IS NOT NULL ORDER BY near_at LIMIT ?1) AS far
) AS waiting GROUP BY 1, 2 ORDER BY 1, 2;

-- name: failed_jobs
-- Jobs with a recorded failure, the latest first.
SELECT DISTINCT job_id FROM attempt WHERE job_id < ? AND outcome IN ('error', 'timeout') ORDER BY job_id DESC LIMIT ?;

-- name: failures
-- When each recorded failure of these jobs began and ended, job by job.
SELECT job_id, dequeued_at, failed_at FROM attempt WHERE job_id IN (@marks) AND outcome IN ('error', 'timeout')
ORDER BY job_id;

-- name: recount
-- By how much each counter differs from the rows.
WITH counter (queue, state, jobs) AS (@a_row_a_counter)
SELECT queue, state, sum(jobs) FROM (
    SELECT queue, state, count(*) AS jobs FROM job GROUP BY queue, state
    UNION ALL SELECT queue, state, -jobs FROM counter
) AS counted GROUP BY queue, state HAVING sum(jobs) <> 0;

-- name: count_ended
-- Attempts that have ended on a day.
INSERT INTO day (day, processed, failed) VALUES (?, ?, ?)
ON CONFLICT (day) DO UPDATE SET processed = day.processed + excluded.processed, failed = day.failed + excluded.failed;

-- name: ended
-- All of these counts.
SELECT day, processed, failed FROM day;

-- name: due_crons
-- Entries whose next slot has come, the one that waits longest first; the last columns are their group's.
SELECT group_name, name, @cron, job, @group_paused, @group_timezone FROM cron
WHERE next_at <= ? ORDER BY next_at LIMIT ?;

-- name: due_crons_undecoded
-- The same where a text of one of them is no UTF-8, without their jobs.
SELECT @bytes(group_name), @bytes(name), @undecoded_cron, @no_bytes, @group_paused, @bytes(@group_timezone) FROM cron
WHERE next_at <= ? ORDER BY next_at LIMIT ?;

-- name: stop_cron
-- An entry, by the bytes of its names.
UPDATE cron SET next_at = NULL WHERE @bytes(group_name) = ? AND @bytes(name) = ?;

-- name: next_slot
-- The earliest slot that an entry waits for.
SELECT next_at FROM cron WHERE next_at IS NOT NULL ORDER BY next_at LIMIT 1;

-- name: all_crons
-- Entries of all groups behind one of them, in order, without their jobs: together those may have gigabytes.
SELECT group_name, name, @cron, @no_bytes, @group_paused, @group_timezone FROM cron
WHERE (group_name, name) > (?, ?) ORDER BY group_name, name LIMIT ?;

-- name: all_crons_undecoded
-- The same where a text of one of them is no UTF-8.
SELECT @bytes(group_name), @bytes(name), @undecoded_cron, @no_bytes, @group_paused, @bytes(@group_timezone) FROM cron
WHERE (group_name, name) > (?, ?) ORDER BY group_name, name LIMIT ?;

-- name: group_crons
-- Entries of one group behind one of them, in order.
SELECT group_name, name, @cron, job, @group_paused, @group_timezone FROM cron
WHERE group_name = ? AND name > ? ORDER BY name LIMIT ?;

-- name: read_cron
-- One entry.
SELECT group_name, name, @cron, job, @group_paused, @group_timezone FROM cron WHERE group_name = ? AND name = ?;

-- name: write_crons
-- Entries as they are now.
INSERT INTO cron (group_name, name, @cron, job) VALUES @rows(12)
ON CONFLICT (group_name, name) DO UPDATE SET @new_cron, job = excluded.job;

-- name: drop_cron
-- An entry that is no more.
DELETE FROM cron WHERE group_name = ? AND name = ?;

-- name: drop_group_crons
-- A group's entries that are no more.
DELETE FROM cron WHERE group_name = ?;

-- name: drop_all_crons
-- All entries.
DELETE FROM cron;

-- name: cron_extent
-- How many entries a group has, and the bytes of their jobs.
SELECT count(*), coalesce(sum(length(job)), 0) FROM cron WHERE group_name = ?;

-- name: cron_groups
-- Names of groups of entries, in order.
SELECT name FROM cron_group WHERE name >= '' ORDER BY name LIMIT ?;

-- name: read_cron_group
-- One group of entries.
SELECT @cron_group FROM cron_group WHERE name = ?;

-- name: write_cron_group
-- A group of entries as it is now.
INSERT INTO cron_group (name, @cron_group) VALUES @rows(5)
ON CONFLICT (name) DO UPDATE SET @new_cron_group;

-- name: drop_cron_group
-- A group of entries that is no more.
DELETE FROM cron_group WHERE name = ?;

-- name: drop_all_cron_groups
-- All groups of entries, a bounded number.
DELETE FROM cron_group RETURNING name;

-- name: breakers
-- Circuit breakers by key.
SELECT @breaker FROM breaker WHERE key IN (@marks) ORDER BY key;

-- name: all_breakers
-- All of them, for somebody who lists them.
SELECT @breaker FROM breaker ORDER BY key;

-- name: breakers_to_show
-- Of the first so many, some, first those that are not closed.
SELECT @undecoded_breaker FROM (SELECT @breaker FROM breaker ORDER BY key LIMIT ?1) AS b ORDER BY state = 'closed', key LIMIT ?2;

-- name: write_breakers
-- Circuit breakers as they are now.
INSERT INTO breaker (@breaker) VALUES @rows(10)
ON CONFLICT (key) DO UPDATE SET @new_breaker;

-- name: open_session
-- A process that may hold jobs from now on; its number is never given again.
INSERT INTO session (pid, started_at) VALUES (?, ?) RETURNING id;

-- name: sessions
-- All processes that may hold jobs.
SELECT id, pid, started_at FROM session ORDER BY id;

-- name: processes
-- The same with how many jobs each holds, for people.
SELECT id, pid, started_at, coalesce(held.jobs, 0) FROM session LEFT JOIN (
    SELECT hold_owner, count(*) AS jobs FROM job WHERE state = @IN_FLIGHT GROUP BY hold_owner
) AS held ON held.hold_owner = session.id ORDER BY id LIMIT ?;

-- name: close_session
-- A process that holds no jobs any more.
DELETE FROM session WHERE id = ?;

-- name: read_duty
-- When a duty was done last.
SELECT done_at FROM duty WHERE name = ?;

-- name: read_lease_clock
-- How far the wall clock has jumped in all, and the lease time when that was last written down.
SELECT jumps.done_at, noted.done_at FROM duty AS jumps @then(duty AS noted ON noted.name = 'lease time') WHERE jumps.name = 'lease jumps';

-- name: write_duty
-- A duty is done now.
INSERT INTO duty (name, done_at) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET done_at = excluded.done_at;

-- name: read_numbers
-- The largest key that a row has, and the largest numbers that were noted: one statement, as each batch runs it after another
-- process has written.
SELECT (SELECT max(id) FROM job),
    (SELECT value FROM meta WHERE name = 'last_key'),
    (SELECT value FROM meta WHERE name = 'last_failure'),
    (SELECT value FROM meta WHERE name = 'limits');

-- name: read_meta
-- What is stored about the store itself.
SELECT name, value FROM meta;

-- name: notes
-- How far imports from other servers have come; their names begin with "moved/".
SELECT substr(name, 7), value FROM meta WHERE name >= 'moved/' AND name < 'moved0';

-- name: read_one_meta
SELECT value FROM meta WHERE name = ?;

-- name: forget_notes
DELETE FROM meta WHERE name >= 'moved/' AND name < 'moved0';

-- name: write_meta
-- Change some of that.
INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: heads_amiss
-- Queues whose stored head is not their first ready job.
WITH RECURSIVE ready (queue) AS (
    SELECT min(queue) FROM job WHERE state = @READY
    UNION ALL
    SELECT (SELECT min(queue) FROM job WHERE state = @READY AND queue > ready.queue) FROM ready WHERE queue IS NOT NULL
), head (queue, priority, id) AS (
    SELECT queue,
        (SELECT priority FROM job WHERE queue = ready.queue AND state = @READY ORDER BY priority, id LIMIT 1),
        (SELECT id FROM job WHERE queue = ready.queue AND state = @READY ORDER BY priority, id LIMIT 1)
    FROM ready WHERE queue IS NOT NULL AND queue NOT IN (SELECT name FROM queue WHERE paused <> 0)
), stored (queue, priority, id) AS (SELECT name, head_priority, head_id FROM queue WHERE head_id IS NOT NULL)
SELECT queue FROM (SELECT * FROM head EXCEPT SELECT * FROM stored) AS missing
UNION
SELECT queue FROM (SELECT * FROM stored EXCEPT SELECT * FROM head) AS wrong;

-- name: records_amiss
-- For the doctor: jobs that do not know how many records they have.
SELECT id FROM job WHERE records <> (SELECT count(*) FROM attempt WHERE job_id = job.id)
    OR record_bytes <> (SELECT coalesce(sum(octet_length(message) + coalesce(octet_length(backtrace), 0)), 0)
        FROM attempt WHERE job_id = job.id);

-- name: recount_records
-- For the doctor: make the numbers of records and of their bytes anew.
UPDATE job SET (records, record_bytes) = (
    SELECT count(*), coalesce(sum(octet_length(message) + coalesce(octet_length(backtrace), 0)), 0)
    FROM attempt WHERE job_id = job.id
) WHERE id IN (@marks);

-- name: parts_of_nobody
-- For the doctor: payloads whose job is not there.
SELECT DISTINCT job_id FROM payload WHERE @none(SELECT 1 FROM job WHERE id = payload.job_id) AND @none(SELECT 1 FROM staged WHERE job_id = payload.job_id)
    AND @none(SELECT 1 FROM leftover WHERE job_id = payload.job_id);

-- name: records_of_nobody
-- For the doctor: records whose job is not there.
SELECT job_id FROM attempt WHERE @none(SELECT 1 FROM job WHERE id = attempt.job_id) AND @none(SELECT 1 FROM leftover WHERE job_id = attempt.job_id)
UNION
SELECT job_id FROM attempt_count WHERE @none(SELECT 1 FROM job WHERE id = attempt_count.job_id)
    AND @none(SELECT 1 FROM leftover WHERE job_id = attempt_count.job_id);

-- name: leave_orphans
-- Only what belongs to no job: others may have written since these were found.
INSERT INTO leftover (job_id) SELECT column1 FROM (VALUES @rows(bigint)) AS v
WHERE @none(SELECT 1 FROM job WHERE id = v.column1) AND @none(SELECT 1 FROM staged WHERE job_id = v.column1)
ON CONFLICT DO NOTHING;

-- name: limit_keys
-- The limits of keys.
SELECT name, bounds, debt, at, look_at, closed_until, probing FROM limit_key WHERE name IN (@marks);

-- name: write_limit_keys
-- Limits of keys as they are now.
INSERT INTO limit_key (name, bounds, debt, at, look_at, closed_until, probing) VALUES @rows(7)
ON CONFLICT (name) DO UPDATE SET bounds = excluded.bounds, debt = excluded.debt, at = excluded.at, look_at = excluded.look_at,
    closed_until = excluded.closed_until, probing = excluded.probing;

-- name: drop_limit_keys
-- Keys that no job has any more.
DELETE FROM limit_key WHERE name IN (@marks);

-- name: limit_looks
-- Keys that are to be looked at by now.
SELECT name FROM limit_key WHERE look_at <= ? ORDER BY look_at LIMIT ?;

-- name: next_limit_look
-- When the next one is.
SELECT look_at FROM limit_key WHERE look_at IS NOT NULL ORDER BY look_at LIMIT 1;

-- name: add_limited
-- Jobs of keys.
INSERT INTO limited (job_id, name, standing, queue, priority) VALUES @rows(5);

-- name: limits_to_show
-- Keys behind a name, with how many of their jobs run and how many are blocked, each up to a number (?5): of the next so many (?2)
-- those that have blocked jobs, or all (?3 = 1).
SELECT @bytes(name), bounds, debt, at, look_at, closed_until, probing,
    (SELECT count(*) FROM (SELECT 1 FROM limited AS r @then(job ON job.id = r.job_id)
        WHERE r.name = k.name AND r.standing = @KEY_RUNNING AND job.state + 0 = @IN_FLIGHT LIMIT ?5) AS running),
    (SELECT count(*) FROM (SELECT 1 FROM limited AS b WHERE b.name = k.name AND b.standing = @KEY_BLOCKED LIMIT ?5) AS blocked)
FROM (SELECT * FROM limit_key WHERE name > ?1 ORDER BY name LIMIT ?2) AS k
WHERE ?3 = 1 OR (SELECT 1 FROM limited AS f WHERE f.name = k.name AND f.standing = @KEY_BLOCKED LIMIT 1) IS NOT NULL
ORDER BY name LIMIT ?4;

-- name: limit_at
-- The name of a key so many behind one.
SELECT @bytes(name) FROM limit_key WHERE name > ? ORDER BY name LIMIT 1 OFFSET ?;

-- name: limited_jobs
-- Those of some jobs that have a key, with their places.
SELECT limited.job_id, limited.name, limited.standing, job.queue, job.priority FROM limited @then(job ON job.id = limited.job_id)
WHERE limited.job_id IN (@marks) ORDER BY limited.job_id;

-- name: limited_running
-- How many jobs of keys run: what stands so and is in flight. A row that was left standing so counts for nothing.
SELECT limited.name, count(*) FROM limited @then(job ON job.id = limited.job_id)
WHERE limited.name IN (@marks) AND limited.standing = @KEY_RUNNING AND job.state + 0 = @IN_FLIGHT GROUP BY limited.name;

-- name: blocked_queues
-- The queues in which jobs of a key are blocked; as many entries of the index are read as there are queues.
WITH RECURSIVE found (queue) AS (
    SELECT min(queue) FROM limited WHERE name = ?1 AND standing = @KEY_BLOCKED
    UNION ALL
    SELECT (SELECT min(queue) FROM limited WHERE name = ?1 AND standing = @KEY_BLOCKED AND queue > found.queue) FROM found WHERE queue IS NOT NULL
)
SELECT queue FROM found WHERE queue IS NOT NULL;

-- name: first_limited
-- The first jobs of a key in one queue that stand so.
SELECT priority, job_id FROM limited WHERE name = ? AND standing = ? AND queue = ? ORDER BY priority, job_id LIMIT ?;

-- name: any_limited
-- Whether a job of a key is stored.
SELECT 1 FROM limited WHERE name = ? LIMIT 1;

-- name: stand
-- How jobs stand with their keys.
UPDATE limited SET standing = ? WHERE job_id IN (@marks);

-- name: block
-- Jobs that are ready, or were taken just now, leave line and hold.
UPDATE job SET state = @BLOCKED, hold_kind = NULL, hold_token = NULL, hold_owner = NULL, hold_deadline = NULL, dequeued_at = NULL
WHERE id IN (@marks) AND state + 0 = ? RETURNING id, queue, priority;

-- name: stand_blocked
-- The places of jobs that are blocked.
UPDATE limited SET standing = ?, queue = v.column2, priority = v.column3 FROM (VALUES @rows(bigint, text, bigint)) AS v WHERE limited.job_id = v.column1;

-- name: unblock
-- Blocked jobs go into their lines.
UPDATE job SET state = @READY WHERE id IN (@marks) AND state + 0 = @BLOCKED RETURNING id, queue;

-- name: free_limited
-- Jobs to which something else happens.
UPDATE limited SET standing = @KEY_FREE, queue = NULL, priority = NULL WHERE job_id IN (@marks) RETURNING name;

-- name: remove_limited
-- Jobs that are removed.
DELETE FROM limited WHERE job_id IN (@marks) RETURNING name;

-- name: limited_of_nobody
-- For the doctor: jobs of keys that are gone.
SELECT job_id FROM limited WHERE @none(SELECT 1 FROM job WHERE id = limited.job_id);

-- name: remove_limited_of_nobody
DELETE FROM limited WHERE @none(SELECT 1 FROM job WHERE id = limited.job_id) RETURNING name;

-- name: blocked_amiss
-- For the doctor: blocked jobs of which that is not known, so that nothing would ever put them into line.
SELECT id FROM job WHERE state = @BLOCKED AND @none(SELECT 1 FROM limited
    WHERE job_id = job.id AND standing = @KEY_BLOCKED AND queue = job.queue AND priority = job.priority);

-- name: limited_amiss
-- For the doctor: jobs that stand otherwise with their keys than their rows say.
SELECT limited.job_id FROM limited @then(job ON job.id = limited.job_id)
WHERE (standing = @KEY_BLOCKED) <> (state = @BLOCKED) OR standing = @KEY_RUNNING AND state <> @IN_FLIGHT OR standing = @KEY_UNBLOCKED AND state <> @READY;

-- name: keys_forgotten
-- Keys with blocked jobs that nothing would have looked at: no job that runs or was unblocked, and no time. Keys without a job
-- that nothing would have removed.
SELECT DISTINCT l.name FROM limited AS l WHERE l.standing = @KEY_BLOCKED
    AND @none(SELECT 1 FROM limit_key WHERE name = l.name AND (look_at IS NOT NULL OR closed_until = 9223372036854775807))
    AND @none(SELECT 1 FROM limited AS u WHERE u.name = l.name AND u.standing = @KEY_UNBLOCKED)
    AND @none(SELECT 1 FROM limited AS r @then(job ON job.id = r.job_id)
        WHERE r.name = l.name AND r.standing = @KEY_RUNNING AND job.state + 0 = @IN_FLIGHT)
UNION ALL
SELECT name FROM limit_key WHERE look_at IS NULL AND @none(SELECT 1 FROM limited WHERE limited.name = limit_key.name);

-- name: topic_texts
SELECT @bytes(name), @bytes(name) FROM topic;

-- name: mend_topic
UPDATE topic SET name = ? WHERE @bytes(name) = ?;

-- name: subscription_texts
SELECT id, @bytes(topic), @bytes(endpoint), @bytes(status) FROM subscription;

-- name: mend_subscription
UPDATE subscription SET topic = ?, endpoint = ?, status = ? WHERE id = ?;

-- name: message_texts
SELECT id, @bytes(topic), @bytes(type) FROM message;

-- name: mend_message
UPDATE message SET topic = ?, type = ? WHERE id = ?;

-- name: delivery_texts
SELECT id, @bytes(dead_reason), @bytes(trigger), @bytes(cause) FROM delivery;

-- name: mend_delivery
UPDATE delivery SET dead_reason = ?, trigger = ?, cause = ? WHERE id = ?;

-- name: delivery_task_texts
SELECT id, @bytes(status) FROM delivery_task;

-- name: mend_delivery_task
UPDATE delivery_task SET status = ? WHERE id = ?;

-- name: topic
-- One topic.
SELECT name, document, created_at, changed_at FROM topic WHERE name = ?;

-- name: topics
-- Topics by name.
SELECT name, document, created_at, changed_at FROM topic WHERE name > ? ORDER BY name LIMIT ?;

-- name: write_topic
-- A topic, a new one or another.
INSERT INTO topic (name, document, created_at, changed_at) VALUES (?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET document = excluded.document, changed_at = excluded.changed_at;

-- name: drop_topic
DELETE FROM topic WHERE name = ?;

-- name: subscription_at
-- The subscription of an endpoint.
SELECT @subscription FROM subscription WHERE topic = ? AND endpoint = ?;

-- name: subscriptions
-- Subscriptions by id.
SELECT @subscription FROM subscription WHERE id IN (@marks);

-- name: subscribers
-- Subscriptions of a topic whose time is not over.
SELECT @subscription FROM subscription WHERE topic = ? AND id > ? AND (ends_at IS NULL OR ends_at > ?) ORDER BY id LIMIT ?;

-- name: any_subscription
-- Whether anybody has subscribed to anything.
SELECT 1 FROM subscription LIMIT 1;

-- name: count_subscribers
-- How many there are, up to a number.
SELECT count(*) FROM (SELECT 1 FROM subscription WHERE topic = ? AND (ends_at IS NULL OR ends_at > ?) LIMIT ?) AS counted;

-- name: ending_subscriptions
-- Subscriptions whose time is over.
SELECT @subscription FROM subscription WHERE ends_at <= ? ORDER BY ends_at LIMIT ?;

-- name: write_subscriptions
-- Subscriptions, new ones and others.
INSERT INTO subscription (@subscription) VALUES @rows(12)
ON CONFLICT (id) DO UPDATE SET @new_subscription;

-- name: drop_subscription
DELETE FROM subscription WHERE id = ?;

-- name: publication
-- What was published with a key.
SELECT digest, answer FROM publication WHERE topic = ? AND key = ?;

-- name: write_publication
INSERT INTO publication (topic, key, digest, answer, purge_at) VALUES (?, ?, ?, ?, ?);

-- name: messages
-- Messages by id.
SELECT @message FROM message WHERE id IN (@marks);

-- name: messages_of
-- Messages of a topic.
SELECT @message FROM message WHERE topic = ? AND id > ? AND id <= ? ORDER BY id LIMIT ?;

-- name: write_messages
-- New messages.
INSERT INTO message (@message) VALUES @rows(10);

-- name: expand_message
-- How far its deliveries are made.
UPDATE message SET expanded = ? WHERE id = ?;

-- name: policy_number
-- The number of a policy that has one.
SELECT id FROM delivery_policy WHERE document = ?;

-- name: number_policy
-- The number of a new one.
INSERT INTO delivery_policy (document) VALUES (?) RETURNING id;

-- name: delivery_policies
-- Policies by number.
SELECT id, document FROM delivery_policy WHERE id IN (@marks);

-- name: add_deliveries
-- New deliveries; a message goes to a subscription once.
INSERT INTO delivery (@delivery) VALUES @rows(13) ON CONFLICT (message, subscription) DO NOTHING RETURNING id;

-- name: deliveries
-- Deliveries by id.
SELECT @delivery FROM delivery WHERE id IN (@marks);

-- name: deliveries_of
-- Deliveries of a subscription.
SELECT @delivery FROM delivery WHERE subscription = ? AND id > ? AND id <= ? ORDER BY id LIMIT ?;

-- name: last_deliveries_of
-- The last deliveries of a subscription up to one, the newest first.
SELECT @delivery FROM delivery WHERE subscription = ? AND id <= ? ORDER BY id DESC LIMIT ?;

-- name: dead_deliveries
-- Dead deliveries.
SELECT @delivery FROM delivery WHERE status = @DELIVERY_DEAD AND id > ? AND id <= ? ORDER BY id LIMIT ?;

-- name: deliveries_between
-- Deliveries of all subscriptions.
SELECT @delivery FROM delivery WHERE id > ? AND id <= ? ORDER BY id LIMIT ?;

-- name: delivery_of
-- The delivery of a message to a subscription.
SELECT @delivery FROM delivery WHERE message = ? AND subscription = ?;

-- name: write_deliveries
-- Deliveries as they are now.
UPDATE delivery SET job = v.column2, policy = v.column3, status = v.column4, dead_reason = v.column5, trigger = v.column6,
    attempts = v.column7, first_at = v.column8, cause = v.column9, held_ms = v.column10, purge_at = v.column11
FROM (VALUES @rows(bigint, bigint, bigint, bigint, text, text, bigint, bigint, text, bigint, bigint)) AS v WHERE delivery.id = v.column1;

-- name: drop_delivery
DELETE FROM delivery WHERE id = ?;

-- name: drop_delivery_attempts
DELETE FROM delivery_attempt WHERE delivery = ?;

-- name: write_attempts
-- Attempts that begin, or what came of them.
INSERT INTO delivery_attempt (delivery, number, started_at, document) VALUES @rows(4)
ON CONFLICT (delivery, number) DO UPDATE SET started_at = excluded.started_at, document = excluded.document;

-- name: drop_begun_attempts
-- Attempts that have not begun after all.
DELETE FROM delivery_attempt WHERE (delivery, number) IN (VALUES @rows(bigint, bigint));

-- name: begun_attempts
-- Those of some attempts that are there.
SELECT delivery, number, started_at, document FROM delivery_attempt WHERE (delivery, number) IN (VALUES @rows(bigint, bigint));

-- name: delivery_attempts
-- The attempts of a delivery.
SELECT delivery, number, started_at, document FROM delivery_attempt WHERE delivery = ? AND number > ? ORDER BY number LIMIT ?;

-- name: last_delivery_attempts
-- The last attempt of each of some deliveries.
SELECT a.delivery, a.number, a.started_at, a.document FROM (VALUES @rows(bigint)) AS v
@then(delivery_attempt AS a ON a.delivery = v.column1
    AND a.number = (SELECT max(number) FROM delivery_attempt WHERE delivery = v.column1));

-- name: purge_messages
DELETE FROM message WHERE id @first(SELECT id FROM message WHERE purge_at <= ? ORDER BY purge_at LIMIT ?) RETURNING id;

-- name: leave_deliveries
-- Deliveries of messages that are removed, and whose jobs somebody has removed: they are over.
UPDATE delivery SET status = @DELIVERY_CANCELLED, purge_at = ? WHERE message IN (@marks) AND status = @DELIVERY_LIVE
    AND @none(SELECT 1 FROM job WHERE job.id = delivery.job);

-- name: purge_publications
DELETE FROM publication WHERE (topic, key) IN
    (SELECT topic, key FROM publication WHERE purge_at <= ? ORDER BY purge_at LIMIT ?) RETURNING purge_at;

-- name: purge_deliveries
DELETE FROM delivery WHERE id @first(SELECT id FROM delivery WHERE purge_at <= ? ORDER BY purge_at LIMIT ?) RETURNING id;

-- name: purge_attempts
DELETE FROM delivery_attempt WHERE delivery IN (@marks);

-- name: count_topics
-- Counters that have gone up.
INSERT INTO topic_count (name, label, value) VALUES @rows(3)
ON CONFLICT (name, label) DO UPDATE SET value = topic_count.value + excluded.value;

-- name: topic_counts
-- All counters.
SELECT @bytes(name), @bytes(label), value FROM topic_count;

-- name: subscription_counts
-- Subscriptions by status.
SELECT @bytes(status), count(*) FROM subscription GROUP BY status;

-- name: unwell_subscriptions
-- How the endpoints do that have failed of late.
SELECT health FROM subscription WHERE length(health) > 2;

-- name: blocked_since
-- The first blocked job of each key, and the oldest of them.
SELECT min(first) FROM (SELECT (SELECT job_id FROM limited WHERE name = k.name AND standing = @KEY_BLOCKED AND queue = ?1
    ORDER BY priority, job_id LIMIT 1) AS first FROM limit_key AS k) AS firsts;

-- name: delivery_task
-- One task.
SELECT id, document, status, position, done, purge_at FROM delivery_task WHERE id = ?;

-- name: write_delivery_task
-- A task, a new one or another.
INSERT INTO delivery_task (id, document, status, position, done, purge_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET status = excluded.status, position = excluded.position, done = excluded.done;

-- name: purge_delivery_tasks
DELETE FROM delivery_task WHERE id @first(SELECT id FROM delivery_task WHERE purge_at <= ? ORDER BY purge_at LIMIT ?) RETURNING id;

-- name: deliveries_of_message
-- Deliveries of a message, by subscription.
SELECT @delivery FROM delivery WHERE message = ? AND subscription > ? ORDER BY subscription LIMIT ?;

-- name: empty_queue
-- When every job is removed.
DELETE FROM queue;
