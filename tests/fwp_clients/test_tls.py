"""Faktory's clients reach the port by ``tcp+tls://``, with a password, and trust the server by its authority."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.tls import pair, path, trusting
from tests.faktory_wire import FaktoryWire

from .clients import ClientProgram
from .conftest import PASSWORD
from .servers import AnewServer


@pytest.fixture(scope="module")
def secure_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a certificate and a password."""
    folder: Path = tmp_path_factory.mktemp("certificates")
    files = {f"fwp_{name}": str(file) for name, file in pair(folder).items()}
    server = AnewServer(PASSWORD, **files)
    yield server.url.replace("tcp://", "tcp+tls://")
    server.close()


def test_a_client_pushes_over_tls(
    client: ClientProgram, secure_url: str, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if client.name == "faktory" and not hasattr(ssl, "wrap_socket"):
        pytest.skip("this client needs ssl.wrap_socket, which Python has no more from 3.12 on")
    # Where Python and Go, and where Node, look for an authority beside the system's.
    monkeypatch.setenv("SSL_CERT_FILE", path("root.pem"))
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", path("root.pem"))
    sent = {"jid": f"{queue}-job-over-tls", "queue": queue, "jobtype": "echo", "args": [1]}
    assert client.run("push", secure_url, sent) == {"pushed": True}
    with FaktoryWire.open(secure_url, tls=trusting()) as wire:
        assert wire.ask(f"FETCH {queue}")["jid"] == sent["jid"]
