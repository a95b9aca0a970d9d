"""Who may come in by the admin listener, and what is not there."""

from __future__ import annotations

from typing import Any

import pytest

from anew.admin.api import AdminApi
from anew.http.api import ApiSettings
from anew.http.router import Router
from anew.net.seam import Kind, WireCounters
from tests.unit.http.asked import Answer, Asked, asked

HANDSHAKE = {"connection": "Upgrade", "upgrade": "websocket"}


def ask(method: str, path: str, settings: ApiSettings | None = None, **headers: str | None) -> Answer:
    """Ask an application whose routes answer 200."""

    def answer(request: Any, form: Any, params: Any) -> None:
        request.reply(200, b"yes", None)

    router = Router()
    for verb, template in (("GET", "/events"), ("POST", "/backup"), ("POST", "/compact")):
        router.add(verb, template, answer, streams=True)
    api = AdminApi(settings or ApiSettings(), WireCounters(), router)
    request = Asked(method, path, **headers)
    assert api.kind_of(request) is Kind.other
    return asked(api, request)


@pytest.mark.parametrize("path", ["/", "/nope", "/health", "/healthz", "/jobs", "/events/", "/lab"])
@pytest.mark.parametrize("accept", [None, "text/html", "application/msgpack"])
def test_an_unknown_path_gets_404_and_nothing_more(path: str, accept: str | None) -> None:
    answer = ask("GET", path, accept=accept)
    assert (answer.status, answer.body, answer.content_type) == (404, b"", None)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/events", b"GET, HEAD"),
        ("GET", "/backup", b"POST"),
        ("GET", "/compact", b"POST"),
        ("DELETE", "/compact", b"POST"),
    ],
)
def test_another_method_gets_405_without_a_body(method: str, path: str, allow: bytes) -> None:
    answer = ask(method, path, accept="text/html")
    assert (answer.status, answer.body) == (405, b"")
    assert (b"allow", allow) in answer.extra


@pytest.mark.parametrize(("method", "path"), [("GET", "/events"), ("POST", "/backup"), ("POST", "/compact")])
def test_nothing_is_negotiated(method: str, path: str) -> None:
    for accept in (None, "text/html", ""):
        assert ask(method, path, accept=accept).status == 200


@pytest.mark.parametrize(("method", "path"), [("GET", "/events"), ("POST", "/backup"), ("GET", "/nope")])
def test_with_a_token_nothing_is_answered_without_it(method: str, path: str) -> None:
    settings = ApiSettings(token="s3cret")
    assert ask(method, path, settings).status == 401
    assert ask(method, path, settings, authorization="Bearer wrong").status == 401
    given = ask(method, path, settings, authorization="Bearer s3cret").status
    assert given == (404 if path == "/nope" else 200)


@pytest.mark.parametrize(("method", "path"), [("GET", "/events"), ("POST", "/backup"), ("POST", "/compact")])
def test_zizq_93_a_page_of_another_site_may_use_nothing(method: str, path: str) -> None:
    """A browser lets every page open WebSockets to any address, and leaves it to the server to look at the origin."""
    for headers in (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:3000"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "websocket"},
    ):
        answer = ask(method, path, None, **(HANDSHAKE | headers))
        assert (answer.status, answer.reason) == (403, "cross_site")


def test_a_named_origin_may() -> None:
    settings = ApiSettings(allowed_origins=frozenset({b"https://ops.example"}))
    assert ask("GET", "/events", settings, origin="https://ops.example").status == 200


def test_a_host_that_is_not_served_is_refused() -> None:
    """So that a name under which a page was loaded cannot be made to mean this machine."""
    assert ask("GET", "/events", host="evil.example").status == 403
    assert ask("GET", "/events", host="127.0.0.1:8901").status == 200
