-- Each batch writes the turn, the day's counts and the rows of its queues, and while a transaction is open, a dump for instance, PostgreSQL keeps
-- every version that such a row has had since. So each version gets a number that grows: the present one is the last of an index, and is found
-- without a look at those before it. Without the number all versions would stand under one key, and each write would visit them all.
CREATE INDEX turn_version ON turn (version);
ALTER TABLE turn RESET (fillfactor);
DROP INDEX queue_name;
ALTER TABLE queue DROP CONSTRAINT queue_pkey, ADD CONSTRAINT queue_name PRIMARY KEY (name, id), RESET (fillfactor);
ALTER TABLE day DROP CONSTRAINT day_pkey, ADD COLUMN id BIGINT GENERATED ALWAYS AS IDENTITY, ADD PRIMARY KEY (day, id);
ALTER TABLE wrote DROP CONSTRAINT wrote_pkey, ADD PRIMARY KEY (session, version), RESET (fillfactor);
