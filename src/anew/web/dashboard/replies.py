"""How a browser is answered: with a page, with a refusal as a page, or with where to go on."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final
from urllib.parse import urlencode

from anew.engine.reads import Reads
from anew.errors import AnewError
from anew.http.formats import Format
from anew.http.replies import answering, retry_after
from anew.http.router import Handler
from anew.net.seam import Request
from anew.web.dashboard.rendering import render
from anew.web.headers import HTML, PAGE

_TITLES: Final = {400: "That does not fit", 404: "Not found", 409: "Not possible now", 503: "Not now"}


def refuse(request: Request, form: Format, error: AnewError) -> None:
    """Say in a page why something was refused."""
    text = "internal server error" if error.status == 500 else str(error)
    body = render(
        "refusal.html", here="", title=_TITLES.get(error.status, "Refused"), text=text, status=error.status
    )
    request.reply(error.status, body, HTML, (*PAGE, *retry_after(error.status)))


def paged(handler: Handler) -> Handler:
    """Have a handler's errors answered with a page."""

    @wraps(handler)
    def handle(request: Request, form: Format, params: tuple[str, ...]) -> None:
        try:
            handler(request, form, params)
        except AnewError as error:
            refuse(request, form, error)

    return handle


def later(request: Request, form: Format, then: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wrap what is to be done with a later result; errors are answered with a page."""
    return answering(request, form, then, refuse)


def written(request: Request, form: Format) -> Callable[[Any], None]:
    """Give what answers with a page that was made elsewhere."""
    return later(request, form, lambda body: request.reply(200, body, HTML, PAGE))


def show(reads: Reads, request: Request, form: Format, template: str, **shown: Any) -> None:
    """Answer with a page, which the reader's thread writes: it takes some milliseconds, the first one more."""
    reads.look(lambda _: render(template, **shown), written(request, form))


def go_to(request: Request, path: str, done: str, number: int | None = None) -> None:
    """Send the browser on, to a page that says what was done."""
    said = {"done": done} | ({} if number is None else {"n": number})
    joint = "&" if "?" in path else "?"
    request.reply(303, b"", None, ((b"location", f"{path}{joint}{urlencode(said)}".encode()),))
