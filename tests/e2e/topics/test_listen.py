"""``anew listen``: a real process, real requests, real signals."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import os
import pty
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from anew.cli.root import run
from tests.e2e.server import START_TIMEOUT_S, environment

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
OTHER = "whsec_" + base64.b64encode(b"x" * 32).decode()
PAID = b'{"type":"order.paid","data":{"id":42}}'


class Listener:
    """A running ``anew listen 0``; construction returns when it listens.

    Args:
        words: Further arguments; with ``--json`` its lines are read as JSON.
        variables: Further environment.
    """

    def __init__(self, *words: str, **variables: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "anew", "listen", "0", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment() | variables,
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.first = self.line()
        url = self.json(self.first)["url"] if "--json" in words else self.first.split()[3]
        host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
        self.address = (host, int(port))

    def line(self) -> str:
        """Wait for the next line."""
        line = self._lines.get(timeout=START_TIMEOUT_S)
        if line is None:
            assert self.process.stderr is not None
            raise AssertionError(f"it has ended: {self.process.stderr.read()}")
        return line.rstrip("\n")

    def json(self, line: str | None = None) -> dict[str, Any]:
        """Give a line, or the next one, as the object that it is."""
        value: dict[str, Any] = json.loads(self.line() if line is None else line)
        return value

    def request(
        self,
        body: bytes = PAID,
        headers: Mapping[str, str] | None = None,
        method: str = "POST",
        path: str = "/",
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request over a connection of its own; give status, headers by lower-case name, and body."""
        connection = http.client.HTTPConnection(*self.address, timeout=START_TIMEOUT_S)
        with contextlib.closing(connection):
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()

    def connect(self) -> socket.socket:
        """Open a connection."""
        return socket.create_connection(self.address, START_TIMEOUT_S)

    def ended(self) -> tuple[int, list[str], str]:
        """Wait for its end; give exit code, the lines that were not read yet, and what it has complained about."""
        code = self.process.wait(START_TIMEOUT_S)
        rest = [line.rstrip("\n") for line in iter(lambda: self._lines.get(timeout=START_TIMEOUT_S), None)]
        assert self.process.stderr is not None
        return code, rest, self.process.stderr.read()

    def stop(self, number: signal.Signals = signal.SIGINT) -> list[str]:
        """Stop it by a signal, insist that it ends well, and give the lines that were not read yet."""
        self.process.send_signal(number)
        code, rest, complaints = self.ended()
        assert (code, complaints) == (0, "")
        return rest

    def close(self) -> None:
        """End it, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(START_TIMEOUT_S)
        self._reader.join(START_TIMEOUT_S)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)


@pytest.fixture
def listen() -> Iterator[Callable[..., Listener]]:
    """Start listeners; all are ended at the end."""
    listeners: list[Listener] = []

    def start(*words: str, **variables: str) -> Listener:
        listeners.append(Listener(*words, **variables))
        return listeners[-1]

    yield start
    for listener in listeners:
        listener.close()


def delivery(body: bytes = PAID, *, key: bytes = KEY, **headers: str) -> dict[str, str]:
    """The headers of a delivery, signed now."""
    timestamp = str(int(time.time()))
    content = f"msg_1.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{signature}",
        "anew-topic": "orders",
        "anew-subscription-id": "sub_1",
        "anew-delivery-id": "dlv_1",
        "anew-attempt": "1",
    } | {name.replace("_", "-"): value for name, value in headers.items()}


Listen = Callable[..., Listener]


def test_a_delivery_is_shown_to_people(listen: Listen) -> None:
    listener = listen("--secret", SECRET, "--answer", "503,200")
    assert listener.first.startswith("Receiving webhooks at http://127.0.0.1:")
    assert listener.request(headers=delivery(), path="/hook?a=b")[0] == 503
    assert listener.request(headers=delivery(anew_attempt="2", anew_redelivery="true"))[0] == 200
    assert listener.line()[10:] == (
        "POST /hook?a=b  msg_1  order.paid  topic orders  attempt 1  signature good  -> 503"
    )
    assert listener.line() == f"    {PAID.decode()}"
    assert listener.line()[10:] == (
        "POST /  msg_1 (repeated)  order.paid  topic orders  attempt 2  redelivery  signature good  -> 200"
    )
    assert listener.stop() == [
        f"    {PAID.decode()}",
        "2 requests, 1 repeated id, 0 bad signatures",
        "       2  order.paid",
    ]


def test_a_delivery_is_shown_to_programs(listen: Listen) -> None:
    listener = listen("--json", "--secret", SECRET)
    headers = delivery()
    assert listener.request(headers=headers)[0] == 200
    shown = listener.json()
    assert abs(shown.pop("at") - time.time() * 1_000) < 60_000
    assert shown == {
        "event": "request",
        "method": "POST",
        "path": "/",
        "webhook_id": "msg_1",
        "type": "order.paid",
        "topic": "orders",
        "subscription_id": "sub_1",
        "delivery_id": "dlv_1",
        "attempt": 1,
        "redelivery": False,
        "repeated": False,
        "signature": "good",
        "status": 200,
        "answer": "200",
        "body_bytes": len(PAID),
        "body": PAID.decode(),
    }
    assert [listener.json(line) for line in listener.stop(signal.SIGTERM)] == [
        {"event": "ended", "received": 1, "types": {"order.paid": 1}, "repeated": 0, "bad_signatures": 0}
    ]


def test_a_long_body_is_shortened_unless_all_is_asked_for(listen: Listen) -> None:
    body = b'{"type":"t","data":"' + b"x" * 500 + b'"}'
    short, full, text = listen("--json"), listen("--json", "--full"), listen("--full")
    for listener in (short, full, text):
        assert listener.request(body, {"webhook-id": "m"})[0] == 200
    shown = short.json()
    assert (len(shown["body"]), shown["body"][-1], shown["body_bytes"]) == (160, "…", 522)
    assert "headers" not in shown
    shown = full.json()
    assert shown["body"].encode() == body
    assert shown["headers"]["webhook-id"] == "m"
    lines = text.stop()
    assert "    webhook-id: m" in lines
    assert f"    {body.decode()}" in lines


def test_what_a_terminal_would_obey_is_not_printed(listen: Listen) -> None:
    listener = listen("--full")
    listener.request(b'{"type":"\\u001b[2J\\n"}\x1b]0;x\x07\r\xff', {"webhook-id": "\x9b2J"})
    listener.request(b'{"type":"\\u001b[2J\\n"}')
    assert not any(set(line) & set("\x1b\x07\r\x9b") for line in listener.stop())


def test_each_answer_of_the_script(listen: Listen) -> None:
    script = "429:30,slow:0,410,disable,abort,redirect:http://10.0.0.1/x"
    listener = listen("--answer", script, "--answer", "drop,204", "--loop")
    answers = [listener.request()[:2] for _ in range(6)]
    assert [status for status, _ in answers] == [429, 200, 410, 200, 400, 302]
    assert answers[0][1]["retry-after"] == "30"
    assert answers[3][1]["webhook-delivery"] == "disable"
    assert answers[4][1]["webhook-delivery"] == "abort-message"
    assert answers[5][1]["location"] == "http://10.0.0.1/x"
    with pytest.raises(ConnectionError):
        listener.request()
    assert [listener.request()[0] for _ in range(2)] == [204, 429]
    listener.stop()


def test_a_request_that_hangs_has_no_answer_until_the_end(listen: Listen) -> None:
    listener = listen("--json", "--answer", "hang")
    with listener.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}")
        shown = listener.json()
        assert (shown["status"], shown["answer"]) == (None, "no answer: left open")
        listener.stop()
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""


def test_a_slow_answer_does_not_hold_up_the_end(listen: Listen) -> None:
    listener = listen("--json", "--answer", "slow:86400")
    with listener.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}")
        assert listener.json()["answer"] == "after 1 d: 200"
        assert listener.json(listener.stop()[0])["received"] == 1


@pytest.mark.parametrize("way", ["option", "file", "variable"])
def test_secrets_come_by_option_by_file_and_by_variable(listen: Listen, tmp_path: Path, way: str) -> None:
    file = tmp_path / "secrets"
    file.write_text(f"{OTHER}\n{SECRET}\n", "utf-8")
    words = {
        "option": ["--secret", OTHER, "--secret", SECRET],
        "file": ["--secret-file", str(file)],
        "variable": [],
    }
    variables = {"ANEW_WEBHOOK_SECRET": f"{OTHER} {SECRET}"} if way == "variable" else {}
    listener = listen("--json", *words[way], **variables)
    listener.request(headers=delivery())
    listener.request(headers=delivery(key=b"y" * 32))
    listener.request(headers=delivery(webhook_timestamp="1700000000"))
    listener.request()
    assert [listener.json()["signature"] for _ in range(4)] == ["good", "bad", "bad", "missing"]
    rest = listener.stop()
    assert listener.json(rest[0])["bad_signatures"] == 3


def test_an_option_counts_before_the_variable(listen: Listen) -> None:
    listener = listen("--json", "--secret", OTHER, ANEW_WEBHOOK_SECRET=SECRET)
    listener.request(headers=delivery())
    assert listener.json()["signature"] == "bad"


def test_the_libraries_of_standard_webhooks_and_svix_are_understood(listen: Listen) -> None:
    """The other way round: what the reference library signs is good."""
    import datetime

    from standardwebhooks import Webhook
    from svix.webhooks import Webhook as SvixWebhook

    listener = listen("--json", "--secret", SECRET)
    now = datetime.datetime.now(datetime.UTC)
    for library in (Webhook(SECRET), SvixWebhook(SECRET)):
        signature = library.sign("msg_1", now, PAID.decode())
        headers = {
            "webhook-id": "msg_1",
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": signature,
        }
        listener.request(headers=headers)
        assert listener.json()["signature"] == "good"


def test_a_subscription_is_confirmed(listen: Listen) -> None:
    """The echo."""
    body = b'{"type":"anew.subscription.confirmation","data":{"challenge":"c-1"}}'
    listener = listen("--json", "--secret", SECRET, "--answer", "503")
    status, headers, answer = listener.request(body, delivery(body))
    assert (status, headers["content-type"], json.loads(answer)) == (
        200,
        "application/json",
        {"challenge": "c-1"},
    )
    assert listener.json()["answer"] == "200, challenge echoed"
    assert listener.request(body, delivery(PAID))[0] == 401
    assert listener.request(headers=delivery())[0] == 503


def test_a_subscription_is_not_confirmed_if_told_so(listen: Listen) -> None:
    body = b'{"type":"anew.subscription.confirmation","data":{"challenge":"c-1"}}'
    listener = listen("--no-confirm")
    assert listener.request(body)[::2] == (200, b"")
    asked = {"WebHook-Request-Origin": "queue.example.org"}
    assert "webhook-allowed-origin" not in listener.request(b"", asked, "OPTIONS")[1]


def test_a_sender_of_cloudevents_is_allowed(listen: Listen) -> None:
    listener = listen()
    asked = {"WebHook-Request-Origin": "queue.example.org", "WebHook-Request-Rate": "120"}
    status, headers, _ = listener.request(b"", asked, "OPTIONS")
    assert status == 200
    assert (headers["webhook-allowed-origin"], headers["webhook-allowed-rate"]) == (
        "queue.example.org",
        "120",
    )


def test_it_ends_after_so_many_requests(listen: Listen) -> None:
    listener = listen("--json", "--count", "2", "--answer", "drop,200")
    with pytest.raises(ConnectionError):
        listener.request()
    assert listener.request()[0] == 200
    code, lines, complaints = listener.ended()
    assert (code, complaints, len(lines)) == (0, "", 3)
    assert listener.json(lines[-1])["received"] == 2


def test_a_request_beyond_the_number_is_closed(listen: Listen) -> None:
    listener = listen("--json", "--count", "1", "--answer", "hang")
    with listener.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}")
        assert listener.json()["answer"] == "no answer: left open"
        with pytest.raises(ConnectionError):
            listener.request()
    # The one that had no answer is over when its sender has closed it.
    code, lines, complaints = listener.ended()
    assert (code, complaints, len(lines)) == (0, "", 1)
    assert listener.json(lines[0])["received"] == 1


def test_bodies_are_bounded(listen: Listen) -> None:
    listener = listen("--json", "--answer", "204")
    assert listener.request(b"x" * (1 << 20))[0] == 204
    assert listener.request(b"x" * ((1 << 20) + 1))[0] == 413
    assert listener.json()["body_bytes"] == 1 << 20
    assert (shown := listener.json())["body"] is None
    assert shown["body_bytes"] is None
    assert listener.request()[0] == 204


def test_a_compressed_body_is_taken_as_it_came(listen: Listen) -> None:
    listener = listen("--json", "--secret", SECRET)
    body = b"\x1f\x8b no gzip"
    assert listener.request(body, delivery(body, content_encoding="gzip"))[0] == 200
    assert listener.json()["signature"] == "good"


def test_connections_are_bounded(listen: Listen) -> None:
    listener = listen()
    with contextlib.ExitStack() as stack:
        kept = [stack.enter_context(listener.connect()) for _ in range(100)]
        # Accepted in the order in which they came.
        one_more = stack.enter_context(listener.connect())
        with contextlib.suppress(ConnectionResetError):
            assert one_more.recv(1) == b""
        kept[0].sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}")
        assert kept[0].recv(12) == b"HTTP/1.1 200"
    listener.stop()


def test_what_is_no_http_is_answered_and_does_no_harm(listen: Listen) -> None:
    listener = listen()
    with listener.connect() as connection:
        connection.sendall(b"garbage\r\n\r\n")
        assert connection.makefile("rb").readline().split()[1] == b"400"
    with listener.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{}")
    assert listener.request()[0] == 200
    listener.stop()


def test_it_is_reached_from_this_machine_alone_unless_told_otherwise(listen: Listen) -> None:
    assert listen().address[0] == "127.0.0.1"
    assert listen("--host", "0.0.0.0").address[0] == "0.0.0.0"


def test_a_port_that_is_taken_is_refused(listen: Listen) -> None:
    port = str(listen().address[1])
    done = subprocess.run(
        [sys.executable, "-m", "anew", "listen", port],
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        env=environment(),
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"Error: cannot listen on 127.0.0.1:{port} (address already in use); expected an address of this machine and a "
        "port that no other program has (0 takes a free one)\n"
    )


@pytest.mark.parametrize("no_colour", ["", "1"])
def test_a_terminal_gets_colours_unless_its_owner_wants_none(no_colour: str) -> None:
    outer, inner = pty.openpty()
    with (
        open(outer, "rb", buffering=0) as terminal,
        subprocess.Popen(
            [sys.executable, "-m", "anew", "listen", "0", "--count", "1"],
            stdout=inner,
            env=environment() | {"TERM": "xterm", "NO_COLOR": no_colour},
        ) as process,
    ):
        os.close(inner)
        seen = b""
        while b"\n" not in seen:
            seen += terminal.read(1_000)
        host, _, port = seen.split()[3].decode()[7:-1].partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=START_TIMEOUT_S)
        with contextlib.closing(connection):
            connection.request("POST", "/", b"{}")
            assert connection.getresponse().status == 200
        while b"bad signatures" not in seen:
            seen += terminal.read(1_000)
        assert process.wait(START_TIMEOUT_S) == 0
    assert (b"-> \x1b[32m200\x1b[0m" in seen) is not bool(no_colour)
    assert (b"\x1b" in seen) is not bool(no_colour)


def test_it_ends_when_nobody_reads_what_it_prints() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "anew", "listen", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        host, _, port = json.loads(process.stdout.readline())["url"][7:-1].partition(":")
        process.stdout.close()
        with socket.create_connection((host, int(port)), START_TIMEOUT_S) as connection:
            connection.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}")
            assert process.wait(START_TIMEOUT_S) == 1
        assert process.stderr.read() == ""


def test_without_aiohttp_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "anew.topics.receiver_server", raising=False)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    assert run(["listen"]) == 5
    assert capsys.readouterr().err == (
        "Error: aiohttp is not installed, which receives webhooks: pip install 'anew[webhooks]'\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--answer", "503,often"], '--answer: "often" is not valid; expected a status from 200 to 999'),
        (["--secret", "whsec_no"], "--secret: number 1 is not a secret; expected whsec_"),
        (["--secret-file", "/dev/null"], "--secret-file: there is no secret in it"),
        (["--secret-file", "/no/such/file"], "@/no/such/file: No such file or directory"),
        (["65536"], "65536 is not in the range"),
        (["--count", "0"], "0 is not in the range"),
    ],
)
def test_what_does_not_fit_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["listen", *words]) == 2
    complaint = capsys.readouterr().err
    assert said in complaint
    assert "whsec_no" not in complaint


def test_a_variable_that_is_no_secret_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANEW_WEBHOOK_SECRET", "geheim")
    assert run(["listen"]) == 2
    assert capsys.readouterr().err.startswith("Error: ANEW_WEBHOOK_SECRET: number 1 is not a secret")
