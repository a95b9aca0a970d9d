"""One table from our errors to HTTP's statuses, for every route."""

from __future__ import annotations

from anew import errors
from anew.http.formats import Format
from anew.net.seam import Headers, Request

STATUS: tuple[tuple[type[errors.AnewError], int], ...] = (
    (errors.TooLarge, 413),
    (errors.InvalidInput, 400),
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.StoreFull, 507),
    (errors.Unavailable, 503),
    (errors.NotSupported, 501),
    (errors.AnewError, 500),
)
"""First match wins; every class of the tree is covered by its family."""

_RETRY_AFTER: Headers = ((b"retry-after", b"1"),)


def status_of(error: errors.AnewError) -> int:
    """Tell the status that stands for an error."""
    kind = type(error)
    status = _statuses.get(kind)
    if status is None:
        status = _statuses[kind] = next(status for family, status in STATUS if issubclass(kind, family))
    return status


_statuses: dict[type[errors.AnewError], int] = {}
"""By class, as they come: a crowd that is refused asks again and again."""


def reply_error(request: Request, form: Format, error: errors.AnewError) -> None:
    """Answer with an error: its own words, but never those of an internal one."""
    status = status_of(error)
    message = "internal server error" if status == 500 else str(error)
    form.error(request, status, message, _RETRY_AFTER if status in (503, 507) else ())
