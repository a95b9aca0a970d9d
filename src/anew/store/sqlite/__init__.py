"""The engine of one file: SQLite through apsw, write-ahead log, one writer."""

from anew.store.sqlite.archive import SqliteArchive
from anew.store.sqlite.backup import Copied, back_up, restore
from anew.store.sqlite.examination import Examination, Finding, examine
from anew.store.sqlite.opening import Places
from anew.store.sqlite.sent import archive, remove_unsent
from anew.store.sqlite.store import SqliteStore

__all__ = [
    "Copied",
    "Examination",
    "Finding",
    "Places",
    "SqliteArchive",
    "SqliteStore",
    "archive",
    "back_up",
    "examine",
    "remove_unsent",
    "restore",
]
