"""Secure connections: whom the client trusts, how it shows who it is, and what it says where that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from anew.client import Client
from anew.errors import InvalidConfig, Unreachable

from .blocked import BlockedClient
from .server import START_TIMEOUT_S, environment
from .tls import TlsServer, path

CA = path("root.pem")
CERT = path("client.pem")
KEY = path("client.key")


@pytest.fixture(params=[Client, BlockedClient], ids=["blocking", "awaited"])
def kind(request: pytest.FixtureRequest) -> Any:
    """The kinds of client."""
    return request.param


@pytest.fixture
def tls() -> Iterator[Callable[..., TlsServer]]:
    """Start TLS servers."""
    servers: list[TlsServer] = []

    def start(**options: Any) -> TlsServer:
        servers.append(TlsServer(**options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def test_a_server_is_trusted_by_its_authority(tls: Callable[..., TlsServer], kind: type[Client]) -> None:
    server = tls()
    with kind(server.url, ca=CA) as client:
        assert client.health() == {"status": "ok"}
    assert server.clients == [""]


def test_a_server_that_nobody_vouches_for_gets_no_request(
    tls: Callable[..., TlsServer], kind: type[Client]
) -> None:
    server = tls()
    with kind(server.url) as client, pytest.raises(Unreachable, match="certificate verify failed"):
        client.health()
    assert server.clients == []


def test_a_name_that_is_not_in_the_certificate_is_refused(
    tls: Callable[..., TlsServer], kind: type[Client]
) -> None:
    server = tls()
    named = server.url.replace("127.0.0.1", "localhost")
    with kind(named, ca=CA) as client:
        assert client.health() == {"status": "ok"}
    other = server.url.replace("127.0.0.1", "127.1")
    with kind(other, ca=CA) as client, pytest.raises(Unreachable, match="certificate verify failed"):
        client.health()


def test_a_client_shows_its_certificate(tls: Callable[..., TlsServer], kind: type[Client]) -> None:
    server = tls(asks=True)
    with kind(server.url, ca=CA, cert=CERT, key=KEY) as client:
        client.health()
    assert server.clients == ["client"]


def test_a_client_without_a_certificate_is_told_why(
    tls: Callable[..., TlsServer], kind: type[Client]
) -> None:
    server = tls(asks=True)
    with kind(server.url, ca=CA) as client, pytest.raises(Unreachable, match="certificate"):
        client.health()
    assert server.clients == []


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"ca": "/no/such/file"},
            r'ca: "/no/such/file" cannot be used \(no such file or directory\); expected a file',
        ),
        ({"ca": KEY}, "ca: .* cannot be used .* expected a file of certificates in PEM form"),
        ({"cert": CERT}, "cert: .* cannot be used .* expected a certificate and its key"),
        ({"cert": CERT, "key": path("server.key")}, "cert: .* cannot be used"),
        # OpenSSL would ask for the password at the terminal, where a server has none.
        ({"cert": CERT, "key": path("locked.key")}, "cert: .* cannot be used .* the key without a password"),
        ({"key": KEY}, "key: .* is given without cert; expected both"),
    ],
)
def test_files_that_cannot_be_used_are_named(files: dict[str, str], said: str, kind: type[Client]) -> None:
    for url in ("https://127.0.0.1:9", "http://127.0.0.1:9"):
        with pytest.raises(InvalidConfig, match=said):
            kind(url, **files)  # type: ignore[arg-type]


def health(url: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ``anew health`` against an address."""
    return subprocess.run(
        [sys.executable, "-m", "anew", "health", "--url", url, *words],
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        env=environment() | variables,
        cwd=os.path.dirname(__file__),
        check=False,
    )


def test_the_command_takes_files_by_flag_and_by_variable(tls: Callable[..., TlsServer]) -> None:
    server = tls(asks=True)
    by_flag = health(server.url, "--ca", CA, "--cert", CERT, "--key", KEY)
    assert (by_flag.returncode, by_flag.stdout) == (0, f"ok  {server.url}\n")
    by_variable = health(server.url, ANEW_CA=CA, ANEW_CERT=CERT, ANEW_KEY=KEY)
    assert (by_variable.returncode, by_variable.stderr) == (0, "")
    assert server.clients == ["client", "client"]
    refused = health(server.url)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "certificate verify failed" in refused.stderr
