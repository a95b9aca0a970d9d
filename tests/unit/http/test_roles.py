"""Who may use which route: a table by hand, held against every route that a server has, and against what it answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from anew.config.token_file import ROLES, line_of
from anew.errors import InternalError
from anew.fwp import commands
from anew.http.api import Api, ApiSettings
from anew.http.router import Router
from anew.http.tokens import Tokens
from anew.net.seam import Refusal, WireCounters
from anew.web.dashboard.replies import forbidden
from tests.routes import doors, for_admins
from tests.unit.docs import ROOT

from .test_api import basic, show

EXPECTED = {
    "open": """
        GET /healthz  GET /readyz  GET /v1/confirm/{token}  POST /v1/confirm/{token}
    """,
    "admin read producer worker": """
        GET /health  GET /version  GET /openapi.json  GET /static/{version}/{name}
        GET /jobs/{id}  GET /v1/jobs/{id}  GET /jobs/{id}/errors  GET /jobs/{id}/errors/{attempt}  GET /v1/batches/{batch}
    """,
    "admin producer": """
        POST /jobs  POST /jobs/bulk  POST /v1/jobs/bulk  POST /v1/topics/{topic}/messages
        POST /v1/batches  POST /v1/batches/{batch}/close
    """,
    "admin worker": """
        GET /jobs/take  POST /jobs/{id}/success  POST /jobs/success  POST /jobs/{id}/failure  POST /v1/jobs/failure
        POST /v1/jobs/reports  POST /v1/jobs/{id}/progress  POST /v1/breakers  POST /v1/workers/{worker}/quiet
    """,
    "admin read producer": "GET /v1/messages/{message}",
    "admin read worker": "GET /jobs  GET /v1/jobs  GET /jobs/count  GET /v1/crons",
    "admin read": """
        GET /metrics  GET /queues  GET /v1/queues  GET /v1/workers  GET /v1/breakers
        GET /crons  GET /crons/{group}  GET /crons/{group}/entries/{entry}
        GET /v1/topics  GET /v1/topics/{topic}  GET /v1/topics/{topic}/subscriptions  GET /v1/subscriptions/{subscription}
        GET /v1/deliveries  GET /v1/deliveries/{delivery}  GET /v1/deliveries/{delivery}/attempts
        GET /v1/attempts/{attempt_id}  GET /v1/tasks/{task}
        GET /  GET /lab  GET /ui  GET /ui/  GET /ui/queues  GET /ui/failures  GET /ui/workers  GET /ui/crons  GET /ui/jobs
        GET /ui/jobs/{id}  GET /ui/replan  GET /ui/webhooks  GET /ui/webhooks/{topic}  GET /ui/subscriptions/{subscription}
        GET /ui/deliveries/{delivery}  GET /ui/limits  GET /ui/server
        GET /stats  GET /busy  GET /queues/{queue}  GET /retries  GET /scheduled  GET /morgue  GET /cron
    """,
    "admin": """
        POST /reset  PATCH /jobs  DELETE /jobs  PATCH /jobs/{id}  DELETE /jobs/{id}
        POST /v1/jobs/retry  POST /v1/jobs/replan  POST /v1/jobs/{id}/retry  POST /v1/jobs/{id}/cancel
        POST /v1/queues/{queue}/pause  POST /v1/queues/{queue}/resume
        PUT /v1/queues/{queue}/limit  DELETE /v1/queues/{queue}/limit
        POST /v1/workers/{worker}/terminate  POST /v1/breakers/{breaker}/close
        PUT /v1/crons/{group}  DELETE /v1/crons/{group}  DELETE /v1/crons/{group}/{name}
        DELETE /crons  PUT /crons/{group}  PATCH /crons/{group}  DELETE /crons/{group}  POST /crons/{group}/entries
        PUT /crons/{group}/entries/{entry}  PATCH /crons/{group}/entries/{entry}  DELETE /crons/{group}/entries/{entry}
        PUT /v1/topics/{topic}  PATCH /v1/topics/{topic}  DELETE /v1/topics/{topic}
        POST /v1/topics/{topic}/subscriptions  PATCH /v1/subscriptions/{subscription}
        DELETE /v1/subscriptions/{subscription}  POST /v1/subscriptions/{subscription}/confirm
        POST /v1/subscriptions/{subscription}/resend-confirmation
        POST /v1/subscriptions/{subscription}/pause  POST /v1/subscriptions/{subscription}/resume
        POST /v1/subscriptions/{subscription}/disable  POST /v1/subscriptions/{subscription}/enable
        POST /v1/subscriptions/{subscription}/test  POST /v1/subscriptions/{subscription}/replay
        GET /v1/subscriptions/{subscription}/secret  POST /v1/subscriptions/{subscription}/secret/rotate
        POST /v1/deliveries/redeliver  DELETE /v1/deliveries/{delivery}  POST /v1/deliveries/{delivery}/redeliver
        POST /v1/deliveries/{delivery}/cancel  DELETE /v1/tasks/{task}
        POST /v1/delivery-policies/preview  POST /v1/delivery-policies/convert
        POST /ui/jobs  POST /ui/jobs/{id}/{action}  POST /ui/queues/{queue}/{action}  POST /ui/workers/{worker}/{action}
        POST /ui/crons/{group}/{name}/{action}  POST /ui/replan  POST /ui/breakers/{breaker}/close
        POST /ui/subscriptions/{id}/pause  POST /ui/subscriptions/{id}/resume  POST /ui/subscriptions/{id}/disable
        POST /ui/subscriptions/{id}/enable  POST /ui/subscriptions/{id}/ask  POST /ui/subscriptions/{id}/replay
        POST /ui/subscriptions/{id}/test  POST /ui/deliveries/{id}/send  POST /ui/deliveries/{id}/stop
        GET /events  POST /backup  POST /compact
    """,
}
"""Routes by who may use them. Whoever adds a route decides here too."""

WHO = {route: who for who, text in EXPECTED.items() for route in re.findall(r"[A-Z]+ \S+", text)}

TOKENS = {role: f"token-of-{role}" for role in ROLES}


def served() -> list[tuple[str, str, str]]:
    """Every port, method and path of a server."""
    return [
        (door, method.decode(), route.template)
        for door, router in doors().items()
        for route in router.routes
        for method in route.handlers
    ]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a token of each role, and one of two."""
    file = tmp_path / "tokens"
    file.touch(0o600)
    lines = [line_of(token, [role], f"a-{role}") for role, token in TOKENS.items()]
    file.write_text("\n".join([*lines, line_of("both", ["producer", "worker"], "mailer")]) + "\n")
    return file


