"""A server whose COMMIT waits for a standby: what its clients are told, and what they can do to it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.faktory_wire import FaktoryWire
from tests.fwp_clients.servers import url_of
from tests.postgres import cancel_wait, empty_database, no_standby_confirms, waiting_for_standby

from .client import Client
from .server import ServerProcess
from .wire import Wire, request_bytes

Start = Callable[..., ServerProcess]
Connect = Callable[..., Client]

JOB = {"type": "t", "queue": "q", "payload": 1}


@pytest.fixture
def server(fresh_server: Start) -> ServerProcess:
    """On an empty database."""
    return fresh_server(store=empty_database())


def posted(client: Client) -> Wire:
    """Send a new job; its answer waits."""
    wire = client.wire()
    body = json.dumps(JOB).encode()
    wire.send(request_bytes("POST", "/jobs", headers=[("content-type", "application/json")], body=body))
    return wire


def waiting() -> int:
    """Wait until a COMMIT waits for a standby; give its backend."""
    while True:
        for pid in waiting_for_standby():
            return pid


def test_reliability_38_both_protocols_report_a_commit_with_a_warning_as_unknown(
    server: ServerProcess, fresh: Connect
) -> None:
    client = fresh(server)
    with FaktoryWire.open(url_of(*server.address_of("fwp"), None)) as pusher:
        with no_standby_confirms():
            wire = posted(client)
            cancel_wait(waiting())
            answer = wire.read_response()
            assert answer.status == 500
            said = json.loads(answer.body)
            assert said["code"] == "in_doubt"
            assert "after a failover it may be gone" in said["error"]
            pusher.send('PUSH {"jid":"a-job-in-doubt","jobtype":"t","queue":"q","args":[1]}')
            cancel_wait(waiting())
            assert pusher.read().startswith("-ERR the change is stored, but")
        wire.close()
        pusher.expect('PUSH {"jid":"another-job","jobtype":"t","queue":"q","args":[1]}')
    assert client.count() == 3, "what was in doubt is there, and all goes on"
    lines = "\n".join(server.new_complaints()).splitlines()
    assert {json.loads(line)["fields"]["message"] for line in lines} == {
        "a batch is in doubt: a failover may undo it"
    }


def test_reliability_38_a_client_that_disconnects_cancels_no_commit(
    server: ServerProcess, fresh: Connect
) -> None:
    client = fresh(server)
    with no_standby_confirms():
        wires = [posted(client) for _ in range(3)]
        pid = waiting()
        for wire in wires:
            wire.close()
        for _ in range(5):  # by then the server has read that they are gone
            assert client.get("/health").status == 200
        assert waiting_for_standby() == [pid]
    client.eventually(lambda: client.count() == 3, "the jobs are there")
