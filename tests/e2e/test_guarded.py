"""Every route and verb of every door asks who is there; no secret of theirs is told to anybody, and no log line is broken."""

from __future__ import annotations

import base64
import json
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.faktory_wire import FaktoryWire
from tests.fwp_clients.servers import url_of
from tests.routes import doors

from .client import Client
from .server import ServerProcess, run

Start = Callable[..., ServerProcess]

TOKEN = "canary-of-the-token-7f3a"
PASSWORD = "canary-of-the-password-91bc"
WEB_PASSWORD = "canary-of-the-web-password-d04e"
GUESS = "canary-of-somebodys-guess-55aa"
COOKIE = "canary-of-a-cookie-c9c9"
PAYLOAD = "canary-of-a-payload-3e3e"
NASTY = 'a\r\n{"level":"ERROR"}\n\x1b[2J\u2028\u202e\x00b'

OPEN = {
    "primary": {"/healthz", "/readyz", "/v1/confirm/{token}"},
    "admin": set(),
    "fwp-web": {"/health", "/static/{version}/{name}"},
}
"""What answers without a token or a password: probes, the consent of receivers, whose path is a token, Faktory's health, and the
files that its pages load, which are the same everywhere."""

VERBS = (
    "PUSH", "PUSHB", "FETCH", "ACK", "FAIL", "BEAT", "INFO", "FLUSH", "QUEUE", "MUTATE", "TRACK", "BATCH", "END"
)  # fmt: skip


@pytest.fixture
def guarded(fresh_server: Start, tmp_path: Path) -> ServerProcess:
    """A server with every door, and a secret for each."""
    secrets = {"token": TOKEN, "fwp_password": PASSWORD, "fwp_web_password": WEB_PASSWORD}
    flags: dict[str, Any] = {}
    for name, secret in secrets.items():
        (tmp_path / name).write_text(secret)
        flags[name] = f"@{tmp_path / name}"
    return fresh_server(
        fwp_port=0, fwp_web_port=0, no_admin=None, log_level="trace", log_format="json", **flags
    )


def basic(password: str) -> tuple[str, str]:
    return "authorization", "Basic " + base64.b64encode(f"me:{password}".encode()).decode()


def test_reliability_50_every_route_of_every_door_refuses_without_its_secret(guarded: ServerProcess) -> None:
    """Whatever a door serves is asked for here."""
    for door, router in doors().items():
        client = Client(guarded.address_of(door))
        asked = 0
        for route in router.routes:
            target = re.sub(r"{\w+}", "x", route.template)
            for method in route.handlers:
                for headers in ([], [("authorization", f"Bearer {GUESS}")], [basic(GUESS)]):
                    status = client.request(method.decode(), target, body=b"", headers=headers).status
                    assert (status == 401) == (route.template not in OPEN[door]), (
                        door,
                        method,
                        target,
                        status,
                    )
                    asked += 1
        assert asked >= 3 * len(router.routes)
        assert OPEN[door] <= {route.template for route in router.routes}
        assert client.get("/no/such/route").status == 401, "a stranger is not even told what there is"
        client.close()
    client = Client(guarded.address)
    assert client.get("/jobs", headers=[("authorization", f"Bearer {TOKEN}")]).status == 200
    client.close()


def test_reliability_50_a_verb_before_its_password_closes_and_does_nothing(guarded: ServerProcess) -> None:
    job = '{"jid":"12345678","jobtype":"t","args":[]}'
    address = guarded.address_of("fwp")
    for verb in VERBS:
        with socket.create_connection(address, 10) as peer:
            assert peer.recv(200).startswith(b"+HI ")
            peer.sendall(f"{verb} {'[' + job + ']' if verb == 'PUSHB' else job}\r\n".encode())
            said = b""
            with suppress(ConnectionResetError):
                while piece := peer.recv(1_000):
                    said += piece
        assert said == b"" or said.startswith(b"-ERR"), (verb, said)
    with FaktoryWire.open(url_of(*address, PASSWORD)) as wire:
        assert wire.ask("INFO")["faktory"]["total_enqueued"] == 0


