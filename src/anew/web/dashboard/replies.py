"""How a browser is answered: with a page, with a refusal as a page, or with where to go on."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final
from urllib.parse import urlencode

from anew.engine.reads import Reads
from anew.errors import AnewError
from anew.http.formats import Format
from anew.http.replies import answering, retry_after
from anew.http.router import Handler
from anew.net.seam import Refusal, Request
from anew.web.assets import assets
from anew.web.dashboard.rendering import PAGES, render
from anew.web.headers import HTML, PAGE

SCRIPT_NAME: Final = re.compile(rb"(?:/[A-Za-z0-9._~-]{1,100}){1,10}")
"""A path of a few plain parts: whatever else a header says could lead a page's links to another site."""

_LINK: Final = re.compile(rb'(\b(?:href|src|action|hx-get)=")/')
"""The beginning of a link, of which a text cannot have one: its quotation marks are escaped."""

_TITLES: Final = {
    400: "Not valid",
    403: "Not allowed",
    404: "Not found",
    409: "Not possible now",
    503: "Not now",
}

_REFUSAL: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · Anew</title>
<link rel="icon" href="{icon}" type="image/svg+xml">
<link rel="stylesheet" href="{base}">
<link rel="stylesheet" href="{own}">
<script src="{theme}"></script>
</head>
<body>
<header class="top">
<p class="brand"><a href="/ui"><b>Anew</b></a></p>
<nav aria-label="Pages"><ul>{pages}</ul></nav>
</header>
<main id="main">
<h1>{title}</h1>
<p role="alert">{text}</p>
</main>
</body>
</html>
"""
"""A page without a template: it is written in the loop, also when the reader has too much to do for a page."""


def refuse(request: Request, form: Format, error: AnewError) -> None:
    """Say in a page why something was refused."""
    text = "internal server error" if error.status == 500 else str(error)
    page = _placed(request.headers, _refusal(error.status, text))
    request.reply(error.status, page, HTML, (*PAGE, *retry_after(error.status)))


def forbidden(headers: Mapping[bytes, bytes], text: str) -> Refusal:
    """Say in a page that a token does not allow what is asked for; see `Api`."""
    return Refusal(403, _placed(headers, _refusal(403, text)), HTML, PAGE, "role")


def _refusal(status: int, text: str) -> bytes:
    url = assets().url
    return _REFUSAL.format(
        title=_TITLES.get(status, "Refused"),
        text=html.escape(text),
        pages="".join(f'<li><a href="{path}">{name}</a></li>' for path, name in PAGES.items()),
        icon=url("icon.svg"),
        base=url("base.css"),
        own=url("dashboard.css"),
        theme=url("theme.js"),
    ).encode("utf-8", "replace")


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
    return later(request, form, lambda body: request.reply(200, _placed(request.headers, body), HTML, PAGE))


def show(
    reads: Reads, request: Request, form: Format, template: str, shown: Callable[[], Mapping[str, Any]]
) -> None:
    """Answer with a page. What it shows is worked out and written in the reader's thread: that takes some milliseconds."""
    reads.look(lambda _: render(template, **shown()), written(request, form))


def go_to(request: Request, path: str, done: str, number: int | None = None) -> None:
    """Send the browser on, to a page that says what was done."""
    said = {"done": done} | ({} if number is None else {"n": number})
    joint = "&" if "?" in path else "?"
    go_on(request, f"{path}{joint}{urlencode(said)}")


def go_on(request: Request, path: str) -> None:
    """Send the browser on to a page."""
    request.reply(303, b"", None, ((b"location", _prefix(request.headers) + path.encode()),))


def _placed(headers: Mapping[bytes, bytes], body: bytes) -> bytes:
    """Have a page's links lead to where a proxy has put this server."""
    prefix = _prefix(headers)
    return _LINK.sub(rb"\1" + prefix + b"/", body) if prefix else body


def _prefix(headers: Mapping[bytes, bytes]) -> bytes:
    """Give the path under which a proxy serves this server, as it says in ``X-Script-Name``; empty if it is served at the root."""
    given = headers.get(b"x-script-name", b"")
    return given if SCRIPT_NAME.fullmatch(given) else b""
