"""TLS on the port of the Faktory Work Protocol."""

from __future__ import annotations

import shutil
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anew.client.fwp import FwpClient
from anew.errors import Unreachable
from tests.e2e.client import Client
from tests.e2e.command import anew
from tests.e2e.server import ServerProcess, run
from tests.e2e.tls import pair, path, trusting
from tests.faktory_wire import FaktoryWire

Start = Callable[..., ServerProcess]


def directory(place: Path) -> Path:
    """A directory of Faktory's settings with both PEM files."""
    files = pair(place)
    files["tls_cert"].rename(place / "public.cert.pem")
    files["tls_key"].rename(place / "private.key.pem")
    return place


def flags_of(place: Path) -> dict[str, Any]:
    """The flags of Anew's own."""
    return {f"fwp_{name}": file for name, file in pair(place).items()}


def secure_url(server: ServerProcess, scheme: str = "tcp+tls") -> str:
    host, port = server.address_of("fwp")
    return f"{scheme}://{host}:{port}"


def test_fwp_21_both_pem_files_switch_tls_on(fresh_server: Start, tmp_path: Path) -> None:
    server = fresh_server(fwp_port=0, faktory_dir=directory(tmp_path / "faktory"))
    assert server._await_listening("fwp")["fields"]["scheme"] == "tcp+tls"
    with FaktoryWire.open(secure_url(server), tls=trusting()) as wire:
        wire.expect('PUSH {"jid":"a-job-over-tls","jobtype":"t","args":[1]}')
        assert wire.ask("FETCH default")["jid"] == "a-job-over-tls"
        wire.expect('ACK {"jid":"a-job-over-tls"}')
    old = trusting()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    FaktoryWire.open(secure_url(server), tls=old).close()


def test_fwp_21_plaintext_fails_where_there_is_tls(fresh_server: Start, tmp_path: Path) -> None:
    server = fresh_server(fwp_port=0, faktory_dir=directory(tmp_path / "faktory"))
    with socket.create_connection(server.address_of("fwp"), timeout=15) as plain:
        plain.sendall(b'HELLO {"v":2}\r\n')
        assert plain.recv(100) == b""
    assert server.await_record("a TLS handshake has failed")["reason"] == "it does not speak TLS"


@pytest.mark.parametrize("missing", ["public.cert.pem", "private.key.pem"])
def test_fwp_21_without_both_files_plaintext_works(fresh_server: Start, tmp_path: Path, missing: str) -> None:
    place = directory(tmp_path / "faktory")
    (place / missing).unlink()
    server = fresh_server(fwp_port=0, faktory_dir=place)
    FaktoryWire.open(secure_url(server, "tcp")).close()


def test_fwp_21_an_unloadable_pair_aborts_the_start(tmp_path: Path) -> None:
    place = directory(tmp_path / "faktory")
    shutil.copyfile(path("client.key"), place / "private.key.pem")
    ended = run(
        "serve",
        "--root-dir",
        str(tmp_path / "data"),
        "--port",
        "0",
        "--faktory-dir",
        str(place),
        "--fwp-port",
        "0",
    )
    assert ended.returncode == 2
    assert f'--fwp-tls-key: "{place / "private.key.pem"}" cannot be used (it does not belong' in ended.stderr


def test_fwp_21_settings_of_our_own_do_the_same(fresh_server: Start, tmp_path: Path) -> None:
    server = fresh_server(
        fwp_port=0, fwp_tls_client_ca=path("root.pem"), **flags_of(tmp_path / "certificates")
    )
    with pytest.raises((ssl.SSLError, ConnectionError)):
        FaktoryWire.open(secure_url(server), tls=trusting())
    FaktoryWire.open(secure_url(server), tls=trusting(certified=True)).close()
    with socket.create_connection(server.address) as http:  # the other door stays as it is
        http.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert http.recv(12) == b"HTTP/1.1 200"


def test_fwp_21_two_seconds_cover_handshake_greeting_and_hello(fresh_server: Start, tmp_path: Path) -> None:
    """Whoever is late with either is cut: two seconds, and the second within which the server looks."""
    server = fresh_server(fwp_port=0, **flags_of(tmp_path / "certificates"))
    began = time.monotonic()
    with socket.create_connection(server.address_of("fwp"), timeout=15) as silent:
        greeted = trusting().wrap_socket(
            socket.create_connection(server.address_of("fwp"), timeout=15), server_hostname="127.0.0.1"
        )
        with greeted:
            assert greeted.recv(100).startswith(b"+HI ")
            assert silent.recv(1) == b""
            assert greeted.recv(1) == b""
    assert 1.9 < time.monotonic() - began < 4.5


def test_our_own_client_and_command_speak_it(fresh_server: Start, tmp_path: Path) -> None:
    server = fresh_server(fwp_port=0, fwp_password="pass word", **flags_of(tmp_path / "certificates"))
    url = secure_url(server)
    with FwpClient(url, password="pass word", ca=path("root.pem")) as client:
        assert client.info()["faktory"]["total_enqueued"] == 0
    with pytest.raises(Unreachable, match="no secure connection to tcp\\+tls://"):
        FwpClient(url, password="pass word")
    with pytest.raises(Unreachable):
        FwpClient(secure_url(server, "tcp"), password="pass word", timeout_ms=10_000)
    asked = anew(
        server.address, "fwp", "ping", FAKTORY_URL=url, FAKTORY_PASSWORD="pass word", ANEW_CA=path("root.pem")
    )
    assert (asked.returncode, asked.stderr) == (0, "")
    assert asked.stdout.startswith(f"ok  {url}  Faktory Enterprise")
    stranger = anew(server.address, "fwp", "ping", "--url", url)
    assert stranger.returncode == 3
    assert "--ca-cert ca-cert.pem, or ANEW_CA" in stranger.stderr


def test_fwp_21_the_web_port_has_the_same_certificate(fresh_server: Start, tmp_path: Path) -> None:
    server = fresh_server(
        fwp_port=0, fwp_web_port=0, fwp_tls_client_ca=path("root.pem"), **flags_of(tmp_path / "certificates")
    )
    assert server._await_listening("fwp-web")["fields"]["scheme"] == "https"
    client = Client(server.address_of("fwp-web"), tls=trusting())  # a browser has no certificate
    assert client.get("/health").status == 200
    client.close()
    with Client(server.address_of("fwp-web")).wire() as plain:
        plain.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert plain.read_eof() == b""
