-- A transaction that enqueues tells nobody: at its COMMIT a NOTIFY would take a lock that the whole server has once. Each process that has the
-- store open looks for rows of the outbox by itself.

CREATE OR REPLACE FUNCTION enqueue_job(job JSON) RETURNS VOID LANGUAGE plpgsql SECURITY DEFINER SET search_path = anew, pg_temp AS $$
BEGIN
    IF octet_length(enqueue_job.job::text) > 16777216 THEN
        RAISE EXCEPTION 'job: expected at most 16 MiB' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO outbox (job) VALUES (convert_to(enqueue_job.job::text, 'UTF8'));
END $$;
