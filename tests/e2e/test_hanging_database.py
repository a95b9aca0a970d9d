"""A database that answers nothing any more: its processes are stopped, as a machine's whose disk hangs. The server goes on."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest

from tests.postgres import empty_database

from .client import Client
from .server import ServerProcess

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


def test_the_server_answers_refuses_new_jobs_and_goes_on_when_the_database_does(
    fresh_server: Start, fresh: Connect, database: str
) -> None:
    server = fresh_server(store=database)
    one, other = fresh(server), fresh(server)
    first = one.enqueue("q")["id"]
    statuses: list[int] = []

    def enqueue() -> None:
        statuses.append(one.post("/jobs", {"type": "t", "queue": "q", "payload": 1}).status)

    with hanging(database):
        waiting = threading.Thread(target=enqueue)
        waiting.start()  # in the batch that hangs: it is answered when that is over
        assert other.get("/health").status == 200
        for _ in range(2):
            refused = other.post("/jobs", {"type": "t", "queue": "q", "payload": 1})
            assert (refused.status, refused.data["code"]) == (503, "store_busy")
        assert other.get(f"/jobs/{first}").status == 503
        assert other.get("/health").status == 200
    waiting.join(30)
    assert statuses in ([201], [503]), "it was in the batch, or behind a look at other processes"
    other.eventually(lambda: other.get(f"/jobs/{first}").status == 200, "the database answers again")
    assert other.count() == 1 + statuses.count(201)


def test_a_server_ends_in_time_though_the_database_hangs(
    fresh_server: Start, fresh: Connect, database: str
) -> None:
    """With a batch under way, and a list that is being read."""
    server = fresh_server(store=database, drain_timeout="100ms")
    one, other = fresh(server), fresh(server)
    one.enqueue("q")

    def ask(request: Callable[[], object]) -> None:
        with suppress(Exception):  # it is cut off
            request()

    with hanging(database):
        asking = [
            threading.Thread(target=ask, args=(lambda: one.enqueue("q"),)),
            threading.Thread(target=ask, args=(lambda: other.jobs(),)),
        ]
        for each in asking:
            each.start()
        assert fresh(server).get("/health").status == 200  # behind them
        assert server.terminate() == 0
        for each in asking:
            each.join(30)
    lines = "\n".join(server.new_complaints()).splitlines()
    said = [json.loads(line)["fields"]["message"] for line in lines]
    assert said
    assert all("the process ends without" in each for each in said)
