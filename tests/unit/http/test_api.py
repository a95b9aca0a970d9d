"""Who may come in, which route it is, and what goes wrong, before any handler has a say."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from anew.errors import NotFound, Overloaded
from anew.http.api import Api, ApiSettings, host_name
from anew.http.formats import Format
from anew.http.router import Router
from anew.net.seam import Request, WireCounters
from tests.routes import for_admins

from .asked import Answer, Asked, asked

Ask = Callable[..., Answer]


def show(request: Request, form: Format, params: tuple[str, ...]) -> None:
    """Answer with what the path said."""
    form.reply(request, 200, list(params))


def lose(request: Request, form: Format, params: tuple[str, ...]) -> None:
    raise NotFound("it is not here")


def turn_away(request: Request, form: Format, params: tuple[str, ...]) -> None:
    raise Overloaded("too many lists are waiting")


def fall(request: Request, form: Format, params: tuple[str, ...]) -> None:
    raise RuntimeError("the secret of row 7")


class Edge:
    """An application of a few routes."""

    def __init__(self, **settings: Any) -> None:
        router = Router(for_admins)
        router.add("GET", "/things/{name}", show)
        router.add("GET", "/things/best", lambda request, form, params: form.reply(request, 200, "best"))
        router.add("POST", "/things", show)
        router.add("PUT", "/small/{name}", show, most_bytes=10)
        router.add("PUT", "/small", show, most_bytes=10)
        router.add("GET", "/lost", lose)
        router.add("GET", "/broken", fall)
        router.add("GET", "/busy", turn_away)
        router.add("GET", "/readyz", show, streams=True)
        router.add("GET", "/lab", show, streams=True)
        router.add("GET", "/static/{name}", show, streams=True)
        self.counters = WireCounters()
        self.api = Api(ApiSettings(**settings), self.counters, router)

    def ask(self, method: str, target: str, **headers: str | None) -> Answer:
        """Send one request through the application."""
        return asked(self.api, Asked(method, target, **headers))


@pytest.fixture
def edge() -> Edge:
    return Edge()


@pytest.mark.parametrize(
    "host",
    ["localhost", "LocalHost:7890", "127.0.0.1:7890", "[::1]", "[::1]:7890", "localhost.", "localhost.:80"],
)
def test_loopback_names_are_served_in_every_spelling(edge: Edge, host: str) -> None:
    assert edge.ask("GET", "/things/x", host=host).status == 200
    assert edge.ask("GET", "/things/x", host=host).status == 200  # now from memory


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", ":7890", "[::1"]
)
def test_other_names_are_refused(edge: Edge, host: str) -> None:
    answer = edge.ask("GET", "/things/x", host=host)
    assert (answer.status, answer.data["code"], answer.reason) == (403, "forbidden", "host")


def test_a_request_of_http_1_0_without_a_host_is_served(edge: Edge) -> None:
    assert edge.ask("GET", "/things/x", host=None).status == 200


def test_names_may_be_allowed_one_by_one() -> None:
    allowed = Edge(allowed_hosts=frozenset({b"queue.example"}))
    assert allowed.ask("GET", "/things/x", host="Queue.Example:80").status == 200
    assert allowed.ask("GET", "/things/x", host="other.example").status == 403
    assert allowed.ask("GET", "/things/x", host="").status == 403


@pytest.mark.parametrize(
    "given",
    [None, "", "Bearer", "Bearer other", "bearer s3cret", "Bearer S3CRET", "Bearer s3cret ", "Basic s3cret"],
)
def test_without_the_token_nobody_comes_in(given: str | None) -> None:
    edge = Edge(token="s3cret")
    answer = edge.ask("GET", "/things/x", authorization=given)
    assert (answer.status, answer.extra) == (401, ((b"www-authenticate", b"Bearer"),))
    assert "bearer token" in answer.data["error"]
    assert (answer.data["code"], answer.reason) == ("unauthorized", "token")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "a bearer token is required"),
        ("", "a bearer token is required"),
        ("Basic czNjcmV0", "a bearer token is required"),
        ("Bearer other", "the bearer token is wrong"),
        ("bearer S3CRET", "the bearer token is wrong"),
    ],
)
def test_a_wrong_token_is_not_called_missing(given: str | None, said: str) -> None:
    answer = Edge(token="s3cret").ask("GET", "/things/x", authorization=given)
    assert (answer.status, answer.data["code"]) == (401, "unauthorized")
    assert answer.data["error"].startswith(said)


def test_with_the_token_everybody_comes_in() -> None:
    assert Edge(token="s3cret").ask("GET", "/things/x", authorization="Bearer s3cret").status == 200


def basic(pair: str) -> str:
    """The header that a browser sends for a name and a password."""
    return "Basic " + base64.b64encode(pair.encode()).decode()


@pytest.mark.parametrize("pair", ["anew:s3cret", ":s3cret"])
@pytest.mark.parametrize("path", ["/lab", "/static/x"])
def test_a_browser_brings_the_token_as_a_password(path: str, pair: str) -> None:
    edge = Edge(token="s3cret")
    assert edge.ask("GET", path, authorization=basic(pair)).status == 200
    assert edge.ask("GET", path, authorization="Bearer s3cret").status == 200


@pytest.mark.parametrize(
    "given",
    [None, basic("s3cret:"), basic("anew:wrong"), basic("s3cret"), "Basic", "Basic %%%", "Basic s3cret"],
)
def test_a_browser_without_the_password_is_asked_for_it(given: str | None) -> None:
    answer = Edge(token="s3cret").ask("GET", "/lab", authorization=given)
    assert answer.status == 401
    assert dict(answer.extra)[b"www-authenticate"].startswith(b"Basic realm=")


@pytest.mark.parametrize("path", ["/things/x", "/labour", "/readyz/../things/x"])
def test_a_password_opens_the_pages_alone(path: str) -> None:
    """A browser adds it to whatever a stranger's page makes it send."""
    answer = Edge(token="s3cret").ask("GET", path, authorization=basic("anew:s3cret"))
    assert answer.status == 401
    assert dict(answer.extra)[b"www-authenticate"] == b"Bearer"


