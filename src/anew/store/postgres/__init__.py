"""The engine of many machines: one PostgreSQL database, through psycopg, which is an extra of its own."""

from anew.store.postgres.address import is_url, require_extra, without_password
from anew.store.sql import SqlStore

__all__ = ["is_url", "open_postgres", "require_extra", "without_password"]


def open_postgres(url: str, *, relaxed: bool = False, keep_first: int = 10, keep_last: int = 90) -> SqlStore:
    """Open a store in a PostgreSQL database; see `anew.store.postgres.link.open_postgres`.

    Raises:
        InvalidConfig: The driver is not installed.
    """
    require_extra()
    from anew.store.postgres import link

    return link.open_postgres(url, relaxed=relaxed, keep_first=keep_first, keep_last=keep_last)
