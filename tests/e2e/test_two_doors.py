"""One job, two doors: pushed by the Faktory Work Protocol and steered over HTTP, and the other way round."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anew.app.doors import announce
from tests.faktory_wire import BadReply, FaktoryWire

from .client import Client, now_ms
from .server import ServerProcess, run

_numbers = itertools.count(1)


def url_of(server: ServerProcess, password: str = "") -> str:
    host, port = server.address_of("fwp")
    return f"tcp://{':' + password + '@' if password else ''}{host}:{port}"


@pytest.fixture
def wire(server: ServerProcess) -> Iterator[FaktoryWire]:
    """A producer's connection to the shared server."""
    with FaktoryWire.open(url_of(server)) as wire:
        yield wire


def push(wire: FaktoryWire, queue: str, **fields: Any) -> str:
    """Push a job and give its jid."""
    jid = f"two-doors-{next(_numbers):06}"
    wire.expect("PUSH " + json.dumps({"jid": jid, "jobtype": "Work", "args": [1], "queue": queue} | fields))
    return jid


def only(client: Client, queue: str) -> dict[str, Any]:
    """The one job of a queue."""
    (job,) = client.jobs(queue=queue)
    return job


def fetched(wire: FaktoryWire, queue: str) -> dict[str, Any]:
    job = wire.ask(f"FETCH {queue}")
    assert isinstance(job, dict)
    return job


def failed(wire: FaktoryWire, queue: str, message: str = "boom") -> dict[str, Any]:
    """Fetch a queue's job and fail it."""
    job = fetched(wire, queue)
    wire.expect("FAIL " + json.dumps({"jid": job["jid"], "errtype": "Broken", "message": message}))
    return job


# -- pushed by the Faktory Work Protocol


def test_a_pushed_job_is_seen_over_http(client: Client, wire: FaktoryWire, queue: str) -> None:
    jid = push(wire, queue, args=[1, "ü", {"a": None}], retry=4)
    job = only(client, queue)
    assert (job["jid"], job["type"], job["queue"], job["status"]) == (jid, "Work", queue, "ready")
    assert (job["payload"], job["retry_limit"], job["attempts"]) == ([1, "ü", {"a": None}], 4, 0)
    assert client.get(f"/jobs/{job['id']}").data["jid"] == jid
    (listed,) = client.get(f"/v1/jobs?queue={queue}").data["jobs"]
    assert (listed["jid"], listed["state"]) == (jid, "ready")


def test_a_pushed_job_with_a_time_is_scheduled_over_http(
    client: Client, wire: FaktoryWire, queue: str
) -> None:
    push(wire, queue, at="2100-01-01T00:00:00Z")
    job = only(client, queue)
    assert (job["status"], job["ready_at"]) == ("scheduled", 4_102_444_800_000)
    assert client.patch(f"/jobs/{job['id']}", {"ready_at": now_ms()}).status == 200
    assert fetched(wire, queue)["at"] == "2100-01-01T00:00:00Z"


def test_a_pushed_job_is_patched_over_http(client: Client, wire: FaktoryWire, queue: str) -> None:
    jid = push(wire, queue, custom={"tenant": 7}, reserve_for=90)
    job_id = only(client, queue)["id"]
    patched = client.patch(f"/jobs/{job_id}", {"queue": f"{queue}-other", "priority": 3, "retry_limit": 2})
    assert (patched.status, patched.data["jid"], patched.data["priority"]) == (200, jid, 3)
    job = fetched(wire, f"{queue}-other")
    assert (job["jid"], job["queue"], job["retry"]) == (jid, f"{queue}-other", 2)
    assert (job["custom"], job["reserve_for"]) == ({"tenant": 7}, 90)


def test_priorities_of_http_order_what_was_pushed(client: Client, wire: FaktoryWire, queue: str) -> None:
    first, second = push(wire, queue), push(wire, queue)
    ids = {job["jid"]: job["id"] for job in client.jobs(queue=queue)}
    assert client.patch(f"/jobs/{ids[second]}", {"priority": 0}).status == 200
    assert [fetched(wire, queue)["jid"] for _ in range(2)] == [second, first]


def test_a_pushed_jobs_failure_is_seen_and_its_retry_hastened_over_http(
    client: Client, wire: FaktoryWire, queue: str
) -> None:
    push(wire, queue)
    before = now_ms()
    failed(wire, queue, "no answer")
    job = only(client, queue)
    assert (job["status"], job["attempts"]) == ("scheduled", 1)
    assert before + 15_000 <= job["ready_at"] <= now_ms() + 45_000
    (record,) = client.errors(job["id"])
    assert (record["error_type"], record["message"]) == ("Broken", "no answer")
    client.patch(f"/jobs/{job['id']}", {"ready_at": now_ms()})
    failure = fetched(wire, queue)["failure"]
    assert (failure["retry_count"], failure["remaining"]) == (0, 25)
    assert (failure["errtype"], failure["message"]) == ("Broken", "no answer")


