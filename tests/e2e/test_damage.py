"""One damaged row hurts one job: it is set aside and says why, its neighbours run, and the server with them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from .client import Client, now_ms
from .server import ServerProcess
from .wire import Response

Start = Callable[..., ServerProcess]
Connect = Callable[..., Client]

LONG = "x" * 600_000
SMALL = {"n": 1}

DAMAGE: dict[str, tuple[Any, str, str]] = {
    "missing": (LONG, "DELETE FROM payload WHERE job_id = ?", "its payload is missing"),
    "short": (
        LONG,
        "DELETE FROM payload WHERE part = 1 AND job_id = ?",
        "of its payload of 600002 bytes there are 337858",
    ),
    "flipped": (
        SMALL,
        "UPDATE job SET payload = x'7b226e223a337d' WHERE id = ?",
        "its payload does not match its checksum",
    ),
    "policy": (SMALL, "UPDATE job SET policy = x'7b' WHERE id = ?", "its policy cannot be read"),
    "type": (
        SMALL,
        "UPDATE job SET type = CAST(x'776f72ff' AS TEXT) WHERE id = ?",
        "its queue or type cannot be read",
    ),
    "queue": (
        SMALL,
        "UPDATE job SET queue = CAST(x'7175657565ff' AS TEXT) WHERE id = ?",
        "its queue or type cannot be read",
    ),
    "state": (SMALL, "UPDATE job SET state = 33 WHERE id = ?", "its state 33 is none"),
}
"""By queue: a payload, what happens to it in the file, and what is said of it."""


def damage(root_dir: Path, done: dict[str, str]) -> None:
    """Change the newest job of each queue in the file."""
    connection = apsw.Connection(str(root_dir / "anew.db"))
    for queue, statement in done.items():
        (key,) = connection.execute("SELECT max(id) FROM job WHERE queue = ?", (queue,)).fetchone()
        connection.execute(statement, (key,))
    connection.close()


def corrupt_total(client: Client) -> float:
    text = client.get("/metrics").body.decode()
    (line,) = [line for line in text.splitlines() if line.startswith("anew_jobs_corrupt_total ")]
    return float(line.split()[1])


def redrive(client: Client, id_: str) -> Response:
    return client.post(f"/v1/jobs/{id_}/retry", {})


@pytest.fixture
def damaged(fresh_server: Start, fresh: Connect) -> tuple[ServerProcess, dict[str, str]]:
    """A server on a damaged file, and the ids of the damaged jobs by their queue; each has a sound job before it."""
    server = fresh_server()
    client = fresh(server)
    ids = {}
    for queue, (payload, _, _) in DAMAGE.items():
        client.enqueue(queue, payload="sound")
        ids[queue] = client.enqueue(queue, payload=payload)["id"]
    client.close()
    assert server.terminate() == 0
    damage(server.root_dir, {queue: statement for queue, (_, statement, _) in DAMAGE.items()})
    return fresh_server(root_dir=server.root_dir), ids


def test_reliability_24_a_damaged_job_is_set_aside_and_nothing_else(
    damaged: tuple[ServerProcess, dict[str, str]], fresh_server: Start, fresh: Connect
) -> None:
    server, ids = damaged
    client = fresh(server)
    client.jobs()  # whoever looks meets the state that is none
    with client.take(",".join(DAMAGE), prefetch=20) as stream:
        jobs = stream.next_jobs(len(DAMAGE))
        assert {(job["queue"], job["payload"]) for job in jobs} == {(queue, "sound") for queue in DAMAGE}
        for job in jobs:
            client.succeed(job["id"])
    assert redrive(client, ids["state"]).status == 409
    for queue in ("state", "queue"):
        client.eventually(lambda id_=ids[queue]: client.errors(id_), "a job that was met is set aside")
    for round_ in ("now", "after a restart"):
        for queue, (_, _, wrong) in DAMAGE.items():
            job = client.job(ids[queue])
            assert job["status"] == "dead", (queue, round_)
            assert job["type"] == ("wor\ufffd" if queue == "type" else "work")
            assert job["queue"] == ("queue\ufffd" if queue == "queue" else queue)
            record = client.errors(ids[queue])[-1]
            assert (record["message"], record["decision"]["reason"]) == (wrong, f"corrupt: {wrong}"), round_
            answer = redrive(client, ids[queue])
            assert (answer.status, "corrupt" in answer.data["error"]) == (409, True)
        assert client.post("/v1/jobs/retry?status=dead", {}).data["retried"] == 0
        if round_ == "now":
            assert corrupt_total(client) == len(DAMAGE)
            client.close()
            assert server.terminate() == 0
            client = fresh(fresh_server(root_dir=server.root_dir))
    assert client.count(status="dead") == len(DAMAGE)
    sound = client.enqueue("state", payload="still running")["id"]
    with client.take("state") as stream:
        assert stream.next_jobs(1)[0]["id"] == sound


def test_a_policy_that_is_damaged_while_its_job_runs(fresh_server: Start, fresh: Connect) -> None:
    server = fresh_server()
    client = fresh(server)
    id_ = client.enqueue("q", backoff={"exponent": 1, "base_ms": 1, "jitter_ms": 1})["id"]
    with client.take("q") as stream:
        stream.next_jobs(1)
        damage(server.root_dir, {"q": "UPDATE job SET policy = x'7b' WHERE id = ?"})
        assert client.fail(id_, message="what the worker said")["status"] == "dead"
    record = client.errors(id_)[-1]
    assert record["message"] == "what the worker said"
    assert record["decision"]["reason"] == "corrupt: its policy cannot be read"
    assert redrive(client, id_).status == 409
    assert corrupt_total(client) == 1


DAMAGED_ROWS = {
    "hold of no kind": "UPDATE job SET hold_kind = 99 WHERE id = ?",
    "hold of nobody": "UPDATE job SET hold_owner = NULL WHERE id = ?",
    "hold without a kind": "UPDATE job SET hold_kind = NULL WHERE id = ?",
    "reservation without an end": "UPDATE job SET hold_kind = 20, hold_deadline = NULL WHERE id = ?",
}


@pytest.mark.parametrize("statement", DAMAGED_ROWS.values(), ids=list(DAMAGED_ROWS))
def test_a_damaged_hold_keeps_no_job_from_being_offered_again(
    fresh_server: Start, fresh: Connect, statement: str
) -> None:
    server = fresh_server()
    client = fresh(server)
    id_ = client.enqueue("q")["id"]
    with client.take("q") as stream:
        stream.next_jobs(1)
        server.kill()
    damage(server.root_dir, {"q": statement})
    with fresh(fresh_server(root_dir=server.root_dir)).take("q") as stream:
        assert stream.next_job()["id"] == id_


@pytest.mark.parametrize("state", ["waiting for its time", "in flight"])
@pytest.mark.parametrize("column", ["queue", "type"])
def test_a_damaged_name_stops_no_start_and_no_other_job(
    fresh_server: Start, fresh: Connect, column: str, state: str
) -> None:
    server = fresh_server()
    client = fresh(server)
    if state == "in flight":
        id_ = client.enqueue("q")["id"]
        with client.take("q") as stream:
            stream.next_jobs(1)
            server.kill()
    else:
        id_ = client.enqueue("q", ready_at=now_ms() + 1_500)["id"]
        server.kill()
    damage(server.root_dir, {"q": f"UPDATE job SET {column} = CAST(x'71ff' AS TEXT) WHERE id = ?"})
    again = fresh(fresh_server(root_dir=server.root_dir))
    other = again.enqueue("other")["id"]
    with again.take("other") as stream:
        assert stream.next_job()["id"] == other
        again.succeed(other)
    again.when_status(id_, "dead")
    assert again.errors(id_)[-1]["decision"]["reason"] == "corrupt: its queue or type cannot be read"
    again.eventually(lambda: again.count() == 1, "the counters are right again")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE job SET attempts = 9223372036854775807 WHERE id = ?",
        "UPDATE job SET retry_limit = -5 WHERE id = ?",
        "UPDATE job SET records = 9223372036854775807 WHERE id = ?",
    ],
)
def test_numbers_that_no_job_can_have_do_not_keep_a_report_from_being_taken(
    fresh_server: Start, fresh: Connect, statement: str
) -> None:
    server = fresh_server()
    client = fresh(server)
    id_ = client.enqueue("q")["id"]
    with client.take("q") as stream:
        stream.next_jobs(1)
        damage(server.root_dir, {"q": statement})
        assert client.fail(id_, message="no")["status"] in ("dead", "scheduled")
    assert client.errors(id_)[-1]["message"] == "no"


@pytest.mark.parametrize(
    "statement",
    ["UPDATE queue SET head_id = NULL", "DELETE FROM queue", "UPDATE queue SET name = CAST(x'ff' AS TEXT)"],
)
def test_damaged_heads_of_lines_are_made_anew_after_a_crash(
    fresh_server: Start, fresh: Connect, statement: str
) -> None:
    server = fresh_server()
    client = fresh(server)
    id_ = client.enqueue("q")["id"]
    server.kill()
    connection = apsw.Connection(str(server.root_dir / "anew.db"))
    connection.execute(statement)
    connection.close()
    with fresh(fresh_server(root_dir=server.root_dir)).take() as stream:
        assert stream.next_job()["id"] == id_


def test_damaged_records_of_attempts_spoil_no_page(fresh_server: Start, fresh: Connect) -> None:
    """Every text of a record, and its decision; the dashboard lists the job beside the others, and shows it."""
    server = fresh_server()
    client = fresh(server)
    ids = [client.enqueue(queue)["id"] for queue in ("q", "sound")]
    for queue in ("q", "sound"):
        client.run_one(queue, lambda taken: client.fail(taken, message="no", error_type="E", backtrace="b"))
    text = "CAST(x'65ff' AS TEXT)"
    columns = ", ".join(f"{name} = {text}" for name in ("outcome", "message", "error_type", "backtrace"))
    damage(server.root_dir, {"q": f"UPDATE attempt SET {columns}, decision = x'00ff' WHERE job_id = ?"})
    for target in ("/ui", "/ui/jobs", "/ui/failures", f"/ui/jobs/{ids[0]}", f"/jobs/{ids[0]}/errors"):
        assert client.get(target).status == 200, target
    assert all(job_id in client.get("/ui/jobs").body.decode() for job_id in ids)


def test_a_payload_that_is_gone_spoils_no_list(fresh_server: Start, fresh: Connect) -> None:
    server = fresh_server()
    client = fresh(server)
    id_ = client.enqueue("q")["id"]
    damage(server.root_dir, {"q": "UPDATE job SET payload = NULL WHERE id = ?"})
    assert [job["id"] for job in client.jobs(queue="q")] == [id_]


def test_damaged_names_are_shown_as_far_as_they_can_be_read(fresh_server: Start, fresh: Connect) -> None:
    """Of a cron entry, a queue, a service and a key: the pages that name them name the others too."""
    server = fresh_server()
    client = fresh(server)
    for queue in ("damaged", "sound"):
        client.enqueue(queue)
    entry = {
        "schedule": "0 3 * * *",
        "timezone": "Europe/Berlin",
        "job": {"type": "t", "queue": "q", "payload": None},
    }
    entries = [{"name": name, **entry} for name in ("damaged", "sound")]
    assert client.put("/v1/crons/jobs", {"entries": entries}).status == 200
    client.close()
    assert server.terminate() == 0
    text = "CAST(x'64616dff' AS TEXT)"
    connection = apsw.Connection(str(server.root_dir / "anew.db"))
    for statement in (
        f"UPDATE cron SET name = {text}, expression = {text}, timezone = {text} WHERE name = 'damaged'",
        f"INSERT INTO cron_group (name, paused) VALUES ({text}, 0)",
        *(
            f"INSERT INTO breaker VALUES ({key}, {state}, 1, 1, 0, 0, 0, 0, 0, 0)"
            for key, state in ((text, "'closed'"), ("'sound'", "'open'"), ("'odd'", text))
        ),
        f"INSERT INTO limit_key (name, bounds, debt, at) VALUES ({text}, x'7b7d', 0, 0), ('sound', x'7b7d', 0, 0)",
    ):
        connection.execute(statement)
    connection.close()
    client = fresh(fresh_server(root_dir=server.root_dir))
    connection = apsw.Connection(str(server.root_dir / "anew.db"))
    connection.execute(f"UPDATE queue SET name = {text} WHERE name = 'damaged'")
    connection.close()
    # Of the cron entry its schedule and its time zone too; of services and keys one each.
    for target, times in {
        "/ui": (1, 1),
        "/ui/queues": (1, 1),
        "/ui/crons": (3, 1),
        "/ui/limits?every=1": (2, 2),
    }.items():
        told = client.get(target)
        assert told.status == 200, target
        names = re.findall(r">(dam\ufffd|sound)<", told.body.decode())
        assert (names.count("dam\ufffd"), names.count("sound")) == times, target
    assert [cron["name"] for cron in client.get("/v1/crons").data["crons"]] == ["dam\ufffd", "sound"]
    form = [("content-type", "application/x-www-form-urlencoded")]
    assert client.request("POST", "/ui/crons/jobs/dam%EF%BF%BD/pause", body=b"", headers=form).status == 404
    assert client.request("POST", "/ui/crons/jobs/sound/pause", body=b"", headers=form).status == 303


def test_a_damaged_topic_spoils_no_list_and_says_so_at_its_own_address(
    fresh_server: Start, fresh: Connect
) -> None:
    server = fresh_server()
    client = fresh(server)
    ids = []
    for name in ("damaged", "named", "sound"):
        assert client.put(f"/v1/topics/{name}", {}).status == 201
        body = {"endpoint": {"type": "queue", "queue": name}}
        ids.append(client.post(f"/v1/topics/{name}/subscriptions", body).data["id"])
    client.close()
    assert server.terminate() == 0
    connection = apsw.Connection(str(server.root_dir / "anew.db"))
    connection.execute("UPDATE topic SET document = x'7b' WHERE name = 'damaged'")
    connection.execute("UPDATE topic SET name = CAST(x'6e616dff' AS TEXT) WHERE name = 'named'")
    connection.execute("UPDATE subscription SET endpoint = CAST(x'6e616dff' AS TEXT) WHERE topic = 'named'")
    connection.execute("UPDATE topic_count SET label = CAST(x'6e616dff' AS TEXT)")
    connection.close()
    client = fresh(fresh_server(root_dir=server.root_dir))
    assert client.get("/metrics").status == 200
    listed = client.get("/v1/topics")
    assert [topic["name"] for topic in listed.data["topics"]] == ["nam\ufffd", "sound"]
    told = client.get("/v1/topics/damaged")
    assert told.status == 409
    assert b'"code":"corrupt_row"' in told.body
    assert b"stored of this topic cannot be read" in told.body
    assert client.get(f"/v1/subscriptions/{ids[1]}").data["topic"] == "named"
    assert client.get("/ui/webhooks").status == 200
    message = {"type": "t", "data": 1}
    assert client.post("/v1/topics/sound/messages", {"messages": [message]}).status in (200, 201, 202)
    assert client.post("/v1/topics/damaged/messages", {"messages": [message]}).status == 409
    assert client.count(queue="sound") == 1
    assert client.put("/v1/topics/damaged", {}).status == 200
    assert client.delete("/v1/topics/nam%EF%BF%BD").status == 204
