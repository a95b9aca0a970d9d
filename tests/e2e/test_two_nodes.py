"""Servers, programs and commands on one PostgreSQL database: whatever one does, the others see and may go on with."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from anew.engine import ThreadCommit
from anew.jobs import Failed, NewJob
from anew.tasks.opening import open_engine
from tests.faktory_wire import FaktoryWire
from tests.fwp_clients.servers import url_of
from tests.postgres import empty_database

from .client import Client, now_ms
from .forked import Forked
from .server import ServerProcess, command, environment

Start = Callable[..., ServerProcess]
Connect = Callable[..., Client]


@pytest.fixture
def database() -> str:
    """The address of an empty database."""
    return empty_database()


@pytest.fixture
def nodes(fresh_server: Start, fresh: Connect, database: str) -> tuple[ServerProcess, ServerProcess]:
    """Two servers on it."""
    return fresh_server(store=database), fresh_server(store=database)


@pytest.fixture
def program(database: str) -> Iterator[ThreadCommit]:
    """An engine of this process on it."""
    engine = open_engine(database)
    yield engine
    engine.close()


def new_job(queue: str = "q", **members: object) -> NewJob:
    """A job as a program makes it."""
    return NewJob(type="t", queue=queue, payload=msgspec.Raw(b'{"n":1}'), **members)  # type: ignore[arg-type]


def test_a_job_that_one_node_takes_in_reaches_a_stream_of_the_other(
    nodes: tuple[ServerProcess, ServerProcess], fresh: Connect
) -> None:
    one, two = (fresh(node) for node in nodes)
    with two.take("q") as stream:
        stream.expect_idle()
        sent = one.enqueue("q")
        job = stream.next_job()
        assert job["id"] == sent["id"]
        assert one.job(job["id"])["status"] == "in_flight"
        one.succeed(job["id"])
    assert two.count() == 0


def test_a_failure_on_one_node_is_tried_again_by_the_other(
    nodes: tuple[ServerProcess, ServerProcess], fresh: Connect
) -> None:
    one, two = (fresh(node) for node in nodes)
    one.enqueue("q")
    with one.take("q") as stream:
        job = stream.next_job()
    with two.take("q") as stream:  # the end of the first stream has given it back
        assert stream.next_job()["id"] == job["id"]
        two.fail(job["id"], retry_at=now_ms() + 100)
    with one.take("q") as stream:
        assert stream.next_job()["attempts"] == 1
    assert len(two.errors(job["id"])) == 1


def test_what_a_killed_node_held_is_ready_for_the_other(
    nodes: tuple[ServerProcess, ServerProcess], fresh: Connect
) -> None:
    one, two = (fresh(node) for node in nodes)
    sent = one.enqueue_many("q", 3)
    with one.take("q", prefetch=3) as stream:
        stream.next_jobs(3)
        nodes[0].kill()
    with two.take("q", prefetch=3) as stream:
        assert [job["id"] for job in stream.next_jobs(3)] == sent
        for key in sent:
            two.succeed(key)
    assert two.count() == 0


def test_a_program_and_a_node_share_the_jobs(
    nodes: tuple[ServerProcess, ServerProcess], program: ThreadCommit, fresh: Connect
) -> None:
    client = fresh(nodes[0])
    sender = threading.Thread(target=lambda: client.enqueue("q"))
    sender.start()
    taken = program.take(["q"], 10, timeout_s=20.0)
    sender.join()
    (row,) = taken.rows
    (seen,) = client.jobs(queue="q")
    assert seen["status"] == "in_flight"
    program.fail(row[0], Failed(message="no"), taken.token)
    assert [error["message"] for error in client.errors(seen["id"])] == ["no"]
    with client.take("later") as stream:
        program.enqueue([new_job("later", ready_at=now_ms() + 300)])
        assert stream.next_job()["attempts"] == 0


def test_ids_stay_in_order_of_arrival_whichever_node_gives_them(
    nodes: tuple[ServerProcess, ServerProcess], fresh: Connect
) -> None:
    one, two = (fresh(node) for node in nodes)
    given = [client.enqueue("q")["id"] for _ in range(20) for client in (one, two)]
    assert given == sorted(given)
    assert [job["id"] for job in one.jobs(queue="q")] == given


def test_a_job_pushed_to_one_node_is_fetched_from_the_other(
    nodes: tuple[ServerProcess, ServerProcess], fresh: Connect
) -> None:
    one, two = (url_of(*node.address_of("fwp"), None) for node in nodes)
    with FaktoryWire.open(one) as pusher, FaktoryWire.open(two, wid="w1") as worker:
        pusher.expect('PUSH {"jid":"a-job-of-two-nodes","jobtype":"t","queue":"q","args":[1]}')
        assert worker.ask("FETCH q")["jid"] == "a-job-of-two-nodes"
        worker.expect('ACK {"jid":"a-job-of-two-nodes"}')
    assert fresh(nodes[0]).count() == 0


def run_command(*words: str) -> tuple[int, str]:
    """Run a command to its end; give its status and what it has printed."""
    process = Forked(words, environment(), merged=True)
    with process.stdout:
        printed = process.stdout.read()
    return process.wait(), printed


def test_commands_reach_the_database_without_a_server(database: str, program: ThreadCommit) -> None:
    program.enqueue([new_job("orders"), new_job("orders")])
    status, found = run_command("queues", "--url", database, "--json")
    assert status == 0
    (row,) = msgspec.json.decode(found)["queues"]
    assert (row["name"], row["ready"]) == ("orders", 2)


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("postgresql://ada:topsecret@127.0.0.1:1/jobs", "cannot be reached"),
        ("postgresql://ada:topsecret@127.0.0.1", "expected postgresql://USER@HOST/DATABASE"),
        ("mysql://ada:topsecret@127.0.0.1/jobs", "expected postgresql://USER@HOST/DATABASE"),
    ],
)
def test_a_database_that_cannot_be_used_is_told_without_its_password(
    tmp_path: Path, store: str, said: str
) -> None:
    ended = subprocess.run(
        [*command(), "serve", "--store", store, "--root-dir", str(tmp_path / "data")],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert ended.returncode != 0
    assert said in ended.stderr
    assert "topsecret" not in ended.stderr + ended.stdout


def test_a_server_refuses_a_database_that_syncs_nothing_and_says_what_to_do(
    tmp_path: Path, database: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "anew", "serve", "--store", database, "--root-dir", str(tmp_path / "data")],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert ended.returncode == 2
    assert "fsync is off" in ended.stderr
    assert "--commit relaxed" in ended.stderr


@pytest.mark.parametrize("arguments", [["backup", "copy.db"], ["restore", "copy.db"]])
def test_what_is_about_files_says_so(tmp_path: Path, database: str, arguments: list[str]) -> None:
    ended = subprocess.run(
        [*command(), *arguments],
        capture_output=True,
        text=True,
        env=environment() | {"ANEW_STORE": database},
        cwd=tmp_path,
        check=False,
    )
    assert ended.returncode != 0
    assert "pg_dump" in ended.stderr
    assert os.listdir(tmp_path) == []


def run_doctor(database: str, *options: str) -> tuple[int, dict[str, Any]]:
    status, printed = run_command("doctor", database, "--json", *options)
    found: dict[str, Any] = msgspec.json.decode(printed)
    # The server of the tests syncs nothing, which is what it is asked about too.
    found["findings"] = [one for one in found["findings"] if one["name"] not in DURABILITY]
    return status, found


DURABILITY = ("fsync", "full_page_writes")


def test_the_doctor_finds_and_mends_what_is_derived(database: str) -> None:
    program = open_engine(database)
    program.enqueue([new_job("orders"), new_job("orders")])
    with psycopg.connect(database) as other:
        other.execute("UPDATE anew.queue SET ready = 9, head_id = 5")
        other.execute("INSERT INTO anew.outbox (job, refused) VALUES ('x', 'no job')")
    program.engine.store.close()
    status, found = run_doctor(database)
    assert status == 5
    assert {one["name"] for one in found["findings"]} == {"counters", "heads", "outbox"}
    assert found["facts"]["jobs"] == "2"
    _, found = run_doctor(database, "--repair")
    assert len(found["mended"]) == 2
    assert [one["name"] for one in found["findings"]] == ["outbox"]


def test_the_doctor_says_where_there_is_no_store(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as other:
        other.execute("DROP DATABASE IF EXISTS anew_none WITH (FORCE)")
        other.execute("CREATE DATABASE anew_none")
    status, printed = run_command("doctor", database.replace("/postgres?", "/anew_none?"))
    assert status == 4
    assert "holds no store" in printed
