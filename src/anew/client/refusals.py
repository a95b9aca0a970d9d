"""Turns a refusal of the server into an error of ours: by its code, else by its status."""

from __future__ import annotations

import datetime
import email.utils
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from anew import errors
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
    TooLarge,
    Unauthorized,
    Unavailable,
    Unreachable,
)

_BY_CODE: Final[Mapping[str, type[AnewError]]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, AnewError) and kind is not AnewError
}

_BY_STATUS: Final[Mapping[int, type[AnewError]]] = {
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    405: NotSupported,
    408: Overloaded,
    409: Conflict,
    413: TooLarge,
    414: TooLarge,
    429: Overloaded,
    431: TooLarge,
    501: NotSupported,
    502: Unreachable,
    503: Overloaded,
    504: Unreachable,
    507: StoreFull,
}

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding an answer raises that is not JSON, does not fit, holds no UTF-8, or nests too deeply."""

_TEXT_SHOWN: Final = 300
_CODE_SHOWN: Final = 64
_LONGEST_WAIT: Final = datetime.timedelta(days=1)
"""A server that names a longer wait is believed so far: no arithmetic with the value overflows."""


def error_of(
    status: int, reason: str, body: bytes, headers: Mapping[str, str], path: str, url: str = "this server"
) -> AnewError:
    """Make the error that a refusal means.

    A known ``code`` decides. Without one (the real Zizq sends none), and with one that this version does not know, the
    status does: an unknown code of a 409 is a `Conflict` whose ``code`` is the one that was sent.

    Args:
        status: HTTP status, >= 400 or otherwise unexpected.
        reason: Its phrase, shown when the body says nothing.
        body: The body; ``{"error": text, "code": code}`` from a server of ours.
        headers: Lower-case names.
        path: Path of the request, without the query.
        url: The server's address.
    """
    text, code = _text_and_code(body)
    if status == 404 and text == "not found" and path.startswith("/v1/"):
        return NotSupported(
            f"{url} has no {path}, which is Anew's own; is it an Anew server, and a recent one?"
        )
    if status == 403 and "requires a pro license" in text:
        return NotSupported(f"{url} refuses: {text}")
    text = text or reason or f"status {status}"
    retry_after = _retry_after(headers.get("retry-after", ""))
    if retry_after is not None:
        text = f"{text} (try again in {retry_after.total_seconds():g} s)"
    error = _kind(status, text, code)(text)
    if code:
        error.code = code
    if isinstance(error, InvalidInput):
        error.field = _pointer(body)
    if isinstance(error, Unavailable):
        error.retry_after = retry_after
    return error


def error_of_item(text: str, code: str) -> AnewError:
    """Make the error that the refusal of one item of a list means; an unknown code makes a plain `AnewError` of that code."""
    error = _BY_CODE.get(code, AnewError)(text[:_TEXT_SHOWN])
    error.code = code[:_CODE_SHOWN] or error.code
    return error


def _kind(status: int, text: str, code: str) -> type[AnewError]:
    if code in _BY_CODE:
        return _BY_CODE[code]
    if status == 422 and text.startswith("cannot patch"):
        return IllegalTransition
    return _BY_STATUS.get(status, InvalidInput if 400 <= status < 500 else InternalError)


def _text_and_code(body: bytes) -> tuple[str, str]:
    try:
        document: Any = msgspec.json.decode(body)
    except UNREADABLE:
        return "", ""
    if not isinstance(document, dict):
        return "", ""
    text, code = document.get("error"), document.get("code")
    return (
        text[:_TEXT_SHOWN] if isinstance(text, str) else "",
        code[:_CODE_SHOWN] if isinstance(code, str) else "",
    )


def _pointer(body: bytes) -> str:
    """Give which member of a request a problem is about (RFC 9457); "" if none is named."""
    try:
        pointer: Any = msgspec.json.decode(body)["errors"][0]["pointer"]
    except (*UNREADABLE, LookupError, TypeError):
        return ""
    return pointer[:_TEXT_SHOWN] if isinstance(pointer, str) else ""


def _retry_after(value: str) -> datetime.timedelta | None:
    """Read the header: seconds, or the date that a proxy may write; None if it is neither."""
    if value.isascii() and value.isdigit():
        return datetime.timedelta(seconds=min(int(value[:9]), _LONGEST_WAIT.total_seconds()))
    try:
        at = email.utils.parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if at.utcoffset() is None:
        return None
    wait = at - datetime.datetime.now(datetime.UTC)
    return min(max(wait, datetime.timedelta(0)), _LONGEST_WAIT)
