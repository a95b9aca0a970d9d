"""The parts of a request: paths, queries and bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from anew.errors import InvalidInput, Unreachable


def job_path(job_id: str, verb: str = "") -> str:
    """Give the path of a job, or of something that is done to it.

    Raises:
        InvalidInput: The id is empty, which would be the path of all jobs.
    """
    if not job_id:
        raise InvalidInput("id: '' is not valid; expected the id of a job", field="id", value=job_id)
    return f"/jobs/{quote(job_id, safe='')}" + (f"/{verb}" if verb else "")


def own_path(link: str) -> str:
    """Give a link that the server gave, to be followed as it is.

    Raises:
        Unreachable: It leads to another server: the token would go with it.
    """
    if not link.startswith("/") or link.startswith("//"):
        raise Unreachable(f"the server gave a link that is no path of its own: {link[:100]!r}")
    return link


def comma_set(values: tuple[str, ...]) -> str:
    """Write values as a comma set, each percent-encoded, the commas literal."""
    return ",".join(quote(value, safe="") for value in values)


def target(path: str, parameters: Mapping[str, str]) -> str:
    """Join a path and parameters that are encoded already."""
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    return f"{path}?{query}" if query else path


def json_body(value: Any) -> bytes:
    """Write a body.

    Raises:
        InvalidInput: Something in it is no JSON value.
    """
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the request cannot be written as JSON: {error}") from error
