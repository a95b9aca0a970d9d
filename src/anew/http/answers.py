"""Answers that come later: whatever happens then, the request gets exactly one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from anew.errors import AnewError
from anew.http.failures import reply_error
from anew.http.formats import Format
from anew.net.seam import Request

log = logging.getLogger("anew.http")


def answering(request: Request, form: Format, then: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wrap what is to be done with a later result.

    Args:
        request: Who waits for it.
        form: How errors are written.
        then: Called with the result if it is no error; answers the request.

    Returns:
        A callback for the engine or the reader.
    """

    def done(result: Any) -> None:
        if isinstance(result, AnewError):
            reply_error(request, form, result)
            return
        try:
            then(result)
        except AnewError as error:
            reply_error(request, form, error)
        except Exception:
            log.exception("an answer failed")
            form.error(request, 500, "internal server error")

    return done