def test_a_pushed_job_that_has_died_is_redriven_over_http(
    client: Client, wire: FaktoryWire, queue: str
) -> None:
    jid = push(wire, queue, retry=-1)
    failed(wire, queue)
    job = only(client, queue)
    assert job["status"] == "dead"
    assert client.post(f"/v1/jobs/{job['id']}/retry").status == 200
    again = fetched(wire, queue)
    assert (again["jid"], again["failure"]["message"]) == (jid, "boom")
    wire.expect(f'ACK {{"jid":"{jid}"}}')
    assert client.jobs(queue=queue) == []


def test_a_pushed_job_is_deleted_over_http(client: Client, wire: FaktoryWire, queue: str) -> None:
    push(wire, queue)
    assert client.delete(f"/jobs/{only(client, queue)['id']}").status == 204
    assert wire.ask(f"FETCH {queue}") is None


def test_a_pushed_job_is_taken_and_settled_over_http(client: Client, wire: FaktoryWire, queue: str) -> None:
    push(wire, queue, args=["a"])
    push(wire, queue, args=["b"])
    with client.take(queue) as stream:
        job = stream.next_job()
        assert job["payload"] == ["a"]
        client.fail(job["id"], message="over HTTP", error_type="Odd")
        job = stream.next_job()
        assert job["payload"] == ["b"]
        client.succeed(job["id"])
    job = only(client, queue)
    client.patch(f"/jobs/{job['id']}", {"ready_at": now_ms()})
    again = fetched(wire, queue)
    assert (again["args"], again["failure"]["message"]) == (["a"], "over HTTP")


def test_a_fetched_job_is_settled_over_http_by_its_public_id(
    client: Client, wire: FaktoryWire, queue: str
) -> None:
    jid = push(wire, queue)
    fetched(wire, queue)
    job = only(client, queue)
    assert job["status"] == "in_flight"
    client.succeed(job["id"])
    with pytest.raises(BadReply, match=f"Job not found {jid}"):
        wire.expect(f'FAIL {{"jid":"{jid}"}}')
    wire.expect(f'ACK {{"jid":"{jid}"}}')


def test_the_commands_show_a_pushed_job(
    server: ServerProcess, client: Client, wire: FaktoryWire, queue: str
) -> None:
    jid = push(wire, queue, retry=-1)
    http = f"http://{server.address[0]}:{server.address[1]}"
    shown = run("jobs", "show", only(client, queue)["id"], "--url", http)
    assert f"jid        {jid}" in shown.stdout
    (listed,) = json.loads(run("jobs", "list", "--queue", queue, "--json", "--url", http).stdout)["jobs"]
    assert listed["jid"] == jid
    assert queue in run("queues", "--url", http).stdout
    failed(wire, queue)
    assert "boom" in run("dead", "list", "--queue", queue, "--url", http).stdout
    assert run("dead", "retry", "--queue", queue, "--url", http).returncode == 0
    assert fetched(wire, queue)["jid"] == jid


# -- enqueued over HTTP


@pytest.mark.parametrize(
    ("payload", "args"), [([1, 2], [1, 2]), ({"a": 1}, [{"a": 1}]), ("x", ["x"]), (None, [None]), ([], [])]
)
def test_an_enqueued_job_is_fetched_and_acknowledged(
    client: Client, wire: FaktoryWire, queue: str, payload: Any, args: list[Any]
) -> None:
    job_id = client.enqueue(queue, payload=payload, type="Mail")["id"]
    job = fetched(wire, queue)
    assert (job["jid"], job["jobtype"], job["args"], job["queue"]) == (job_id, "Mail", args, queue)
    assert job["retry"] == 25
    assert "jid" not in client.job(job_id)
    wire.expect(f'ACK {{"jid":"{job_id}"}}')
    assert client.get(f"/jobs/{job_id}").status == 404


def test_an_enqueued_job_fails_by_its_own_policy(client: Client, wire: FaktoryWire, queue: str) -> None:
    policy = {"curve": {"constant": "2h"}, "jitter": "none", "limit": 3}
    job_id = client.enqueue(queue, policy=policy)["id"]
    before = now_ms()
    assert failed(wire, queue, "first")["jid"] == job_id
    job = client.job(job_id)
    assert before + 7_200_000 <= job["ready_at"] <= now_ms() + 7_200_000
    (record,) = client.errors(job_id)
    assert (record["error_type"], record["message"]) == ("Broken", "first")
    client.patch(f"/jobs/{job_id}", {"ready_at": now_ms()})
    again = fetched(wire, queue)
    assert (again["retry"], again["failure"]["retry_count"], again["failure"]["remaining"]) == (3, 0, 3)


