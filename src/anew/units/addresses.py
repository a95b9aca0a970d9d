"""Addresses as people give them and may see them."""

from __future__ import annotations

from urllib.parse import urlsplit


def is_database(text: str) -> bool:
    """Report whether a text names a PostgreSQL database."""
    return text.startswith(("postgresql://", "postgres://"))


def without_password(url: str) -> str:
    """Give an address as people may see it: without what names a user or a password, in whichever part.

    What is no URL, such as the words that libpq takes too, may have a password anywhere: nothing of it is given.
    """
    if "://" not in url:
        return "…"
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - it raises where there is none
    except ValueError:
        return url.partition("://")[0] + "://…"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
