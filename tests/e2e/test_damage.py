"""One damaged row hurts one job: it is set aside and says why, its neighbours run, and the server with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from .client import Client
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
        "its type cannot be read",
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


def test_a_damaged_job_is_set_aside_and_nothing_else(
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
    client.eventually(lambda: client.errors(ids["state"]), "the job whose state is none is set aside")
    for round_ in ("now", "after a restart"):
        for queue, (_, _, wrong) in DAMAGE.items():
            job = client.job(ids[queue])
            assert job["status"] == "dead", (queue, round_)
            assert (job["queue"], job["type"]) == (queue, "wor\ufffd" if queue == "type" else "work")
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
