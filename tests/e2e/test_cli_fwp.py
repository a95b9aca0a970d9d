"""``anew fwp``: a server asked by the Faktory Work Protocol, and what answers there instead."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from anew.cli.root import run
from tests.faktory_wire import FaktoryWire

from .server import ServerProcess


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("FAKTORY_"):
            monkeypatch.delenv(name)


def address(server: ServerProcess) -> str:
    host, port = server.address_of("fwp")
    return f"tcp://{host}:{port}"


@contextmanager
def answering(reply: bytes) -> Iterator[str]:
    """A server of something else: it sends this to whoever connects, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(reply)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):
                    pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(10)


def test_ping(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fwp", "ping", "--url", address(server)]) == 0
    assert capsys.readouterr().out.startswith(f"ok  {address(server)}  Faktory 1.10.0  ")
    assert run(["fwp", "ping", "--json", "--url", address(server)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["status"], answer["url"]) == ("ok", address(server))


def test_info_as_a_table_and_as_it_came(
    server: ServerProcess, queue: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaktoryWire.open(address(server)) as wire:
        for number in range(3):
            wire.expect(f'PUSH {{"jid":"info-{queue}-{number}","jobtype":"A","args":[],"queue":"{queue}"}}')
    monkeypatch.setenv("FAKTORY_URL", address(server))
    assert run(["fwp", "info"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [queue, "3"] in lines
    assert ["SET", "JOBS"] in lines
    monkeypatch.setenv("FAKTORY_PROVIDER", "QUEUE_URL")
    monkeypatch.setenv("QUEUE_URL", address(server))
    monkeypatch.delenv("FAKTORY_URL")
    assert run(["fwp", "info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["faktory"]["queues"][queue] == 3


def test_a_password_from_the_address_or_the_variable(
    fresh_server: Callable[..., ServerProcess],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("pass word/ü\n")
    server = fresh_server(fwp_password_file=secret)
    url = address(server)
    assert run(["fwp", "ping", "--url", url]) == 5
    assert "asks for a password" in capsys.readouterr().err
    assert run(["fwp", "ping", "--url", url.replace("//", "//:wrong@")]) == 5
    error = capsys.readouterr().err
    assert "does not know this password" in error
    assert "wrong" not in error
    assert run(["fwp", "ping", "--url", url.replace("//", "//:pass%20word%2F%C3%BC@")]) == 0
    assert "pass" not in capsys.readouterr().out
    monkeypatch.setenv("FAKTORY_PASSWORD", "pass word/ü")
    assert run(["fwp", "ping", "--url", url]) == 0
    monkeypatch.setenv("FAKTORY_PASSWORD", str(secret))
    assert run(["fwp", "ping", "--url", url]) == 0
    monkeypatch.setenv("FAKTORY_PASSWORD", "/no/such/file")
    assert run(["fwp", "ping", "--url", url]) == 2


def test_where_nothing_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    assert run(["fwp", "ping", "--url", url]) == 3
    assert f"nothing listens at {url}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"+HI {bad}\r\n",
        b"+HI []\r\n",
        b'+HI {"v":2,"s":"1","i":99999999}\r\n',
        b'+HI {"v":2}\r\n-ERR no\r\n',
        b'+HI {"v":2}\r\n+OK\r\n$99999999\r\n',
        b'+HI {"v":2}\r\n+OK\r\n$-1\r\n',
        b'+HI {"v":2}\r\n+OK\r\n$2\r\n{}\r\n',
        b'+HI {"v":2}\r\n+OK\r\n$2\r\n{',
        b"x" * 70_000,
        b"",
    ],
)
def test_what_speaks_something_else(
    reply: bytes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKTORY_PASSWORD", "secret")
    with answering(reply) as url:
        assert run(["fwp", "info", "--url", url]) == 3
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "tcp://", "queue:7419", "tcp://:secret@h:port", "tcp://h:99999"]
)
def test_an_address_that_is_none(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fwp", "ping", "--url", url]) == 2
    error = capsys.readouterr().err
    assert "expected tcp://HOST:PORT" in error
    assert "secret" not in error


def test_a_provider_that_is_an_address_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKTORY_PROVIDER", "tcp://:secret@localhost:7419")
    assert run(["fwp", "ping"]) == 2
    assert "secret" not in capsys.readouterr().err
