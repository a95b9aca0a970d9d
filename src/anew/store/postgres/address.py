"""How people name a PostgreSQL database, and how it is shown to them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final
from urllib.parse import urlsplit

from anew.errors import InvalidConfig

SCHEMES: Final = ("postgresql://", "postgres://")


def is_url(text: str) -> bool:
    """Report whether a text names a PostgreSQL database."""
    return text.startswith(SCHEMES)


def without_password(url: str) -> str:
    """Give a database's address for people: user, host, port and name, and nothing that may be a secret."""
    parts = urlsplit(url)
    _, _, host = parts.netloc.rpartition("@")
    user = f"{parts.username}@" if parts.username else ""
    return f"postgresql://{user}{host}{parts.path}"


def require_extra() -> None:
    """Make sure that the driver is installed.

    Raises:
        InvalidConfig: It is not.
    """
    if find_spec("psycopg") is None:
        raise InvalidConfig(
            "a PostgreSQL store needs psycopg; pip install 'anew[postgres]' brings it", field="store"
        )