def test_an_enqueued_job_dies_and_is_redriven(client: Client, wire: FaktoryWire, queue: str) -> None:
    job_id = client.enqueue(queue, retry_limit=0)["id"]
    failed(wire, queue)
    assert client.job(job_id)["status"] == "dead"
    assert client.post(f"/v1/jobs/{job_id}/retry").status == 200
    assert fetched(wire, queue)["jid"] == job_id


def test_an_enqueued_job_that_is_not_in_flight_is_not_found(
    client: Client, wire: FaktoryWire, queue: str
) -> None:
    job_id = client.enqueue(queue)["id"]
    with pytest.raises(BadReply, match=f"Job not found {job_id}"):
        wire.expect(f'FAIL {{"jid":"{job_id}"}}')
    wire.expect(f'ACK {{"jid":"{job_id}"}}')
    assert client.job(job_id)["status"] == "ready"


def test_a_job_without_a_limit_has_the_largest_retry(client: Client, wire: FaktoryWire, queue: str) -> None:
    client.enqueue(queue, policy={"curve": {"constant": "2h"}, "limit": None})
    assert fetched(wire, queue)["retry"] == 2_147_483_647


# -- both


def test_a_paused_queue_is_paused_for_both(client: Client, wire: FaktoryWire, queue: str) -> None:
    paused, other = f"{queue}-paused", f"{queue}-other"
    push(wire, paused)
    wire.expect(f"QUEUE PAUSE {paused}")
    with client.take(f"{paused},{other}", prefetch=2) as stream:
        client.enqueue(other)
        assert stream.next_job()["queue"] == other
        wire.expect(f"QUEUE RESUME {paused}")
        assert stream.next_job()["queue"] == paused


def test_a_flush_removes_the_jobs_of_both(
    fresh_server: Callable[..., ServerProcess], fresh: Callable[..., Client]
) -> None:
    server = fresh_server()
    client = fresh(server)
    client.enqueue("q")
    with FaktoryWire.open(url_of(server)) as wire:
        push(wire, "q")
        assert wire.ask("INFO")["faktory"]["queues"] == {"q": 2}
        wire.expect("FLUSH")
    assert client.count() == 0


# -- policies


def test_a_job_brings_a_policy_of_its_own(client: Client, wire: FaktoryWire, queue: str) -> None:
    policy = {"curve": {"constant": "3h"}, "jitter": "none"}
    push(wire, queue, retry=2, custom={"anew_policy": policy, "tenant": 7})
    before = now_ms()
    assert failed(wire, queue)["custom"] == {"anew_policy": policy, "tenant": 7}
    job = only(client, queue)
    assert (job["policy"], job["retry_limit"]) == (policy, 2)
    assert before + 10_800_000 <= job["ready_at"] <= now_ms() + 10_800_000


def test_a_policy_that_is_none_is_refused(client: Client, wire: FaktoryWire, queue: str) -> None:
    with pytest.raises(BadReply, match="nonsense"):
        push(wire, queue, custom={"anew_policy": "nonsense"})
    assert client.jobs(queue=queue) == []


@pytest.mark.parametrize(("retry", "left"), [(0, 0), (-1, 1)])
def test_without_retries_a_policy_of_its_own_changes_nothing(
    client: Client, wire: FaktoryWire, queue: str, retry: int, left: int
) -> None:
    push(wire, queue, retry=retry, custom={"anew_policy": "even"})
    assert failed(wire, queue)["retry"] == retry
    assert len(client.jobs(queue=queue)) == left


def wait_after_failure(client: Client, wire: FaktoryWire, queue: str, jobtype: str, **custom: Any) -> int:
    """The planned wait of a job's first retry, in whole hours."""
    jid = push(wire, queue, jobtype=jobtype, custom=custom)
    failed(wire, queue)
    (job,) = [job for job in client.jobs(queue=queue) if job["jid"] == jid]
    decision = client.errors(job["id"])[0]["decision"]
    return round(decision["wait_ms"] / 3_600_000)


