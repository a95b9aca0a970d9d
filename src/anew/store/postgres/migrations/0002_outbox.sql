-- Jobs that are enqueued in somebody's own transaction: each is a row here until the first batch after its commit, of whichever process,
-- which makes the job and removes the row.

CREATE TABLE outbox (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The job as JSON.
    job BYTEA NOT NULL,
    -- Why it is none; it stays for somebody to look at.
    refused TEXT
);
CREATE INDEX outbox_waiting ON outbox (id) WHERE refused IS NULL;

-- For programs that know the form of a job: `Anew.outbox`.
CREATE FUNCTION enqueue_job(job JSON) RETURNS VOID LANGUAGE plpgsql SECURITY DEFINER SET search_path = anew, pg_temp AS $$
BEGIN
    IF octet_length(enqueue_job.job::text) > 16777216 THEN
        RAISE EXCEPTION 'job: expected at most 16 MiB' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO outbox (job) VALUES (convert_to(enqueue_job.job::text, 'UTF8'));
    PERFORM pg_notify('anew_ready', '');
END $$;

-- For everybody: SELECT anew.enqueue('greet', '{"name": "Ada"}'). Gives the id by which the job is found: `anew jobs list --jid ID`.
CREATE FUNCTION enqueue(
    type TEXT,
    payload JSON DEFAULT 'null',
    queue TEXT DEFAULT 'default',
    priority INTEGER DEFAULT 32768,
    run_at TIMESTAMPTZ DEFAULT NULL,
    policy JSON DEFAULT '{"preset": "even"}',
    retry_limit INTEGER DEFAULT NULL
) RETURNS TEXT LANGUAGE plpgsql SECURITY DEFINER SET search_path = anew, pg_temp AS $$
DECLARE
    jid TEXT := replace(gen_random_uuid()::text, '-', '');
BEGIN
    IF coalesce(enqueue.type, '') = '' THEN
        RAISE EXCEPTION 'type: expected a name' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF coalesce(enqueue.queue, '') = '' THEN
        RAISE EXCEPTION 'queue: expected a name' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF enqueue.priority IS NULL OR enqueue.priority NOT BETWEEN 0 AND 65535 THEN
        RAISE EXCEPTION 'priority: % is not valid; expected 0 to 65535', enqueue.priority USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF enqueue.retry_limit < 0 THEN
        RAISE EXCEPTION 'retry_limit: % is not valid; expected 0 or more', enqueue.retry_limit USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM enqueue_job(json_build_object(
        'type', enqueue.type, 'queue', enqueue.queue, 'payload', coalesce(enqueue.payload, 'null'::json), 'priority', enqueue.priority,
        'ready_at', floor(extract(epoch FROM enqueue.run_at) * 1000)::bigint,
        'policy', coalesce(enqueue.policy, '{"preset": "even"}'::json), 'retry_limit', enqueue.retry_limit, 'jid', jid));
    RETURN jid;
END $$;
