"""The engine of many machines: one PostgreSQL database, through psycopg, which is an extra of its own."""

from anew.store.postgres.address import is_url, require_extra, without_password
from anew.store.sql import SqlStore
from anew.store.sql.examination import Examination

__all__ = ["examine_postgres", "is_url", "open_postgres", "require_extra", "without_password"]


def open_postgres(url: str, *, relaxed: bool = False, keep_first: int = 10, keep_last: int = 90) -> SqlStore:
    """Open a store in a PostgreSQL database; see `anew.store.postgres.link.open_postgres`.

    Raises:
        InvalidConfig: The driver is not installed.
    """
    require_extra()
    from anew.store.postgres import link

    return link.open_postgres(url, relaxed=relaxed, keep_first=keep_first, keep_last=keep_last)


def examine_postgres(url: str, now: int) -> Examination:
    """Look a store in a PostgreSQL database over; see `anew.store.postgres.examination.examine`.

    Raises:
        InvalidConfig: The driver is not installed.
    """
    require_extra()
    from anew.store.postgres import examination

    return examination.examine(url, now)
