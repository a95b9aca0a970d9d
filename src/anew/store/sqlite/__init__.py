"""The engine of one file: SQLite through apsw, write-ahead log, one writer."""

from anew.store.sqlite.archive import SqliteArchive
from anew.store.sqlite.backup import Copied, back_up, restore
from anew.store.sqlite.examination import examine
from anew.store.sqlite.link import open_sqlite
from anew.store.sqlite.opening import Places
from anew.store.sqlite.sent import archive, remove_unsent

__all__ = [
    "Copied",
    "Places",
    "SqliteArchive",
    "archive",
    "back_up",
    "examine",
    "open_sqlite",
    "remove_unsent",
    "restore",
]
