-- Topics, their subscriptions, what is published, and what became of each delivery.

-- What holds back the jobs of a key for a time. New columns without an index change no row.
ALTER TABLE limit_key ADD COLUMN closed_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE limit_key ADD COLUMN probing INTEGER NOT NULL DEFAULT 0;

CREATE TABLE topic (
    name TEXT PRIMARY KEY,
    document BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row a subscription: what its owner has said, its keys (encrypted), and how its endpoint has done. `held_at` says since when
-- its deliveries are held, `held_ms` how long they were before.
CREATE TABLE subscription (
    id INTEGER PRIMARY KEY,
    topic TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    status TEXT NOT NULL,
    document BLOB NOT NULL,
    keys BLOB NOT NULL,
    health BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    ends_at INTEGER,
    held_at INTEGER,
    held_ms INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX subscription_endpoint ON subscription (topic, endpoint);
CREATE INDEX subscription_topic ON subscription (topic, id);
CREATE INDEX subscription_end ON subscription (ends_at) WHERE ends_at IS NOT NULL;

-- What was published. `expanded` is the last subscription that has its delivery; NULL: all have.
CREATE TABLE message (
    id INTEGER PRIMARY KEY,
    topic TEXT NOT NULL,
    type TEXT NOT NULL,
    attributes BLOB,
    data BLOB NOT NULL,
    published_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    ends_at INTEGER,
    purge_at INTEGER NOT NULL,
    expanded INTEGER
) STRICT;
CREATE INDEX message_topic ON message (topic, id);
CREATE INDEX message_purge ON message (purge_at);

-- Answers to publications that were sent with a key, to be given again.
CREATE TABLE publication (
    topic TEXT NOT NULL,
    key TEXT NOT NULL,
    digest BLOB NOT NULL,
    answer BLOB NOT NULL,
    purge_at INTEGER NOT NULL,
    PRIMARY KEY (topic, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX publication_purge ON publication (purge_at);

-- Policies as they were when deliveries were made by them, each once.
CREATE TABLE delivery_policy (
    id INTEGER PRIMARY KEY,
    document BLOB NOT NULL UNIQUE
) STRICT;

-- One row for each message and subscription; `job` is the engine's. Status 0: its job says it. 1: delivered. 2: dead. 3: cancelled.
CREATE TABLE delivery (
    id INTEGER PRIMARY KEY,
    message INTEGER NOT NULL,
    subscription INTEGER NOT NULL,
    job INTEGER NOT NULL,
    policy INTEGER NOT NULL,
    status INTEGER NOT NULL,
    dead_reason TEXT,
    trigger TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    first_at INTEGER,
    cause TEXT,
    held_ms INTEGER NOT NULL,
    purge_at INTEGER
) STRICT;
CREATE UNIQUE INDEX delivery_pair ON delivery (message, subscription);
CREATE INDEX delivery_subscription ON delivery (subscription, id);
CREATE INDEX delivery_dead ON delivery (id) WHERE status = 2;
CREATE INDEX delivery_purge ON delivery (purge_at) WHERE purge_at IS NOT NULL;

-- One row an attempt; without a document it has begun and nothing was heard of it yet.
CREATE TABLE delivery_attempt (
    delivery INTEGER NOT NULL,
    number INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    document BLOB,
    PRIMARY KEY (delivery, number)
) STRICT, WITHOUT ROWID;

-- Work on many deliveries, done a chunk at a time: sending them again. `position` is the last delivery or message looked at.
CREATE TABLE delivery_task (
    id INTEGER PRIMARY KEY,
    document BLOB NOT NULL,
    status TEXT NOT NULL,
    position INTEGER NOT NULL,
    done INTEGER NOT NULL,
    purge_at INTEGER NOT NULL
) STRICT;
CREATE INDEX delivery_task_purge ON delivery_task (purge_at);

-- What has happened, by counter and label; several processes add to it.
CREATE TABLE topic_count (
    name TEXT NOT NULL,
    label TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (name, label)
) STRICT, WITHOUT ROWID;
