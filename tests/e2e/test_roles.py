"""Tokens with roles, over real sockets: each protocol, the stream, the pages, the admin listener, the commands, and SIGHUP."""

from __future__ import annotations

import base64
import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from anew.config.token_file import ROLES, line_of
from anew.http.roles import ROWS
from tests.routes import doors

from .client import Client
from .h2wire import H2Wire
from .server import ServerProcess, run
from .watcher import watching

Start = Callable[..., ServerProcess]

ONE = "the-one-token"
TOKENS = {role: f"token-of-{role}" for role in ROLES}
AGAIN = "the tokens were read again"
KEPT = "the tokens cannot be read again; those from before stay in force"


def bearer(token: str) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {token}")]


def basic(token: str) -> list[tuple[str, str]]:
    """What a browser sends with a form of a page of ours."""
    pair = base64.b64encode(f"me:{token}".encode()).decode()
    return [("authorization", f"Basic {pair}"), ("sec-fetch-site", "same-origin")]


def write(file: Path, **tokens: str) -> None:
    """Write a file in which each token has the role that names it."""
    file.touch(0o600)
    file.write_text("".join(line_of(token, [role], f"a-{role}") + "\n" for role, token in tokens.items()))


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    write(tmp_path / "tokens", **TOKENS)
    return tmp_path / "tokens"


@pytest.fixture
def server(fresh_server: Start, tokens: Path) -> ServerProcess:
    """A server with every port, a file of tokens, and the one token beside it."""
    return fresh_server(tokens_file=tokens, token=ONE, no_admin=None, fwp_password="a-password")


def test_reliability_50_every_route_is_closed_to_each_role_that_its_row_does_not_name(
    server: ServerProcess,
) -> None:
    """What is refused has no effect, so all of it is asked for; what is allowed is asked for in the other tests."""
    for door in ("primary", "admin"):
        client = Client(server.address_of(door))
        for route in doors()[door].routes:
            target = re.sub(r"{\w+}", "x", route.template)
            for method in map(bytes.decode, route.handlers):
                row = ROWS[f"{'GET' if method == 'HEAD' else method} {route.template}"]
                for role in set(ROLES) - row:
                    answer = client.request(method, target, body=b"", headers=bearer(TOKENS[role]))
                    assert answer.status == 403, (door, role, method, target)
        client.close()


@pytest.mark.parametrize("protocol", ["HTTP/1.1", "HTTP/2"])
def test_reliability_50_a_producer_produces_and_a_worker_works(server: ServerProcess, protocol: str) -> None:
    client, h2 = Client(server.address), H2Wire(server.address)

    def ask(role: str, method: str, target: str, body: Any = None) -> Any:
        headers = [
            *bearer(TOKENS[role]),
            *([("content-type", "application/json")] if body is not None else []),
        ]
        sent = None if body is None else json.dumps(body).encode()
        over = client if protocol == "HTTP/1.1" else h2
        return over.request(method, target, body=sent, headers=headers)

    job = {"type": "t", "queue": "q", "payload": 1}
    made = ask("producer", "POST", "/jobs", job)
    assert made.status == 201
    assert ask("producer", "POST", "/jobs/bulk", {"jobs": [job]}).status == 201
    for role in ("read", "worker"):
        refused = ask(role, "POST", "/jobs", job)
        assert (refused.status, refused.data["code"]) == (403, "forbidden")
        assert (
            refused.data["error"] == f"POST /jobs needs the role producer; this token (a-{role}) has {role}"
        )
    job_id = made.data["id"]
    if protocol == "HTTP/1.1":
        with client.take("q", headers=bearer(TOKENS["worker"])) as stream:
            assert stream.next_job()["id"] == job_id
            assert ask("producer", "POST", f"/jobs/{job_id}/success").status == 403
            assert ask("worker", "POST", f"/v1/jobs/{job_id}/progress", {"percent": 50}).status == 204
            failed = ask("worker", "POST", f"/jobs/{job_id}/failure", {"message": "m"})
            assert failed.status == 200
    else:
        stream_id = h2.start("GET", "/jobs/take?queue=q", headers=bearer(TOKENS["worker"]))
        assert json.loads(h2.read_line(stream_id))["id"] == job_id
        assert ask("worker", "POST", f"/jobs/{job_id}/failure", {"message": "m"}).status == 200
        refused = ask("read", "GET", "/jobs/take?queue=q")
        assert (refused.status, refused.data["code"]) == (403, "forbidden")
    for role in ROLES:
        assert ask(role, "GET", f"/v1/jobs/{job_id}").data["last_error"]["message"] == "m"
    assert [ask(role, "GET", "/jobs").status for role in ROLES] == [200, 200, 403, 200]
    assert [ask(role, "GET", "/metrics").status for role in ROLES] == [200, 200, 403, 403]
    assert ask("worker", "DELETE", "/jobs").status == 403
    assert ask("admin", "DELETE", "/jobs").data["deleted"] == 2
    with h2:
        client.close()


