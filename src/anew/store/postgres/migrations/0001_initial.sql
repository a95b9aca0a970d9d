-- Instants are milliseconds since the Unix epoch, durations milliseconds. Names compare by their bytes.
--
-- State codes: 10 scheduled, 20 retrying, 30 ready, 32 ready and in no line, 40 in_flight, 50 completed, 60 dead, 70 cancelled. Waiting
-- states are < 30 and ended ones > 40, so that partial indexes can name them by a comparison.

-- Whose turn it is to write: who has locked this row. The number tells everybody else whether to read again what is remembered.
CREATE TABLE turn (version BIGINT NOT NULL) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);
INSERT INTO turn VALUES (0);

CREATE TABLE job (
    id BIGINT PRIMARY KEY,
    queue TEXT COLLATE "C" NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    priority BIGINT NOT NULL,
    state BIGINT NOT NULL,
    ready_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    interruptions BIGINT NOT NULL DEFAULT 0,
    -- The hold on an attempt. Kinds: 10 stream, 20 reservation, 30 session. The owner is a row of `session`.
    hold_kind BIGINT,
    hold_token BIGINT,
    hold_owner BIGINT,
    hold_deadline BIGINT,
    dequeued_at BIGINT,
    failed_at BIGINT,
    first_failed_at BIGINT,
    completed_at BIGINT,
    purge_at BIGINT,
    retry_limit BIGINT,
    policy BYTEA,
    retention BYTEA,
    phase FLOAT8,
    carry FLOAT8,
    -- A payload above the inline limit lives in its own table, so that a change of state does not rewrite it.
    payload_bytes BIGINT,
    payload_crc BIGINT,
    -- Rows of `attempt` that this job has, and the bytes of their texts.
    records BIGINT NOT NULL DEFAULT 0,
    record_bytes BIGINT NOT NULL DEFAULT 0,
    -- When a waiting job whose time is far is entered into the index of due times; NULL: it is there.
    near_at BIGINT,
    -- The id that a producer gave, not unique; what the door that it came through must give back unchanged; for how long a
    -- reservation of it lasts.
    jid TEXT COLLATE "C",
    meta BYTEA,
    reserve_ms BIGINT,
    -- What it is tied to: bits, 0 for nearly all jobs.
    hooks BIGINT NOT NULL DEFAULT 0,
    expires_at BIGINT,
    batch BIGINT,
    unique_digest BYTEA,
    unique_scope TEXT,
    payload BYTEA
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
-- Next in line, in one queue.
CREATE INDEX job_ready ON job (queue, priority, id) WHERE state = 30;
-- Next to become due; those whose time is far stand in a coarse index first.
CREATE INDEX job_due ON job (ready_at, id) WHERE state < 30 AND near_at IS NULL;
CREATE INDEX job_far ON job (near_at) WHERE near_at IS NOT NULL;
-- Next hold to lapse, and what a session holds.
CREATE INDEX job_hold ON job (hold_deadline, hold_owner, hold_kind) WHERE state = 40;
-- Next whose retention ends.
CREATE INDEX job_purge ON job (purge_at) WHERE state > 40;
-- A job in flight by its producer's id.
CREATE INDEX job_jid ON job (jid) WHERE state = 40 AND jid IS NOT NULL;
-- Jobs that are not to be stored again under the same id, in whatever state.
CREATE INDEX job_once ON job (jid) WHERE hooks & 128 <> 0;

-- A long payload in parts, so that it can be written over several transactions.
CREATE TABLE payload (
    job_id BIGINT NOT NULL,
    part BIGINT NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (job_id, part)
);
-- Jobs of which parts are written and which are not there yet themselves, and by which session.
CREATE TABLE staged (job_id BIGINT PRIMARY KEY, owner BIGINT NOT NULL DEFAULT 0);

CREATE TABLE attempt (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    error_type TEXT,
    message TEXT NOT NULL,
    backtrace TEXT,
    dequeued_at BIGINT NOT NULL,
    failed_at BIGINT NOT NULL,
    decision BYTEA
);
CREATE INDEX attempt_job ON attempt (job_id, attempt, id);
-- Attempts whose records were dropped because a job had too many, counted by outcome and error type.
CREATE TABLE attempt_count (
    job_id BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    error_type TEXT COLLATE "C" NOT NULL,
    attempts BIGINT NOT NULL,
    PRIMARY KEY (job_id, outcome, error_type)
);
-- Jobs that are deleted while many records or long payloads of theirs are still to be removed, some at a time.
CREATE TABLE leftover (job_id BIGINT PRIMARY KEY);

-- What is derived by queue, kept in step by each commit: jobs by state, and the place of the first ready job.
CREATE TABLE queue (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL,
    scheduled BIGINT NOT NULL DEFAULT 0,
    retrying BIGINT NOT NULL DEFAULT 0,
    ready BIGINT NOT NULL DEFAULT 0,
    in_flight BIGINT NOT NULL DEFAULT 0,
    completed BIGINT NOT NULL DEFAULT 0,
    dead BIGINT NOT NULL DEFAULT 0,
    cancelled BIGINT NOT NULL DEFAULT 0,
    -- Ready jobs that stand in no line.
    blocked BIGINT NOT NULL DEFAULT 0,
    -- It stays listed when it has no job; it hands out nothing.
    listed BIGINT NOT NULL DEFAULT 0,
    paused BIGINT NOT NULL DEFAULT 0,
    head_priority BIGINT,
    head_id BIGINT
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX queue_name ON queue (name);
-- The heads of all lines, with the names of their queues.
CREATE INDEX queue_first ON queue (head_priority, head_id, name) WHERE head_id IS NOT NULL;

-- Processes that may hold jobs. Each also keeps an advisory lock; a row whose lock nobody has belongs to a dead process.
CREATE TABLE session (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pid BIGINT NOT NULL,
    started_at BIGINT NOT NULL
);
-- When each periodic duty was last done, whoever did it.
CREATE TABLE duty (name TEXT PRIMARY KEY, done_at BIGINT NOT NULL);
-- Attempts that have ended, by day (UTC, days since the Unix epoch): all, and those that failed.
CREATE TABLE day (day BIGINT PRIMARY KEY, processed BIGINT NOT NULL, failed BIGINT NOT NULL);
-- What is stored about the store itself, as text.
CREATE TABLE meta (name TEXT COLLATE "C" PRIMARY KEY, value TEXT NOT NULL);

-- Keys that are held. A lock with an end outlives its job.
CREATE TABLE unique_lock (
    digest BYTEA PRIMARY KEY,
    job_id BIGINT NOT NULL,
    scope TEXT NOT NULL,
    ends_at BIGINT
);
CREATE INDEX unique_lock_job ON unique_lock (job_id);
CREATE INDEX unique_lock_end ON unique_lock (ends_at) WHERE ends_at IS NOT NULL;

-- Batches: counters, never lists of jobs. Callbacks wait as the jobs that they will be, as JSON.
CREATE TABLE batch (
    id BIGINT PRIMARY KEY,
    parent BIGINT,
    total BIGINT NOT NULL,
    pending BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    committed BIGINT NOT NULL,
    complete BIGINT NOT NULL,
    success BIGINT NOT NULL,
    open_children BIGINT NOT NULL,
    unsuccessful_children BIGINT NOT NULL,
    purge_at BIGINT,
    meta BYTEA,
    on_complete BYTEA,
    on_success BYTEA
);
CREATE INDEX batch_purge ON batch (purge_at) WHERE purge_at IS NOT NULL;

-- What is known of jobs' progress, by the id that they are known by; it outlives the job.
CREATE TABLE progress (
    jid TEXT COLLATE "C" PRIMARY KEY,
    job_id BIGINT,
    word TEXT NOT NULL,
    percent BIGINT,
    description TEXT,
    updated_at BIGINT NOT NULL
);
CREATE INDEX progress_age ON progress (updated_at);

-- Slots of queues that have a limit; the limits themselves stand in `meta`.
CREATE TABLE slot (
    queue TEXT COLLATE "C" NOT NULL,
    taken_at BIGINT NOT NULL,
    job_id BIGINT NOT NULL,
    token BIGINT,
    worker TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (queue, taken_at, job_id)
);

CREATE TABLE cron (
    group_name TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    expression TEXT NOT NULL,
    timezone TEXT,
    paused BIGINT NOT NULL,
    paused_at BIGINT,
    resumed_at BIGINT,
    patience_ms BIGINT,
    next_at BIGINT,
    last_slot_at BIGINT,
    last_fired_at BIGINT,
    -- What it enqueues, as JSON.
    job BYTEA NOT NULL,
    PRIMARY KEY (group_name, name)
);
-- Next slot of all.
CREATE INDEX cron_next ON cron (next_at) WHERE next_at IS NOT NULL;
CREATE TABLE cron_group (
    name TEXT COLLATE "C" PRIMARY KEY,
    paused BIGINT NOT NULL DEFAULT 0,
    paused_at BIGINT,
    resumed_at BIGINT,
    timezone TEXT
);

-- Circuit breakers of the services that handlers call: one row a service. What each number means is said in `jobs/breaker.py`.
CREATE TABLE breaker (
    key TEXT COLLATE "C" PRIMARY KEY,
    state TEXT NOT NULL,
    runs FLOAT8 NOT NULL,
    failures FLOAT8 NOT NULL,
    retries FLOAT8 NOT NULL,
    at BIGINT NOT NULL,
    opened BIGINT NOT NULL,
    reopen_at BIGINT NOT NULL,
    probe BIGINT NOT NULL,
    next_release_at BIGINT NOT NULL
);

-- One row a key that has a limit: its bounds as JSON, its bucket, when it is to be looked at again, what holds it back for a time.
CREATE TABLE limit_key (
    name TEXT COLLATE "C" PRIMARY KEY,
    bounds BYTEA NOT NULL,
    debt BIGINT NOT NULL,
    at BIGINT NOT NULL,
    look_at BIGINT,
    closed_until BIGINT NOT NULL DEFAULT 0,
    probing BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX limit_key_look ON limit_key (look_at) WHERE look_at IS NOT NULL;
-- One row a job of a key, as long as the job is stored. What each standing means is said in `jobs/key_limits.py`.
CREATE TABLE limited (
    job_id BIGINT PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL,
    standing BIGINT NOT NULL,
    queue TEXT COLLATE "C",
    priority BIGINT
);
CREATE INDEX limited_name ON limited (name, standing, queue, priority, job_id);

CREATE TABLE topic (
    name TEXT COLLATE "C" PRIMARY KEY,
    document BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL
);
-- One row a subscription: what its owner has said, its keys (encrypted), and how its endpoint has done.
CREATE TABLE subscription (
    id BIGINT PRIMARY KEY,
    topic TEXT COLLATE "C" NOT NULL,
    endpoint TEXT COLLATE "C" NOT NULL,
    status TEXT NOT NULL,
    document BYTEA NOT NULL,
    keys BYTEA NOT NULL,
    health BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    ends_at BIGINT,
    held_at BIGINT,
    held_ms BIGINT NOT NULL
);
CREATE UNIQUE INDEX subscription_endpoint ON subscription (topic, endpoint);
CREATE INDEX subscription_topic ON subscription (topic, id);
CREATE INDEX subscription_end ON subscription (ends_at) WHERE ends_at IS NOT NULL;
-- What was published. `expanded` is the last subscription that has its delivery; NULL: all have.
CREATE TABLE message (
    id BIGINT PRIMARY KEY,
    topic TEXT COLLATE "C" NOT NULL,
    type TEXT NOT NULL,
    attributes BYTEA,
    data BYTEA NOT NULL,
    published_at BIGINT NOT NULL,
    due_at BIGINT NOT NULL,
    ends_at BIGINT,
    purge_at BIGINT NOT NULL,
    expanded BIGINT
);
CREATE INDEX message_topic ON message (topic, id);
CREATE INDEX message_purge ON message (purge_at);
-- Answers to publications that were sent with a key, to be given again.
CREATE TABLE publication (
    topic TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    digest BYTEA NOT NULL,
    answer BYTEA NOT NULL,
    purge_at BIGINT NOT NULL,
    PRIMARY KEY (topic, key)
);
CREATE INDEX publication_purge ON publication (purge_at);
-- Policies as they were when deliveries were made by them, each once; found by their hash, as they may be too long for an index.
CREATE TABLE delivery_policy (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    document BYTEA NOT NULL
);
CREATE INDEX delivery_policy_document ON delivery_policy USING hash (document);
-- One row for each message and subscription. Status 0: its job says it. 1: delivered. 2: dead. 3: cancelled.
CREATE TABLE delivery (
    id BIGINT PRIMARY KEY,
    message BIGINT NOT NULL,
    subscription BIGINT NOT NULL,
    job BIGINT NOT NULL,
    policy BIGINT NOT NULL,
    status BIGINT NOT NULL,
    dead_reason TEXT,
    trigger TEXT NOT NULL,
    attempts BIGINT NOT NULL,
    first_at BIGINT,
    cause TEXT,
    held_ms BIGINT NOT NULL,
    purge_at BIGINT
);
CREATE UNIQUE INDEX delivery_pair ON delivery (message, subscription);
CREATE INDEX delivery_subscription ON delivery (subscription, id);
CREATE INDEX delivery_dead ON delivery (id) WHERE status = 2;
CREATE INDEX delivery_purge ON delivery (purge_at) WHERE purge_at IS NOT NULL;
-- One row an attempt; without a document it has begun and nothing was heard of it yet.
CREATE TABLE delivery_attempt (
    delivery BIGINT NOT NULL,
    number BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    document BYTEA,
    PRIMARY KEY (delivery, number)
);
-- Work on many deliveries, done a chunk at a time. `position` is the last delivery or message looked at.
CREATE TABLE delivery_task (
    id BIGINT PRIMARY KEY,
    document BYTEA NOT NULL,
    status TEXT NOT NULL,
    position BIGINT NOT NULL,
    done BIGINT NOT NULL,
    purge_at BIGINT NOT NULL
);
CREATE INDEX delivery_task_purge ON delivery_task (purge_at);
-- What has happened, by counter and label; several processes add to it.
CREATE TABLE topic_count (
    name TEXT COLLATE "C" NOT NULL,
    label TEXT COLLATE "C" NOT NULL,
    value BIGINT NOT NULL,
    PRIMARY KEY (name, label)
);
