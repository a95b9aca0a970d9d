-- Circuit breakers of the services that handlers call: one row a service. What each number means is said in `jobs/breaker.py`.
CREATE TABLE breaker (
    key TEXT NOT NULL PRIMARY KEY,
    state TEXT NOT NULL,
    runs REAL NOT NULL,
    failures REAL NOT NULL,
    retries REAL NOT NULL,
    at INTEGER NOT NULL,
    opened INTEGER NOT NULL,
    reopen_at INTEGER NOT NULL,
    probe INTEGER NOT NULL,
    next_release_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
