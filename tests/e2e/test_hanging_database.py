"""A database that answers nothing any more: its processes are stopped, as a machine's whose disk hangs. The server goes on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.postgres import empty_database

from .client import Client
from .server import ServerProcess
from .wire import Wire, request_bytes

Start = Callable[..., ServerProcess]
Connect = Callable[..., Client]


@pytest.fixture
def database() -> str:
    """The address of an empty database."""
    return empty_database()


@contextmanager
def hanging(database: str) -> Iterator[None]:
    """Stop the database's processes that serve Anew."""
    with psycopg.connect(database, autocommit=True) as connection:
        found = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'anew' AND datname = current_database()"
        ).fetchall()
    pids = [pid for (pid,) in found]
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def sent(client: Client, method: str, target: str, job: bytes | None = None) -> Wire:
    """Send a request whose answer may be long in coming, and return once the server has begun with it."""
    wire = client.wire()
    wire.send(request_bytes(method, target, headers=[("content-type", "application/json")], body=job))
    # The server has read it before these, and begins a batch at the latest two turns of its loop after its first operation; each
    # of these takes a turn.
    for _ in range(3):
        assert client.get("/health").status == 200
    return wire


def test_reliability_36_the_server_answers_refuses_new_jobs_and_goes_on_when_the_database_does(
    fresh_server: Start, fresh: Connect, database: str
) -> None:
    server = fresh_server(store=database)
    client = fresh(server)
    first = client.enqueue("q")["id"]
    job = {"type": "t", "queue": "q", "payload": 1}
    with hanging(database):
        in_batch = sent(client, "POST", "/jobs", json.dumps(job).encode())  # answered when the batch is over
        # A look at other processes may have come back only now: from here on no request gets into a batch that hangs.
        server.await_record("new jobs are refused while the store is busy")
        for _ in range(2):
            refused = client.post("/jobs", job)
            assert (refused.status, refused.data["code"]) == (503, "store_busy")
        assert client.get(f"/jobs/{first}").status == 503
        assert client.get("/health").status == 200
    status = in_batch.read_response().status
    in_batch.close()
    assert status in (201, 503), "it was in the batch, or behind a look at other processes"
    client.eventually(lambda: client.get(f"/jobs/{first}").status == 200, "the database answers again")
    assert client.count() == 1 + (status == 201)


def test_a_server_ends_in_time_though_the_database_hangs(
    fresh_server: Start, fresh: Connect, database: str
) -> None:
    """With a batch under way, and a list that is being read."""
    server = fresh_server(store=database, drain_timeout="100ms")
    client = fresh(server)
    client.enqueue("q")
    with hanging(database):
        asked = [
            sent(client, "POST", "/jobs", b'{"type": "t", "queue": "q", "payload": 1}'),
            sent(client, "GET", "/jobs"),
        ]
        assert server.terminate() == 0
    for wire in asked:
        wire.close()
    lines = "\n".join(server.new_complaints()).splitlines()
    said = [json.loads(line)["fields"]["message"] for line in lines]
    assert said
    assert all("the process ends without" in each for each in said)
