"""The engine of many machines: one PostgreSQL database, through psycopg, which is an extra of its own."""

from importlib.util import find_spec

from anew.errors import InvalidConfig
from anew.store.sql import SqlStore
from anew.store.sql.examination import Examination

__all__ = ["examine_postgres", "open_postgres"]


def open_postgres(url: str, *, relaxed: bool = False, keep_first: int = 10, keep_last: int = 90) -> SqlStore:
    """Open a store in a PostgreSQL database; see `anew.store.postgres.link.open_postgres`.

    Raises:
        InvalidConfig: The driver is not installed.
    """
    _require_driver()
    from anew.store.postgres import link

    return link.open_postgres(url, relaxed=relaxed, keep_first=keep_first, keep_last=keep_last)


def examine_postgres(url: str, now: int) -> Examination:
    """Look a store in a PostgreSQL database over; see `anew.store.postgres.examination.examine`.

    Raises:
        InvalidConfig: The driver is not installed.
    """
    _require_driver()
    from anew.store.postgres import examination

    return examination.examine(url, now)


def _require_driver() -> None:
    if find_spec("psycopg") is None:
        raise InvalidConfig(
            "a PostgreSQL store needs psycopg; pip install 'anew[postgres]' brings it", field="store"
        )
