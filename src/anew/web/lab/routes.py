"""The route of the lab's page. No store is needed, and nothing is changed."""

from __future__ import annotations

import html
from typing import Final

from anew.errors import AnewError
from anew.http.formats import Format
from anew.http.router import Router
from anew.net.seam import Headers, Request
from anew.web.headers import HTML, PAGE
from anew.web.lab.computing import Ask, Made
from anew.web.lab.helper_process import HelperProcess

LAB: Final = "/lab"

_RETRY_AFTER: Final[Headers] = ((b"retry-after", b"1"),)
_PLAIN: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Anew lab</title>'
    '<h1>Not now</h1><p>{}</p><p><a href="{}">Try again</a></p></html>'
)


class LabRoutes:
    """Serves the lab.

    Args:
        helper: Makes the pages.
    """

    def __init__(self, helper: HelperProcess) -> None:
        self._helper = helper

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