@pytest.mark.parametrize(
    "accept", ["application/x-ndjson", "text/event-stream", "application/vnd.zizq.msgpack-stream"]
)
def test_a_stream_opens_to_workers_and_in_no_form_to_others(client: Client, accept: str) -> None:
    for role in ("read", "producer"):
        refused = client.get("/jobs/take", headers=bearer(TOKENS[role]), accept=accept)
        assert refused.status == 403
        assert b"needs the role worker" in refused.body
    with client.take("q", headers=bearer(TOKENS["worker"]), accept=accept) as stream:
        assert stream.next_message() is None


def test_the_pages_open_to_a_reader_who_is_told_why_a_form_does_nothing(client: Client) -> None:
    made = client.post("/jobs", {"type": "t", "queue": "q", "payload": 1}, headers=bearer(ONE)).data["id"]
    for path in ("/ui", "/ui/jobs", f"/ui/jobs/{made}", "/ui/queues", "/ui/server", "/ui/webhooks", "/lab"):
        assert client.get(path, headers=basic(TOKENS["read"])).status == 200, path
        refused = client.get(path, headers=basic(TOKENS["producer"]))
        assert refused.status == 403, path
        assert "needs the role read; this token (a-producer) has producer" in refused.body.decode()
    refused = client.request("POST", f"/ui/jobs/{made}/delete", body=b"", headers=basic(TOKENS["read"]))
    assert (refused.status, refused.header("content-type")) == (403, "text/html; charset=utf-8")
    assert (refused.header("content-security-policy") or "").startswith("default-src 'none'")
    said = "This needs the role admin; this token (a-read) has read."
    assert said in refused.body.decode()
    assert client.get(f"/jobs/{made}", headers=bearer(ONE)).status == 200
    done = client.request("POST", f"/ui/jobs/{made}/delete", body=b"", headers=basic(TOKENS["admin"]))
    assert done.status == 303


def test_the_admin_listener_is_for_administrators(server: ServerProcess) -> None:
    address = server.address_of("admin")
    for role in ("read", "producer", "worker"):
        with (
            pytest.raises(InvalidStatus) as caught,
            watching(address, authorization=f"Bearer {TOKENS[role]}"),
        ):
            pass
        assert caught.value.response.status_code == 403
    for token in (TOKENS["admin"], ONE):
        with watching(address, authorization=f"Bearer {token}") as watcher:
            assert watcher.snapshot()["event"] == "job_snapshot"