def asked(api: Api, method: str, path: str, authorization: str | None, **more: str) -> Refusal | None:
    """Send a head."""
    headers = {b"host": b"localhost"} | {
        name.replace("_", "-").encode(): text.encode() for name, text in more.items()
    }
    if authorization is not None:
        headers[b"authorization"] = authorization.encode()
    return api.judge(method.encode(), path.encode(), headers)


def code_of(refusal: Refusal | None) -> int:
    """The status of a refusal, 0 for none."""
    return 0 if refusal is None else refusal.status


def test_reliability_50_every_route_has_a_row_and_the_table_is_the_one_that_was_meant() -> None:
    routes = {f"{method} {path}" for _, method, path in served() if method != "HEAD"}
    assert WHO.keys() == routes
    assert len(WHO) == sum(len(re.findall(r"[A-Z]+ \S+", text)) for text in EXPECTED.values()), "none twice"
    for door, router in doors().items():
        for route in router.routes:
            for method in route.handlers:
                row = f"{'GET' if method == b'HEAD' else method.decode()} {route.template}"
                assert route.roles[method] >= {"admin"}, (door, row)
                who = "open admin read producer worker" if WHO[row] == "open" else WHO[row]
                assert sorted(route.roles[method]) == sorted(who.split()), (door, row)


def test_reliability_50_a_route_without_a_row_cannot_be_served() -> None:
    with pytest.raises(InternalError, match=r"GET /surprise cannot be served: anew.http.roles has no row"):
        Router().add("GET", "/surprise", show)
    with pytest.raises(InternalError, match=r"DELETE /healthz cannot"):
        Router().add("DELETE", "/healthz", show)


@pytest.mark.parametrize("door", ["primary", "admin"])
def test_reliability_50_each_role_opens_its_routes_and_no_others(door: str, file: Path) -> None:
    """The matrix: every route, every method, every role, as the application judges it."""
    api = Api(ApiSettings(tokens=Tokens(file)), WireCounters(), doors()[door])
    for at, method, template in served():
        if at != door:
            continue
        path = re.sub(r"{\w+}", "x", template)
        row = WHO[f"{'GET' if method == 'HEAD' else method} {template}"]
        for role, token in TOKENS.items():
            expected = 0 if row == "open" or role in row.split() else 403
            assert code_of(asked(api, method, path, f"Bearer {token}")) == expected, (role, method, template)
        for stranger in (
            None,
            "Bearer nobody",
            "Bearer ",
            f"bearer {TOKENS['admin']}",
            basic(f"me:{TOKENS['admin']}x"),
        ):
            expected = 0 if row == "open" else 401
            assert code_of(asked(api, method, path, stranger)) == expected, (stranger, method, template)


def test_a_token_of_two_roles_has_the_rights_of_both(file: Path) -> None:
    api = Api(ApiSettings(tokens=Tokens(file)), WireCounters(), doors()["primary"])
    for method, path, expected in (("POST", "/jobs", 0), ("GET", "/jobs/take", 0), ("DELETE", "/jobs", 403)):
        assert code_of(asked(api, method, path, "Bearer both")) == expected
    refused = asked(api, "POST", "/reset", "Bearer both")
    assert refused is not None
    said = b"POST /reset needs the role admin; this token (mailer) has producer and worker"
    assert refused.body == b'{"error":"' + said + b'","code":"forbidden"}'
    assert refused.reason == "role"


