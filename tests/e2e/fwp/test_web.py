"""Faktory's web port: its paths lead to our pages, its figures are INFO's, its password is asked for: checklist 89 to 91."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from anew.web.faktory import MOVED
from tests.e2e.client import Client
from tests.e2e.server import ServerProcess
from tests.faktory_wire import FaktoryWire
from tests.fwp_clients.servers import url_of

from .jobs import push

PASSWORD = "123 456"


Web = Callable[..., tuple[Client, ServerProcess]]


@pytest.fixture
def web(fresh_server: Callable[..., ServerProcess]) -> Iterator[Web]:
    """Start a server with that port; give a client of it."""
    clients: list[Client] = []

    def start(**flags: Any) -> tuple[Client, ServerProcess]:
        server = fresh_server(fwp_port=0, fwp_web_port=0, **flags)
        clients.append(Client(server.address_of("fwp-web")))
        return clients[-1], server

    yield start
    for client in clients:
        client.close()


def basic(password: str) -> tuple[str, str]:
    return "authorization", "Basic " + base64.b64encode(f"anybody:{password}".encode()).decode()


def test_fwp_89_stats_have_the_shape_of_info(web: Web) -> None:
    client, server = web()
    with FaktoryWire.open(url_of(*server.address_of("fwp"), None)) as wire:
        push(wire, "mail")
        told = wire.ask("INFO")
        response = client.get("/stats")
        health = client.get("/health")
    assert response.header("cache-control") == "no-cache"
    shown = response.data
    assert shown["faktory"] == told["faktory"]
    assert list(shown) == ["now", "server_utc_time", "faktory", "server"]
    assert shown["server"].keys() == told["server"].keys()
    assert health.header("cache-control") == "no-cache"
    assert list(health.data) == ["now", "server"]
    assert health.data["server"] == {
        "command_count": told["server"]["command_count"],
        "connections": 1,
        "description": told["server"]["description"],
        "faktory_version": told["server"]["faktory_version"],
    }


def test_fwp_89_all_but_health_asks_for_the_password(
    web: Web,
) -> None:
    client, _ = web(fwp_password=PASSWORD)
    assert client.get("/health").status == 200
    for path in ("/", "/stats", "/ui", "/ui/jobs", "/busy", "/nowhere"):
        refused = client.get(path)
        assert (refused.status, refused.body) == (401, b"Authorization required\n")
        assert refused.header("www-authenticate") == 'Basic realm="Faktory"'
        wrong = client.get(path, headers=[basic("654 321")])
        assert (wrong.status, wrong.body) == (401, b"Authorization failed\n")
    assert client.get("/ui", headers=[basic(PASSWORD)]).status == 200
    assert client.get("/stats", headers=[basic(PASSWORD)]).status == 200


def test_fwp_89_the_web_port_may_have_a_password_of_its_own(
    web: Web,
) -> None:
    client, _ = web(fwp_password=PASSWORD, fwp_web_password="other")
    assert client.get("/stats", headers=[basic(PASSWORD)]).status == 401
    assert client.get("/stats", headers=[basic("other")]).status == 200


def test_fwp_90_forms_of_other_sites_are_refused(web: Web) -> None:
    client, _ = web()
    path = "/ui/queues/mail/pause"
    for headers in ([("origin", "https://evil.example")], [("sec-fetch-site", "cross-site")]):
        assert client.request("POST", path, body=b"", headers=headers).status == 403
    for headers in ([("sec-fetch-site", "same-origin")], [("origin", "http://localhost")], []):
        assert client.request("POST", path, body=b"", headers=headers).status == 303


def test_fwp_91_a_prefix_is_taken_off_paths_and_put_before_links(
    web: Web,
) -> None:
    client, _ = web()
    prefix = ("x-script-name", "/faktory")
    for path in ("/faktory/ui/queues", "/ui/queues"):
        told = client.get(path, headers=[prefix])
        assert told.status == 200
        assert b'href="/faktory/ui/jobs"' in told.body
        assert b'href="/ui' not in told.body
    assert client.get("/faktory/busy", headers=[prefix]).header("location") == "/faktory/ui/workers"
    assert client.get("/faktory", headers=[prefix]).header("location") == "/faktory/ui"


def test_its_pages_lead_to_ours(web: Web) -> None:
    client, _ = web()
    for path, place in (
        *MOVED.items(),
        ("/queues/a%20b", "/ui/jobs?queue=a%20b"),
        ("/nowhere/at/all", "/ui"),
    ):
        moved = client.get(path)
        assert (moved.status, moved.header("location")) == (303, place), path
        assert client.get(place).status == 200
    assert b"<title>Anew lab" in client.get("/lab").body
    assert client.post("/jobs", {"type": "t", "queue": "q", "payload": 1}).status == 405


def test_a_path_that_is_no_utf8_is_refused(web: Web) -> None:
    client, server = web()
    for path in ("/queues/%ff", "/ui/jobs/%ff"):
        refused = client.get(path)
        assert (refused.status, refused.data["code"]) == (400, "malformed_request")
    assert "Traceback" not in "".join(server.output)


def test_without_a_setting_there_is_no_such_port(fresh_server: Callable[..., ServerProcess]) -> None:
    server = fresh_server(fwp_port=0)
    server.address_of("fwp")
    server.terminate()
    assert "fwp-web" not in "".join(server.output)