def unwelcome(server: ServerProcess) -> list[bytes]:
    """Have everything refused that bears a secret, and much else go wrong; give what was answered."""
    bearer, cookie = ("authorization", f"Bearer {TOKEN}"), ("cookie", f"session={COOKIE}")
    client, web = Client(server.address), Client(server.address_of("fwp-web"))
    paths = ("/jobs", "/ui", "/v1/queues", "/metrics", f"/jobs/{'%0d%0a' * 3}", "/nowhere")
    bodies = (b"{", b'{"type": 1, "queue": "q", "payload": 1}', json.dumps({"type": NASTY}).encode())
    told: list[bytes] = []
    for headers in ([("authorization", f"Bearer {GUESS}"), cookie], [basic(GUESS)], [bearer, cookie]):
        told += [client.get(path, headers=headers).body for path in paths]
        told += [client.request("POST", "/jobs", body=body, headers=headers).body for body in bodies]
    job = {"type": "t", "queue": "q", "payload": PAYLOAD, "retry_limit": 0}
    stored = client.post("/jobs", job, headers=[bearer]).data["id"]
    client.post("/jobs", job | {"type": NASTY, "queue": "broken"}, headers=[bearer])
    with client.take("q", headers=[bearer, ("worker-id", "w")]) as stream:
        stream.next_job()
        failure = {"message": NASTY, "error_type": NASTY, "backtrace": NASTY}
        told.append(client.post(f"/jobs/{stored}/failure", failure, headers=[bearer]).body)
    shown = ("/ui", "/ui/failures", "/ui/queues", "/ui/workers", "/metrics", "/jobs/count", "/openapi.json")
    told += [client.get(path, headers=[bearer]).body for path in shown]
    for word in (GUESS, WEB_PASSWORD):
        told += [web.get(path, headers=[basic(word)]).body for path in ("/stats", "/ui")]
    client.close()
    web.close()
    return told


def strange_lines(server: ServerProcess) -> None:
    """Say what no client would say to the port of the protocol, and guess its password."""
    address = server.address_of("fwp")
    with FaktoryWire.open(url_of(*address, PASSWORD), wid=NASTY, hostname=NASTY, labels=[NASTY]) as wire:
        job = {"jid": NASTY, "jobtype": NASTY, "queue": NASTY, "args": [PAYLOAD]}
        late = job | {"queue": "q", "at": NASTY}
        for line in (f"PUSH {json.dumps(job)}", f"PUSH {json.dumps(late)}", "\x1b[2J\x00", "FAIL {"):
            wire.say(line)
    hello = json.dumps({"v": 2, "wid": "w", "pwdhash": GUESS}).encode()
    for first in (
        b"HELLO " + hello,
        b"GET / HTTP/1.1\r\n",
        b'HELLO {"v":2,"wid":"\x1b[2J\xff',
        b"\x16\x03\x01\xff",
    ):
        with socket.create_connection(address, 10) as peer, suppress(ConnectionResetError):
            peer.recv(200)
            peer.sendall(first + b"\r\n")
            while peer.recv(1_000):
                pass


def test_reliability_55_58_no_secret_is_told_and_each_line_of_the_log_is_one_document(
    guarded: ServerProcess,
) -> None:
    """At its most talkative, whatever is sent: log lines, metrics, answers, pages, and what the settings are shown as."""
    told = b"\n".join(unwelcome(guarded)).decode("utf-8", "replace")
    strange_lines(guarded)
    words = [
        "config",
        "show",
        "--token",
        TOKEN,
        "--fwp-password",
        PASSWORD,
        "--fwp-web-password",
        WEB_PASSWORD,
    ]
    shown = [run(*words, *more) for more in ([], ["--json"])]
    told += "".join(done.stdout + done.stderr for done in shown)
    assert guarded.terminate() == 0
    assert len(guarded.output) > 8
    for line in guarded.output:
        record = json.loads(line, parse_constant=refuse)
        assert list(record) == ["timestamp", "level", "fields", "target"]
        assert line.isprintable(), line
    logged = "\n".join(guarded.output)
    for secret in (TOKEN, PASSWORD, WEB_PASSWORD, GUESS, COOKIE, PAYLOAD):
        assert secret not in logged
        assert secret not in told
        assert base64.b64encode(f"me:{secret}".encode()).decode() not in logged + told


def refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
