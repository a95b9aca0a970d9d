"""What a stop and a crash leave: jobs in flight are ready again, everything answered is still there."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.signals import ignored, ignores

from .client import Client, Job, now_ms
from .server import ServerProcess, on_postgres

FAR_MS = 4_102_444_800_000

Start = Callable[..., ServerProcess]
Connect = Callable[..., Client]


def given_back(client: Client, job_id: str) -> Job:
    """A job that a killed server had given out: there at once, but in PostgreSQL a server counts as dead only after 2 s."""
    return client.when_status(job_id, "ready") if on_postgres() else client.job(job_id)


def test_zizq_54_the_stream_ends_on_sigterm_and_the_jobs_return(fresh_server: Start, fresh: Connect) -> None:
    server = fresh_server()
    client = fresh(server)
    sent = client.enqueue_many("q", 3)
    with client.take("q", prefetch=2) as stream:
        held = stream.next_jobs(2)
        server.process_signal(signal.SIGTERM)
        assert stream.read_end() == []
        assert stream.clean, "the stream was cut off instead of ended"
    assert server.wait() == 0
    client = fresh(fresh_server(root_dir=server.root_dir))
    for job in held:
        assert client.job(job["id"]) == job | {"status": "ready"}
    with client.take("q", prefetch=3) as stream:
        assert [job["id"] for job in stream.next_jobs(3)] == sent


def test_zizq_54_sigint_stops_as_well(fresh_server: Start) -> None:
    """Even at once after the start. The peer may abort then, or be ended by the signal itself."""
    server = fresh_server()
    server.process_signal(signal.SIGINT)
    assert server.wait() == 0


def test_a_background_job_ignores_sigint_and_stops_on_sigterm(fresh_server: Start) -> None:
    with ignored(signal.SIGINT), ignored(signal.SIGHUP):
        server = fresh_server()
    assert ignores(server.pid, signal.SIGINT)
    server.process_signal(signal.SIGHUP)  # it reads its settings again, and goes on
    assert server.terminate() == 0


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_zizq_54_every_answered_change_survives(fresh_server: Start, fresh: Connect, end: str) -> None:
    server = fresh_server()
    client = fresh(server)
    kinds = {
        "ready": client.enqueue("ready", payload={"a": [1, None]}, priority=3)["id"],
        "scheduled": client.enqueue("later", ready_at=FAR_MS)["id"],
        "dead": client.enqueue("dead", retry_limit=0)["id"],
        "completed": client.enqueue("kept", retention={"completed_ms": 600_000})["id"],
        "retrying": client.enqueue("retrying")["id"],
        "patched": client.enqueue("patched")["id"],
    }
    gone = client.enqueue("gone")["id"]
    deleted = client.enqueue("deleted")["id"]
    client.run_one("dead", client.fail)
    client.run_one("kept", client.succeed)
    client.run_one("retrying", client.fail)
    client.run_one("gone", client.succeed)
    client.patch(f"/jobs/{kinds['patched']}", {"priority": 9, "queue": "other"})
    client.delete(f"/jobs/{deleted}")
    held = client.enqueue("held")["id"]
    with client.take("held") as stream:
        in_flight = stream.next_job()
        before = {name: client.job(job_id) for name, job_id in kinds.items()}
        errors = client.errors(kinds["retrying"])
        getattr(server, end)()
    client = fresh(fresh_server(root_dir=server.root_dir))
    assert {name: client.job(job_id) for name, job_id in kinds.items()} == before
    assert client.errors(kinds["retrying"]) == errors
    assert given_back(client, held) == in_flight | {"status": "ready"}
    for job_id in (gone, deleted):
        assert client.get(f"/jobs/{job_id}").status == 404
    assert client.count() == len(kinds) + 1


def test_zizq_54_a_killed_server_loses_no_accepted_bulk(fresh_server: Start, fresh: Connect) -> None:
    root_dir = None
    sent: list[str] = []
    for _ in range(3):
        server = fresh_server(root_dir=root_dir)
        root_dir = server.root_dir
        sent += fresh(server).enqueue_many("q", 500)
        server.kill()
    client = fresh(fresh_server(root_dir=root_dir))
    assert [job["id"] for job in client.jobs(limit=2000)] == sent


def test_zizq_54_acks_of_a_killed_servers_jobs(fresh_server: Start, fresh: Connect) -> None:
    """A worker that outlives the server: its ack finds the job merely ready; the next one runs it again."""
    server = fresh_server()
    client = fresh(server)
    job_id = client.enqueue("q")["id"]
    with client.take("q") as stream:
        stream.next_job()
        server.kill()
    client = fresh(fresh_server(root_dir=server.root_dir))
    assert given_back(client, job_id)["status"] == "ready"
    assert client.post(f"/jobs/{job_id}/success").status == 404
    client.run_one("q", client.succeed)


def test_a_job_that_fell_due_while_the_server_was_down_is_delivered(
    fresh_server: Start, fresh: Connect
) -> None:
    server = fresh_server()
    job_id = fresh(server).enqueue("q", ready_at=now_ms() + 150)["id"]
    server.kill()
    client = fresh(fresh_server(root_dir=server.root_dir))
    with client.take("q") as stream:
        assert stream.next_job()["id"] == job_id


def test_what_was_answered_around_a_stop_is_stored(fresh_server: Start, fresh: Connect) -> None:
    """Requests beyond those answered may be lost; the end is orderly, no half answer included."""
    server = fresh_server()
    body = b'{"type":"t","queue":"q","payload":null}'
    request = b"POST /jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    answered = []
    with fresh(server).wire() as wire:
        wire.send(request * 200)
        answered.append(wire.read_response())
        server.process_signal(signal.SIGTERM)
        while wire.wait_for_input():
            answered.append(wire.read_response())
    assert server.wait() == 0
    assert {response.status for response in answered} == {201}
    client = fresh(fresh_server(root_dir=server.root_dir))
    stored = {job["id"] for job in client.jobs(limit=2000)}
    assert stored >= {response.data["id"] for response in answered}


@pytest.mark.file
def test_a_second_server_on_one_directory_is_refused(fresh_server: Start, fresh: Connect) -> None:
    server = fresh_server()
    with pytest.raises(AssertionError, match=r"another server .* holds the data directory"):
        fresh_server(root_dir=server.root_dir)
    assert fresh(server).get("/health").status == 200


@pytest.mark.file
def test_a_server_ends_by_itself_when_another_process_has_met_a_failed_sync(
    fresh_server: Start, fresh: Connect
) -> None:
    """What a later sync seems to make certain may have a hole: the first start with nobody else there believes the disk."""
    server = fresh_server()
    kept = fresh(server).enqueue("q")["id"]
    (server.root_dir / "turnstile").write_text("IOError: disk I/O error")
    assert server.wait() == 1
    said = "\n".join(server.output)
    assert "a write to the disk has failed in another process: IOError: disk I/O error" in said
    assert "the server ends at once" in said
    assert (server.root_dir / "turnstile").read_text() == "IOError: disk I/O error"
    again = fresh_server(root_dir=server.root_dir)
    assert fresh(again).job(kept)["status"] == "ready"
    assert (server.root_dir / "turnstile").read_text() == ""
