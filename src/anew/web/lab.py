"""The routes of the lab: its page, and the files that the page loads. No store is needed, and nothing is changed."""

from __future__ import annotations

import html
from typing import Final

from anew.errors import AnewError, NotFound
from anew.http.formats import Format
from anew.http.router import Router
from anew.net.seam import Headers, Request
from anew.web.assets import PREFIX, Assets
from anew.web.computing import Ask, Made
from anew.web.helper_process import HelperProcess

LAB: Final = "/lab"

_RETRY_AFTER: Final[Headers] = ((b"retry-after", b"1"),)
_PLAIN: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Anew lab</title>'
    '<h1>Not now</h1><p>{}</p><p><a href="{}">Try again</a></p></html>'
)


# What every answer to a browser carries, so that a page can do nothing but what this server gave it to do.

CONTENT_SECURITY_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Nothing from elsewhere, nothing inline: text that slipped through unescaped could still not run."""

_ALWAYS: Final[Headers] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

PAGE: Final[Headers] = (*_ALWAYS, (b"cache-control", b"no-store"))
"""For pages: one address gives a whole page or a part of it, so nobody may keep either."""

FILE: Final[Headers] = (*_ALWAYS, (b"cache-control", b"public, max-age=31536000, immutable"))
"""For files under an address that holds their hash: they never change."""

HTML: Final = b"text/html; charset=utf-8"


class LabRoutes:
    """Serves the lab.

    Args:
        helper: Makes the pages.
    """

    def __init__(self, helper: HelperProcess) -> None:
        self._helper = helper
        self._assets = Assets()

    def page(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Give the page of the state in the query; to a page that is open already, what has changed."""
        partial = request.headers.get(b"hx-request") == b"true"

        def done(made: Made | AnewError) -> None:
            if isinstance(made, AnewError):
                _refuse(request, made, partial=partial)
            else:
                request.reply(200, made.html, HTML, PAGE)

        try:
            self._helper.ask(Ask(request.query, partial=partial), done, lambda: request.gone)
        except AnewError as error:
            done(error)

    def file(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Give a file that pages load."""
        asset = self._assets.find(*params)
        if asset is None:
            raise NotFound("not found")
        request.reply(200, asset.body, asset.content_type, FILE)


def _refuse(request: Request, error: AnewError, *, partial: bool) -> None:
    """Say why there is no page: in the open page's own place for that, or as a small page."""
    status = error.status
    text = html.escape("internal server error" if status == 500 else str(error))
    if partial:
        body = f'<p id="notice" class="notice" role="alert" hx-swap-oob="true">{text}</p>'
    else:
        query = request.query.decode("latin-1")
        body = _PLAIN.format(text, html.escape(f"{LAB}?{query}" if query else LAB))
    extra = _RETRY_AFTER if status == 503 else ()
    request.reply(status, body.encode(), HTML, (*PAGE, *extra))


def to_the_lab(request: Request, form: Format, params: tuple[str, ...]) -> None:
    """Send a browser that asks for nothing in particular to the lab."""
    request.reply(303, b"", None, ((b"location", LAB.encode()),))


def add_routes(router: Router, helper: HelperProcess) -> None:
    """Serve the lab, whatever `Accept` says."""
    routes = LabRoutes(helper)
    router.add("GET", LAB, routes.page, streams=True)
    router.add("GET", PREFIX + "/{version}/{name}", routes.file, streams=True)
