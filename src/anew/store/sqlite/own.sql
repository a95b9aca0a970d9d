-- Statements that only SQLite has, or has in its own words.

-- name: failing
-- Of so many jobs that are dead and so many that will be tried again: what they last failed with, the most frequent first.
WITH failing (id) AS (
    SELECT id FROM (SELECT id, state FROM job INDEXED BY job_purge WHERE state > 40 ORDER BY purge_at LIMIT ?1) WHERE state = @DEAD
    UNION SELECT id FROM (SELECT id, state FROM job INDEXED BY job_purge WHERE state > 40 ORDER BY purge_at DESC LIMIT ?1) WHERE state = @DEAD
    UNION SELECT id FROM (SELECT id, state FROM job INDEXED BY job_due WHERE state < @READY AND near_at IS NULL ORDER BY ready_at LIMIT ?1)
        WHERE state = @RETRYING
    UNION SELECT id FROM (SELECT id, state FROM job INDEXED BY job_far WHERE near_at IS NOT NULL ORDER BY near_at LIMIT ?1)
        WHERE state = @RETRYING
)
SELECT CAST(job.type AS BLOB), CAST(a.error_type AS BLOB), count(*) FILTER (WHERE job.state = @DEAD), count(*) FILTER (WHERE job.state = @RETRYING), max(a.failed_at),
    CAST(substr(a.message, 1, 1000) AS BLOB)
FROM failing CROSS JOIN job ON job.id = failing.id CROSS JOIN attempt AS a ON a.id = (SELECT b.id FROM attempt AS b
    WHERE b.job_id = job.id AND b.attempt <= job.attempts + 1 ORDER BY b.attempt DESC, b.id DESC LIMIT 1)
GROUP BY 1, 2 ORDER BY count(*) DESC, 1, 2 LIMIT ?2;

-- name: damaged
-- Jobs of which something cannot be read and that have not been set aside.
SELECT id FROM job WHERE (
    state NOT IN (@STATES) OR NOT json_valid(CAST(coalesce(policy, '1') AS TEXT)) OR (payload IS NULL AND payload_bytes IS NULL)
    OR payload_bytes <> coalesce((SELECT sum(length(data)) FROM payload WHERE job_id = job.id), 0)
) AND id NOT IN (SELECT job_id FROM attempt WHERE outcome = 'corrupt');

-- name: store_facts
-- What the store is: its engine, the bytes that it has, and the number of its schema.
SELECT 'SQLite ' || sqlite_version(), page_count * page_size, user_version FROM pragma_page_count, pragma_page_size, pragma_user_version;
