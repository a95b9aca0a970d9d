"""The engine of one file: SQLite through apsw, write-ahead log, one writer."""

from anew.store.sqlite.archive import SqliteArchive
from anew.store.sqlite.connection import Places
from anew.store.sqlite.store import SqliteStore

__all__ = ["Places", "SqliteArchive", "SqliteStore"]