def test_policies_by_type_and_queue(
    fresh_server: Callable[..., ServerProcess], fresh: Callable[..., Client], tmp_path: Path
) -> None:
    rules = [("queue", "slow", 2), ("type", "Sync", 3)]
    text = "".join(
        f"[[fwp.policies]]\n{key} = '{name}'\npolicy = {{curve = {{constant = '{hours}h'}}, jitter = 'none'}}\n"
        for key, name, hours in rules
    )
    text += "[[fwp.policies]]\nqueue = 'slow'\ntype = 'Sync'\npolicy = {curve = {constant = '4h'}, jitter = 'none'}\n"
    file = tmp_path / "anew.toml"
    file.write_text(text)
    server = fresh_server(config=file)
    client = fresh(server)
    own = {"curve": {"constant": "9h"}, "jitter": "none"}
    with FaktoryWire.open(url_of(server)) as wire:
        assert wait_after_failure(client, wire, "slow", "Sync", anew_policy=own) == 9
        assert wait_after_failure(client, wire, "slow", "Sync") == 4
        assert wait_after_failure(client, wire, "fast", "Sync") == 3
        assert wait_after_failure(client, wire, "slow", "Mail") == 2
        assert wait_after_failure(client, wire, "fast", "Mail") == 0


def test_a_default_policy_holds_for_both_doors(
    fresh_server: Callable[..., ServerProcess], fresh: Callable[..., Client]
) -> None:
    policy = {"curve": {"constant": "5h"}, "jitter": "none"}
    server = fresh_server(default_policy=json.dumps(policy))
    client = fresh(server)
    with FaktoryWire.open(url_of(server)) as wire:
        assert wait_after_failure(client, wire, "q", "Mail") == 5


# -- the doors themselves


def test_the_log_names_the_address_as_what_starts_containers_waits_for_it(
    fresh_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("pass-word\n")
    server = fresh_server(fwp_host="0.0.0.0", fwp_password_file=secret, insecure=True)
    port = server.address_of("fwp")[1]
    with FaktoryWire(f"tcp://127.0.0.1:{port}") as wire:
        assert wire.say('HELLO {"v":2}') == "-ERR Invalid password"
    with FaktoryWire.open(f"tcp://:pass-word@127.0.0.1:{port}") as wire:
        assert "faktory" in wire.ask("INFO")
    server.terminate()
    assert sum(f"listening at :{port}" in line for line in server.output) == 1
    assert not any("pass-word" in line for line in server.output)


@pytest.mark.parametrize(
    ("doors", "secure", "said"),
    [
        (
            {"primary": "127.0.0.1:7890", "fwp": "127.0.0.1:7419"},
            (),
            "Anew serves on http://127.0.0.1:7890 and, for clients of Faktory, on tcp://127.0.0.1:7419; stop it with Ctrl-C\n",
        ),
        (
            {"primary": "127.0.0.1:7890", "fwp": "127.0.0.1:7419"},
            ("primary", "fwp"),
            "Anew serves on https://127.0.0.1:7890 and, for clients of Faktory, on tcp+tls://127.0.0.1:7419; "
            "stop it with Ctrl-C\n",
        ),
        ({"primary": "[::1]:7890"}, (), "Anew serves on http://[::1]:7890; stop it with Ctrl-C\n"),
    ],
)
def test_a_terminal_is_told_both_addresses(
    doors: dict[str, str],
    secure: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    announce(doors, secure)
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("address", "shown"),
    [("0.0.0.0:7419", ":7419"), ("[::]:7419", ":7419"), ("[::1]:7", "[::1]:7"), ("10.0.0.5:7419", "10.0.0.5:7419")],
)  # fmt: skip
def test_all_addresses_are_logged_as_faktory_logs_them(
    address: str, shown: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("anew"), "propagate", True)
    with caplog.at_level("INFO", "anew.server"):
        announce({"primary": "127.0.0.1:1", "fwp": address})
    assert caplog.messages == ["listening", "listening", f"listening at {shown}"]


def test_a_public_bind_of_the_protocol_without_a_password_is_refused(tmp_path: Path) -> None:
    ended = run("serve", "--root-dir", str(tmp_path / "data"), "--port", "0", "--fwp-host", "0.0.0.0")
    assert ended.returncode == 5
    assert "--fwp-host 0.0.0.0" in ended.stderr
    assert "password" in ended.stderr


def test_a_taken_port_of_the_protocol_is_an_error_that_says_what_would_do(
    server: ServerProcess, tmp_path: Path
) -> None:
    port = str(server.address_of("fwp")[1])
    ended = run("serve", "--root-dir", str(tmp_path / "data"), "--port", "0", "--fwp-port", port)
    assert ended.returncode == 1
    assert f"--fwp-host 127.0.0.1 --fwp-port {port} (address already in use)" in ended.stderr
    assert "--no-fwp" in ended.stderr


def test_without_the_protocol_only_http_is_served(fresh_server: Callable[..., ServerProcess]) -> None:
    server = fresh_server(no_fwp=True)
    server.terminate()
    assert not any('"fwp"' in line for line in server.output)
