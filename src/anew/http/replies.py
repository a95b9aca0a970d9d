"""How a request gets its one answer, now or later: errors with their status and their stable code."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from anew import errors
from anew.engine import Call
from anew.engine.ops import Verb
from anew.http.formats import Format
from anew.net.seam import Headers, Request

log = logging.getLogger("anew.http")


def error_words(error: errors.AnewError) -> dict[str, str]:
    """Give an error as an answer shows it: its own words, but never those of an internal one."""
    shown = error.status != 500 or isinstance(error, errors.InDoubt)
    message = str(error) if shown else "internal server error"
    return {"error": message, "code": error.code}


def retry_after(status: int) -> Headers:
    """Give the header that says when to try again, where that may help."""
    return ((b"retry-after", b"1"),) if status in (503, 507) else ()


def reply_error(request: Request, form: Format, error: errors.AnewError, status: int | None = None) -> None:
    """Answer with an error; with another status than its own where a route has one of its own."""
    status = error.status if status is None else status
    form.reply(request, status, error_words(error), retry_after(status))


def answering(
    request: Request,
    form: Format,
    then: Callable[[Any], None],
    refuse: Callable[[Request, Format, errors.AnewError], None] = reply_error,
) -> Callable[[Any], None]:
    """Wrap what is to be done with a later result, so that the request gets exactly one answer whatever happens.

    Args:
        request: Who waits for it.
        form: How errors are written.
        then: Called with the result if it is no error; answers the request.
        refuse: Answers with an error.

    Returns:
        A callback for the engine or the reader.
    """

    def done(result: Any) -> None:
        if isinstance(result, errors.AnewError):
            refuse(request, form, result)
            return
        try:
            then(result)
        except errors.AnewError as error:
            refuse(request, form, error)
        except Exception:
            log.exception("an answer failed")
            refuse(request, form, errors.InternalError("an answer failed"))

    return done


def run_verb(
    submit: Callable[[Call], None],
    verb: Verb,
    request: Request,
    form: Format,
    shown: Callable[[Any], object] | None = None,
    status: int = 200,
    *,
    durable: bool = True,
    waits: bool = True,
) -> None:
    """Run a verb of the engine, and answer with what `shown` makes of its result; with 204 where nothing is shown."""

    def then(result: Any) -> None:
        if shown is None:
            request.reply(204, b"", None)
        else:
            form.reply(request, status, shown(result))

    submit(Call(verb, answering(request, form, then), durable=durable, waits=waits))
