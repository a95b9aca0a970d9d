"""The store in SQL, whatever the engine: rows, statements, and what is derived of them. An engine brings its link."""

from anew.store.sql.store import SqlStore, open_stores

__all__ = ["SqlStore", "open_stores"]
