"""The engine of one file: SQLite through apsw, write-ahead log, one writer."""

from anew.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
