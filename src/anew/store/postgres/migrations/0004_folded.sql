-- How many new jobs were folded into each.
ALTER TABLE job ADD COLUMN folded BIGINT NOT NULL DEFAULT 0;
