"""From a status of the server to an error of ours: one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from anew.errors import (
    AnewError,
    Conflict,
    IllegalTransition,
    InternalError,
    InvalidInput,
    NotFound,
    NotSupported,
    Overloaded,
    StoreFull,
    Unauthorized,
    Unreachable,
)

_KINDS: Final[Mapping[int, type[AnewError]]] = {
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    405: NotSupported,
    408: Overloaded,
    409: Conflict,
    429: Overloaded,
    501: NotSupported,
    502: Unreachable,
    503: Overloaded,
    504: Unreachable,
    507: StoreFull,
}
_TEXT_SHOWN: Final = 300


def error_of(status: int, reason: str, body: bytes, headers: Mapping[str, str], path: str) -> AnewError:
    """Make the error that a refused request is.

    Args:
        status: HTTP status, >= 400 or otherwise unexpected.
        reason: Its phrase, shown when the body says nothing.
        body: The body; ``{"error": text}`` from a server of ours.
        headers: Lower-case names.
        path: Path of the request, without the query.
    """
    text = _text(body) or reason or f"status {status}"
    if status == 404 and text == "not found" and path.startswith("/v1/"):
        return NotSupported(f"this server has no {path}; is it an Anew server?")
    if status == 422 and text.startswith("cannot patch"):
        return IllegalTransition(text)
    kind = _KINDS.get(status)
    if kind is None:
        kind = InvalidInput if 400 <= status < 500 else InternalError
    if retry_after := headers.get("retry-after"):
        text = f"{text} (try again in {retry_after} s)"
    return kind(text)


def _text(body: bytes) -> str:
    try:
        document: Any = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return ""
    text = document.get("error") if isinstance(document, dict) else None
    return text[:_TEXT_SHOWN] if isinstance(text, str) else ""