def test_a_refusal_says_which_roles_would_do(file: Path) -> None:
    api = Api(ApiSettings(tokens=Tokens(file)), WireCounters(), doors()["primary"])
    refused = asked(api, "GET", "/jobs", f"Bearer {TOKENS['producer']}")
    assert refused is not None
    assert b"GET /jobs needs the role read or worker; this token (a-producer) has producer" in refused.body


def test_what_is_not_there_is_told_to_whoever_has_a_token(file: Path) -> None:
    api = Api(ApiSettings(tokens=Tokens(file)), WireCounters(), doors()["primary"])
    read = f"Bearer {TOKENS['read']}"
    assert [code_of(asked(api, *ask)) for ask in (
        ("GET", "/nowhere", read), ("PUT", "/jobs", read), ("GET", "/jobs/%ff", read), ("GET", "/nowhere", None)
    )] == [404, 405, 400, 401]  # fmt: skip


def test_the_one_token_beside_a_file_may_do_everything(file: Path) -> None:
    tokens = Tokens(file, "s3cret")
    api = Api(ApiSettings(token="s3cret", tokens=tokens), WireCounters(), doors()["primary"])
    assert [code_of(asked(api, *ask, "Bearer s3cret")) for ask in (("POST", "/reset"), ("GET", "/jobs"))] == [
        0,
        0,
    ]


def test_a_token_is_a_password_for_pages_alone(file: Path) -> None:
    api = Api(ApiSettings(tokens=Tokens(file)), WireCounters(), doors()["primary"], forbidden)
    read, producer, admin = (basic(f"me:{TOKENS[role]}") for role in ("read", "producer", "admin"))
    assert [code_of(asked(api, "GET", path, read)) for path in ("/ui", "/ui/jobs/x", "/lab", "/jobs")] == [
        0,
        0,
        0,
        401,
    ]
    own: dict[str, Any] = {"sec_fetch_site": "same-origin"}
    assert code_of(asked(api, "POST", "/ui/jobs", admin)) == 401, (
        "a form counts where the browser says that it is ours"
    )
    assert code_of(asked(api, "POST", "/ui/jobs", admin, **own)) == 0
    refused = asked(api, "POST", "/ui/jobs", read, **own, x_script_name="/queue")
    assert refused is not None
    assert (refused.status, refused.content_type) == (403, b"text/html; charset=utf-8")
    page = refused.body.decode()
    assert "<h1>Not allowed</h1>" in page
    assert "This needs the role admin; this token (a-read) has read." in page
    assert 'href="/queue/ui"' in page
    assert code_of(asked(api, "GET", "/ui", producer)) == 403


def test_a_server_without_a_file_looks_at_no_roles() -> None:
    """Nothing is called for it, whether the server asks for its one token or for none."""
    router = Router(for_admins)
    router.add("GET", "/jobs", show)
    for settings, header in ((ApiSettings(), None), (ApiSettings(token="s3cret"), "Bearer s3cret")):
        api = Api(settings, WireCounters(), router)
        router.routes[0].roles.clear()
        assert asked(api, "GET", "/jobs", header) is None


OPERATIONS = ROOT / "docs" / "operations.md"


def test_reliability_50_the_document_names_what_each_role_may_use() -> None:
    text = OPERATIONS.read_text("utf-8").partition("| role | may use |")[2].partition("\n\n")[0]
    told = {
        name: set(re.findall(r"`([A-Z]+ /[^` ]*)`", line))
        for name, line in re.findall(r"^\| `?([a-z ]+)`? \| (.*) \|$", text, re.MULTILINE)
    }
    each = told.pop("each of them")
    assert each == {route for route, who in WHO.items() if who.split() == list(ROLES)}
    closed = {
        route for route in WHO if route.startswith("GET ") and not {"read", "open"} & set(WHO[route].split())
    }
    assert told.pop("read") == closed - {"GET /events"}, "which the row of `admin` speaks of"
    assert told.pop("admin") == set()
    for role in ("producer", "worker"):
        assert told[role] == {route for route, who in WHO.items() if role in who.split()} - each


def test_reliability_50_every_verb_of_faktorys_protocol_has_its_row() -> None:
    (row,) = re.findall(
        r"^\| rights \| (.*?): any role", (ROOT / "docs" / "faktory.md").read_text("utf-8"), re.MULTILINE
    )
    verbs = {verb.decode() for verb in [*commands._ALL_READERS, *commands._ALONE]}
    assert set(re.findall(r"`([A-Z]+)`", row)) == verbs
