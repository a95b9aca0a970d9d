-- Each group of cron entries has a row. One that an API puts may have no entries, and says when it was paused and resumed.
ALTER TABLE cron_paused RENAME TO cron_group;
ALTER TABLE cron_group RENAME COLUMN group_name TO name;
ALTER TABLE cron_group ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE cron_group ADD COLUMN paused_at INTEGER;
ALTER TABLE cron_group ADD COLUMN resumed_at INTEGER;
-- Of its entries that name none.
ALTER TABLE cron_group ADD COLUMN timezone TEXT;
-- Until now a group had a row while it was paused; since when was not written down.
UPDATE cron_group SET paused = 1;
INSERT OR IGNORE INTO cron_group (name) SELECT group_name FROM cron;