def test_sighup_reads_tokens_again_and_ends_what_the_removed_ones_have_open(
    server: ServerProcess, client: Client, tokens: Path
) -> None:
    admin = server.address_of("admin")
    with client.take("q", headers=bearer(TOKENS["worker"])) as stays:
        write(tokens, admin=TOKENS["admin"], worker=TOKENS["worker"], producer="a-newer-one")
        with tokens.open("a") as file:  # for as long as clients still have the old one
            file.write(line_of(TOKENS["producer"], ["producer"], "old") + "\n")
        server.process_signal(signal.SIGHUP)
        assert server.await_record(AGAIN)["tokens"] == 5  # four of the file, and the one
        job = {"type": "t", "queue": "q", "payload": 1}
        statuses = [
            client.post("/jobs", job, headers=bearer(one)).status
            for one in ("a-newer-one", TOKENS["producer"])
        ]
        assert statuses == [201, 201]
        assert client.get("/jobs", headers=bearer(TOKENS["read"])).status == 401
        assert len(stays.next_jobs(1)) == 1

        tokens.write_text(tokens.read_text() + "word\n")
        server.process_signal(signal.SIGHUP)
        reason = server.await_record(KEPT)["reason"]
        assert reason.startswith(
            f'--tokens-file: "{tokens}" line 5: it is not three words; expected the SHA-256 of a token'
        )
        assert client.post("/jobs", job, headers=bearer("a-newer-one")).status == 201

        with watching(admin, authorization=f"Bearer {TOKENS['admin']}") as watcher:
            watcher.snapshot()
            write(tokens, producer="a-newer-one")
            server.process_signal(signal.SIGHUP)
            server.await_record(AGAIN)
            with pytest.raises(ConnectionClosed):
                watcher.until(lambda message: False)
        stays.read_end()
        client.eventually(
            lambda: len(client.get("/jobs?status=ready", headers=bearer(ONE)).data["jobs"]) == 3,
            "what a worker held whose token is gone is ready again",
        )
        (complaint,) = server.new_complaints()
        assert "the tokens cannot be read again" in complaint


def test_the_start_says_that_faktorys_password_carries_every_right(fresh_server: Start, tokens: Path) -> None:
    said = "roles hold for HTTP alone: who may speak the Faktory Work Protocol may do everything"
    server = fresh_server(tokens_file=tokens, fwp_password="a-password")
    assert sum(said in line for line in server.output) == 1
    write(tokens, admin=TOKENS["admin"])
    assert not any(said in line for line in fresh_server(tokens_file=tokens).output)
    write(tokens, **TOKENS)
    assert not any(said in line for line in fresh_server(tokens_file=tokens, no_fwp=True).output)


def test_a_server_does_not_start_with_a_file_that_it_cannot_use(tokens: Path, tmp_path: Path) -> None:
    tokens.chmod(0o604)
    ended = run("serve", "--root-dir", str(tmp_path / "data"), "--tokens-file", str(tokens))
    assert ended.returncode == 2
    assert f"or all may read it); expected mode 0600: chmod 600 {tokens}" in ended.stderr


def test_commands_make_tokens_and_say_what_a_token_may_not_do(fresh_server: Start, tmp_path: Path) -> None:
    file = str(tmp_path / "made")
    made = run("token", "new", "--role", "producer", "--name", "web-app", "--file", file)
    token = made.stdout.strip()
    assert re.fullmatch(r"anew_[A-Za-z0-9_-]{43}", token)
    assert token not in Path(file).read_text()
    both = json.loads(
        run("token", "new", "--role", "worker", "--role", "read", "--name", "w", "--json").stdout
    )
    with Path(file).open("a") as lines:
        lines.write(both["line"] + "\n")
    listed = json.loads(run("token", "list", file, "--json").stdout)["tokens"]
    assert [(one["name"], one["roles"]) for one in listed] == [
        ("web-app", ["producer"]),
        ("w", ["read", "worker"]),
    ]
    assert run("token", "list", file).stdout.splitlines()[1].split()[:2] == ["web-app", "producer"]

    server = fresh_server(tokens_file=file)
    url = "http://{}:{}".format(*server.address)
    done = run("enqueue", "greet", "--queue", "q", "1", "--url", url, "--token", token)
    assert done.returncode == 0, done.stderr
    refused = run("jobs", "list", "--url", url, "--token", token)
    assert refused.returncode == 5
    assert (
        refused.stderr.strip()
        == "Error: GET /v1/jobs needs the role read or worker; this token (web-app) has producer"
    )
    shown = run("jobs", "list", "--url", url, "--token", both["token"], "--json")
    assert shown.returncode == 0, shown.stderr
