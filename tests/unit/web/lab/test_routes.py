"""The lab's routes by hand: headers, files, and what is said when there is no page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anew.errors import NotFound, Overloaded
from anew.http.formats import JSON
from anew.http.router import Router
from anew.web import assets
from anew.web.assets import Assets
from anew.web.lab.computing import Ask, Made
from anew.web.lab.helper_process import HelperProcess, Then
from anew.web.lab.routes import add_routes, to_the_lab
from tests.unit.http.asked import Answer, Asked

ASSETS = Assets()


class Helper(HelperProcess):
    """Answers at once, or refuses."""

    def __init__(self, made: Any) -> None:
        super().__init__()
        self.made = made
        self.asked: list[Ask] = []

    def ask(self, ask: Ask, then: Then, gone: Callable[[], bool] = lambda: False) -> None:
        self.asked.append(ask)
        if isinstance(self.made, Overloaded):
            raise self.made
        then(self.made)


def get(target: str, made: Any = None, **headers: str | None) -> tuple[Answer, Helper]:
    """Ask the lab's routes."""
    helper = Helper(made)
    router = Router()
    add_routes(router, helper)
    assets.add_routes(router)
    request = Asked("GET", target, **headers)
    route, params = router.find(request.path)
    assert route is not None
    route.handlers[b"GET"](request, JSON, params)
    return request.answer, helper


def test_a_page_can_load_from_nowhere_else() -> None:
    answer, _ = get("/lab", Made(b"<p>"))
    extra = dict(answer.extra)
    assert extra[b"content-security-policy"] == (
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    assert extra[b"x-content-type-options"] == b"nosniff"
    assert extra[b"cache-control"] == b"no-store"
    assert extra[b"referrer-policy"] == b"same-origin"
    assert answer.content_type == b"text/html; charset=utf-8"


def test_an_open_page_gets_a_part() -> None:
    answer, helper = get("/lab?a=even", Made(b"<p>"), hx_request="true")
    assert helper.asked == [Ask(b"a=even", partial=True)]
    assert answer.body == b"<p>"


def test_too_many_pages_at_once_are_refused_with_a_page() -> None:
    answer, _ = get("/lab?a=%22%3E%3Cscript%3E", Overloaded("too many pages are being computed"))
    assert answer.status == 503
    assert dict(answer.extra)[b"retry-after"] == b"1"
    assert b"too many pages" in answer.body
    assert b"<script" not in answer.body


def test_an_open_page_is_told_in_its_own_place() -> None:
    answer, _ = get("/lab", Overloaded("too many <b>"), hx_request="true")
    assert answer.body.startswith(b'<p id="notice"')
    assert b"too many &lt;b&gt;" in answer.body


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("lab.js", b"text/javascript; charset=utf-8"),
        ("lab.css", b"text/css; charset=utf-8"),
        ("icon.svg", b"image/svg+xml"),
    ],
)
def test_a_file_never_changes_under_its_address(name: str, kind: bytes) -> None:
    answer, _ = get(ASSETS.url(name))
    extra = dict(answer.extra)
    assert (answer.status, answer.content_type) == (200, kind)
    assert extra[b"cache-control"] == b"public, max-age=31536000, immutable"
    assert extra[b"x-content-type-options"] == b"nosniff"


@pytest.mark.parametrize("target", [f"/static/{'0' * 16}/lab.js", f"/static/{ASSETS.version}/lab.py"])
def test_other_files_are_not_there(target: str) -> None:
    with pytest.raises(NotFound):
        get(target)


def test_a_browser_that_asks_for_nothing_comes_to_the_lab() -> None:
    request = Asked("GET", "/")
    to_the_lab(request, JSON, ())
    assert request.answer.status == 303
    assert dict(request.answer.extra)[b"location"] == b"/lab"
