"""The engine of many machines: one PostgreSQL database, through psycopg."""

from anew.store.postgres.link import open_postgres
from anew.store.postgres.opening import is_url, without_password

__all__ = ["is_url", "open_postgres", "without_password"]