def test_probes_need_no_token_but_a_host_that_is_served() -> None:
    edge = Edge(token="s3cret")
    assert edge.ask("GET", "/readyz").status == 200
    assert edge.ask("GET", "/readyz", host="evil.example").status == 403
    assert edge.ask("GET", "/readyz/").status == 401


def test_what_does_not_exist_is_not_told_to_strangers() -> None:
    assert Edge(token="s3cret").ask("GET", "/nowhere").status == 401


def test_a_literal_wins_over_a_parameter(edge: Edge) -> None:
    assert edge.ask("GET", "/things/best").data == "best"
    assert edge.ask("GET", "/things/b%65st").data == ["best"]


@pytest.mark.parametrize("path", ["/", "/things/", "/things/a/b", "//things/a", "/Things/a", "/things//"])
def test_paths_that_do_not_exist_are_404(edge: Edge, path: str) -> None:
    answer = edge.ask("GET", path)
    assert (answer.status, answer.data) == (404, {"error": "not found", "code": "not_found"})


def test_a_wrong_method_is_told_the_right_ones(edge: Edge) -> None:
    answer = edge.ask("DELETE", "/things/a")
    assert (answer.status, answer.body, answer.content_type) == (
        405,
        b'{"error":"method not allowed","code":"method_not_allowed"}',
        b"application/json",
    )
    assert answer.extra == ((b"allow", b"GET, HEAD"),)
    assert edge.ask("GET", "/things").extra == ((b"allow", b"POST"),)


def test_a_path_that_is_not_utf_8_is_400(edge: Edge) -> None:
    assert edge.ask("GET", "/things/%ff").status == 400


def test_an_error_of_a_handler_is_answered_with_its_words(edge: Edge) -> None:
    answer = edge.ask("GET", "/lost")
    assert (answer.status, answer.data) == (404, {"error": "it is not here", "code": "not_found"})


def test_a_handler_that_falls_tells_the_log_alone(edge: Edge, caplog: pytest.LogCaptureFixture) -> None:
    answer = edge.ask("GET", "/broken")
    assert (answer.status, answer.data) == (500, {"error": "internal server error", "code": "internal_error"})
    assert "the secret of row 7" in caplog.text


@pytest.mark.parametrize(
    ("host", "name"),
    [
        (b"A.Example:80", b"a.example"),
        (b" a. ", b"a"),
        (b"[::1]:80", b"[::1]"),
        (b"[::1", b""),
        (b":80", b""),
    ],
)
def test_a_host_is_read_without_its_port(host: bytes, name: bytes) -> None:
    assert host_name(host) == name


def test_what_is_refused_for_want_of_room_is_counted() -> None:
    edge = Edge()
    assert edge.ask("GET", "/busy").status == 503
    assert edge.counters.refused == {"overloaded": 1}


@pytest.mark.parametrize("path", ["/small", "/small/x"])
@pytest.mark.parametrize(
    ("length", "status"),
    [("10", 200), ("11", 413), ("9" * 9_000, 413), ("0" * 5_000 + "10", 200), (None, 200)],
)
def test_a_body_above_the_bound_of_its_route_is_refused_by_the_head(
    edge: Edge, path: str, length: str | None, status: int
) -> None:
    answer = edge.ask("PUT", path, content_length=length)
    assert answer.status == status
    if status == 413:
        assert answer.data == {"error": "the body of this request has at most 10 bytes", "code": "too_large"}
        assert answer.reason == "body_size"
    assert edge.ask("POST", "/things", content_length=length).status == 200  # another method


@pytest.mark.parametrize(("size", "status"), [(10, 200), (11, 413)])
def test_a_body_of_which_the_head_says_no_length_is_refused_when_it_has_come(
    edge: Edge, size: int, status: int
) -> None:
    assert asked(edge.api, Asked("PUT", "/small", b"x" * size)).status == status
