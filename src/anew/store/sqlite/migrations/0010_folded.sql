-- How many new jobs were folded into each. A new column without an index changes no row.
ALTER TABLE job ADD COLUMN folded INTEGER NOT NULL DEFAULT 0;
