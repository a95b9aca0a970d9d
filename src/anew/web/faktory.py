"""Faktory's web port: what stood there under its own paths, for browsers and for what watches a server, on our pages.

Source:
    Faktory 1.10, observed: its paths, `/health` and `/stats`, the words of a refusal, the header of proxies.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import Any, Final

from anew.errors import MalformedRequest
from anew.http.api import Api, password_of
from anew.http.formats import JSON, Format
from anew.http.query_strings import encoded
from anew.http.replies import answering
from anew.http.router import Router
from anew.net.seam import Headers, Kind, Refusal, Request, type_json
from anew.web.assets import PREFIX
from anew.web.dashboard.replies import SCRIPT_NAME, go_on

_NO_CACHE: Final[Headers] = ((b"cache-control", b"no-cache"),)
_REALM: Final[Headers] = ((b"www-authenticate", b'Basic realm="Faktory"'),)
_PLAIN: Final = b"text/plain; charset=utf-8"

MOVED: Final = {
    "/": "/ui",
    "/busy": "/ui/workers",
    "/queues": "/ui/queues",
    "/retries": "/ui/jobs?state=retrying",
    "/scheduled": "/ui/jobs?state=scheduled",
    "/morgue": "/ui/jobs?state=dead",
    "/cron": "/ui/crons",
}
"""Faktory's pages, and where what they show stands here; any other path leads to the first."""


class FaktoryWeb:
    """The application of Faktory's web port.

    Args:
        api: Answers requests, and judges hosts and origins; it asks for no token.
        router: Its routes.
        password: What browsers must know; empty: nothing.
    """

    def __init__(self, api: Api, router: Router, password: str) -> None:
        self._api = api
        self._router = router
        self._password = password.encode()

    def judge(self, method: bytes, path: bytes, headers: Mapping[bytes, bytes]) -> Refusal | None:
        """Refuse by the head alone; see `App.judge`."""
        path = self._known(path, headers)
        given = headers.get(b"authorization", b"")
        if self._password and path != b"/health" and not path.startswith(PREFIX.encode() + b"/"):
            if not given:
                return Refusal(401, b"Authorization required\n", _PLAIN, _REALM, "password")
            if not hmac.compare_digest(password_of(given), self._password):
                return Refusal(401, b"Authorization failed\n", _PLAIN, _REALM, "password")
        return self._api.judge(method, path, headers)

    def __call__(self, request: Request) -> None:
        """Answer a request that was not refused."""
        request.path = self._known(request.path, request.headers)
        self._api(request)

    def kind_of(self, request: Request) -> Kind:
        """Say what a request is for."""
        return self._api.kind_of(request)

    def shed(self, request: Request) -> None:
        """Refuse a request before its body is looked at."""
        self._api.shed(request)

    def _known(self, path: bytes, headers: Mapping[bytes, bytes]) -> bytes:
        """Give a path without the prefix of a proxy; one that is not served stands for the first page."""
        prefix = headers.get(b"x-script-name", b"")
        if SCRIPT_NAME.fullmatch(prefix) and (path == prefix or path.startswith(prefix + b"/")):
            path = path[len(prefix) :] or b"/"
        try:
            served = self._router.find(path)[0] is not None
        except MalformedRequest:
            return path  # the API refuses it with its reason
        return path if served else b"/"


def add_routes(
    router: Router, stats: Callable[[Callable[[Any], None]], None], health: Callable[[], bytes]
) -> None:
    """Serve Faktory's own paths.

    Args:
        router: Of the web port.
        stats: Reads what INFO says, and calls back with it.
        health: Gives a few figures at once.
    """

    def show_stats(request: Request, form: Format, params: tuple[str, ...]) -> None:
        stats(answering(request, JSON, lambda body: request.reply(200, body, type_json, _NO_CACHE)))

    def show_health(request: Request, form: Format, params: tuple[str, ...]) -> None:
        request.reply(200, health(), type_json, _NO_CACHE)

    def queue(request: Request, form: Format, params: tuple[str, ...]) -> None:
        go_on(request, f"/ui/jobs?queue={encoded(params[0])}")

    router.add("GET", "/stats", show_stats, streams=True)
    router.add("GET", "/health", show_health, streams=True, kind=Kind.settling)
    router.add("GET", "/queues/{queue}", queue, streams=True)
    for path, place in MOVED.items():
        router.add("GET", path, _leading_to(place), streams=True)


def _leading_to(place: str) -> Callable[[Request, Format, tuple[str, ...]], None]:
    return lambda request, form, params: go_on(request, place)
