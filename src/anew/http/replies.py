"""How a request gets its one answer, now or later: errors by one table, each with its status and its stable code."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from anew import errors
from anew.http.formats import Format
from anew.net.seam import Headers, Request

log = logging.getLogger("anew.http")

STATUS: tuple[tuple[type[errors.AnewError], int], ...] = (
    (errors.TooLarge, 413),
    (errors.InvalidInput, 400),
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.StoreFull, 507),
    (errors.Unavailable, 503),
    (errors.Unauthorized, 401),
    (errors.NotSupported, 501),
    (errors.AnewError, 500),
)
"""First match wins; every class of the tree is covered by its family."""

_RETRY_AFTER: Headers = ((b"retry-after", b"1"),)

_statuses: dict[type[errors.AnewError], int] = {}
"""By class, as they come: a crowd that is refused asks again and again."""


def status_of(error: errors.AnewError) -> int:
    """Give the status that stands for an error."""
    kind = type(error)
    status = _statuses.get(kind)
    if status is None:
        status = _statuses[kind] = next(status for family, status in STATUS if issubclass(kind, family))
    return status


def error_words(error: errors.AnewError) -> dict[str, str]:
    """Give an error as an answer shows it: its own words, but never those of an internal one."""
    message = "internal server error" if status_of(error) == 500 else str(error)
    return {"error": message, "code": error.code}


def reply_error(request: Request, form: Format, error: errors.AnewError, status: int | None = None) -> None:
    """Answer with an error; with another status than the table's where a route has one of its own."""
    status = status_of(error) if status is None else status
    form.reply(request, status, error_words(error), _RETRY_AFTER if status in (503, 507) else ())


def answering(request: Request, form: Format, then: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wrap what is to be done with a later result, so that the request gets exactly one answer whatever happens.

    Args:
        request: Who waits for it.
        form: How errors are written.
        then: Called with the result if it is no error; answers the request.

    Returns:
        A callback for the engine or the reader.
    """

    def done(result: Any) -> None:
        if isinstance(result, errors.AnewError):
            reply_error(request, form, result)
            return
        try:
            then(result)
        except errors.AnewError as error:
            reply_error(request, form, error)
        except Exception:
            log.exception("an answer failed")
            form.error(request, 500, "internal server error")

    return done
