"""Requests that pages of other sites make a browser send, and what the named origins may."""

from __future__ import annotations

from typing import Any

import pytest

from anew.http.api import Api, ApiSettings
from anew.http.formats import Format
from anew.http.router import Router
from anew.net.seam import Request, WireCounters
from tests.routes import for_admins

from .asked import Answer, Asked, asked

APP = "https://app.example"


def show(request: Request, form: Format, params: tuple[str, ...]) -> None:
    form.reply(request, 200, "shown", ((b"x-own", b"1"),))


def stream(request: Request, form: Format, params: tuple[str, ...]) -> None:
    request.open_stream(200, b"text/event-stream")


def ask(method: str, target: str, **headers: str | None) -> Answer:
    """Ask an API that needs no token from everybody, and names one origin."""
    return _ask(Asked(method, target, **headers))


def _ask(request: Asked, **settings: Any) -> Answer:
    router = Router(for_admins)
    for method in ("GET", "POST", "DELETE"):
        router.add(method, "/jobs", show)
    router.add("GET", "/jobs/take", stream, streams=True)
    router.add("GET", "/lab", show, streams=True)
    router.add("GET", "/static/{name}", show, streams=True)
    settings = {"allowed_origins": frozenset({APP.encode()})} | settings
    return asked(Api(ApiSettings(**settings), WireCounters(), router), request)


@pytest.mark.parametrize(("method", "path"), [("POST", "/jobs"), ("DELETE", "/jobs"), ("GET", "/jobs/take")])
@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:7890"},  # the page of another port, the host is "localhost"
        {"origin": "https://localhost"},
        {"origin": "http://localhost.evil.example"},
        {"origin": "https://evil.example", "sec_fetch_site": "same-origin"},
        {"origin": "https://localhost", "sec_fetch_site": "same-site"},
        {"origin": "http://localhost", "sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"},  # a form's, or a link's
    ],
)
def test_a_page_of_another_site_is_refused(method: str, path: str, headers: dict[str, str]) -> None:
    answer = ask(method, path, **headers)
    assert (answer.status, answer.data["code"], answer.reason) == (403, "cross_site", "cross_site")
    assert not any(name.startswith(b"access-control") for name, _ in answer.extra)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec_fetch_site": "none"},
        {"sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "same-origin", "origin": "http://localhost"},
        {"origin": "http://localhost:7890", "host": "localhost:7890"},
        {"origin": "http://localhost", "host": "LocalHost:80"},
        # A proxy ends TLS, and passes the host on.
        {"sec_fetch_site": "same-origin", "origin": "https://localhost"},
        {"sec_fetch_site": "same-origin", "origin": "https://localhost", "host": "localhost:443"},
    ],
)
def test_programs_and_the_servers_own_pages_are_served(headers: dict[str, str]) -> None:
    answer = ask("POST", "/jobs", **headers)
    assert (answer.status, answer.extra) == (200, ((b"x-own", b"1"),))


@pytest.mark.parametrize("path", ["/lab", "/static/x"])
def test_a_link_from_another_site_opens_a_page(path: str) -> None:
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    assert ask("GET", path, **link).status == 200
    assert ask("HEAD", path, **link).status == 200
    assert ask("POST", path, **link).status == 403
    assert ask("GET", path, sec_fetch_site="cross-site", sec_fetch_mode="no-cors").status == 403
    assert ask("GET", "/jobs", **link).status == 403


def test_an_allowed_origin_may_read_its_answers() -> None:
    cors = (
        (b"access-control-allow-origin", b"https://app.example"),
        (b"access-control-expose-headers", b"retry-after"),
        (b"vary", b"origin"),
    )
    given = {"origin": APP, "sec_fetch_site": "cross-site"}
    assert ask("POST", "/jobs", **given).extra == ((b"x-own", b"1"), *cors)
    assert ask("GET", "/jobs/take", **given).extra == cors
    assert ask("GET", "/nowhere", **given).extra == cors
    assert ask("PATCH", "/jobs", **given).extra == ((b"allow", b"DELETE, GET, HEAD, POST"), *cors)
    answer = _ask(Asked("POST", "/jobs", **given), token="s3cret")
    assert (answer.status, answer.extra[1:]) == (401, cors)


def test_a_preflight_is_answered_before_the_token_is_asked_for() -> None:
    question = {"access_control_request_method": "DELETE", "sec_fetch_site": "cross-site"}
    answer = _ask(Asked("OPTIONS", "/jobs", origin=APP, **question), token="s3cret")
    assert (answer.status, answer.body, answer.content_type) == (204, b"", None)
    extra = dict(answer.extra)
    assert extra[b"access-control-allow-origin"] == APP.encode()
    assert b"DELETE" in extra[b"access-control-allow-methods"]
    for name in (b"authorization", b"idempotency-key", b"interruption-limit", b"worker-id"):
        assert name in extra[b"access-control-allow-headers"]
    assert ask("OPTIONS", "/jobs", origin="https://evil.example", **question).status == 403
    # Without the question it is a method like any other.
    assert ask("OPTIONS", "/jobs", origin=APP).status == 405
