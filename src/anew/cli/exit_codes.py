"""From an error to an exit code, and to words that say what to do next. What decides is the error's class or code."""

from __future__ import annotations

import os
import shlex
from typing import Final

from anew.errors import (
    AnewError,
    Conflict,
    InvalidInput,
    NotFound,
    NotSupported,
    Overloaded,
    StoreBusy,
    Unauthorized,
    Unreachable,
)

FAILURE: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
NOT_FOUND: Final = 4
REFUSED: Final = 5

_CODES: Final[tuple[tuple[type[AnewError], int], ...]] = (
    (InvalidInput, USAGE),
    (Unreachable, UNREACHABLE),
    (NotFound, NOT_FOUND),
    (Conflict, REFUSED),
    (Unauthorized, REFUSED),
    (NotSupported, REFUSED),
    (StoreBusy, REFUSED),
)


def exit_code(error: AnewError) -> int:
    """Give the exit code of an error; what the table does not name is a plain failure."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILURE)


def explained(error: AnewError) -> str:
    """Give the error's sentence, and below it what to do next where that is known."""
    text = str(error)
    hint = _hint(error, text)
    return f"{text}\n  {hint}" if hint else text


def _hint(error: AnewError, text: str) -> str:
    if isinstance(error, Unreachable) and text.startswith("no server at"):
        return "Start one with: anew serve   (or say where it is: --url or ANEW_URL)" + _here()
    if isinstance(error, Unreachable) and "certificate verify failed" in text:
        return (
            "Name the authority that has issued the server's certificate: --ca-cert ca-cert.pem, or ANEW_CA"
        )
    if isinstance(error, Unreachable) and text.startswith("http://") and "before its answer" in text:
        return "If the server speaks TLS, its address begins with https"
    if isinstance(error, Unauthorized) and text.startswith("Redis at"):
        return "Give its password in the address: redis://:PASSWORD@HOST:6379"
    if isinstance(error, Unauthorized) and "password" in text:
        return "Give it in FAKTORY_PASSWORD, or in the address: tcp://:PASSWORD@HOST:7419"
    if isinstance(error, Unreachable) and text.startswith("nothing listens at"):
        return "Start one with: anew serve   (or say where it is: --url or FAKTORY_URL)"
    if error.code == Unauthorized.code:  # and not of a host name that is not served
        return "Give the server's token: --token, or ANEW_TOKEN"
    if isinstance(error, NotFound) and "holds no store" in text:
        return _here().strip()
    if isinstance(error, NotFound) and text.startswith("job not found"):
        return "It may have ended and been removed; with the id that its producer gave it: anew jobs list --jid JID"
    if isinstance(error, Overloaded):
        return "The request has stored nothing; try again a little later"
    return ""


_SESSIONS: Final = "-sessions"


def _here() -> str:
    """Name a store of this directory that a Python program has made: who asks for its jobs may have no server at all."""
    try:
        names = sorted(os.listdir())
    except OSError:
        return ""
    files = [name.removesuffix(_SESSIONS) for name in names if name.endswith(_SESSIONS)]
    found = next((shlex.quote(file) for file in files if os.path.isfile(file)), None)
    if found is None:
        return ""
    return f"\n  The jobs of {found} in this directory: --url {found}, or serve them: anew serve --root-dir {found}"
