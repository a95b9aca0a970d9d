"""TLS on the HTTP port: what is agreed on, who is let in, and that all else is as without."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anew.client import Client as ProductClient

from .client import Client
from .command import anew
from .h2wire import H2Wire
from .server import ServerProcess, run
from .tls import pair, path, trusting

Start = Callable[..., ServerProcess]


@pytest.fixture
def flags(tmp_path: Path) -> dict[str, Any]:
    """The flags of a server with TLS."""
    return pair(tmp_path / "certificates")


def answered(server: ServerProcess, context: ssl.SSLContext) -> Any:
    """What a client hears from a server, whose handshake has come to its end."""
    client = Client(server.address, tls=context)
    try:
        return client.get("/health").data
    finally:
        client.close()


def test_zizq_02_alpn_offers_http2_before_http1(fresh_server: Start, flags: dict[str, Any]) -> None:
    server = fresh_server(**flags)
    assert server.listening["fields"]["scheme"] == "https"
    for offered, chosen in ((["h2", "http/1.1"], "h2"), (["http/1.1"], "http/1.1"), ([], None)):
        plain = socket.create_connection(server.address)
        with trusting(*offered).wrap_socket(plain, server_hostname="127.0.0.1") as secure:
            assert secure.selected_alpn_protocol() == chosen
            assert secure.version() == "TLSv1.3"


def test_zizq_02_both_protocols_are_spoken(fresh_server: Start, flags: dict[str, Any]) -> None:
    server = fresh_server(**flags)
    with H2Wire(server.address, tls=trusting("h2")) as wire:
        done = wire.request(
            "POST",
            "/jobs",
            headers=[("content-type", "application/json")],
            body=b'{"queue":"q","type":"t","payload":1}',
        )
        assert done.status == 201
    client = Client(server.address, tls=trusting("http/1.1"))
    with client.take("q", prefetch=1) as stream:
        (job,) = stream.next_jobs(1)
        assert job["id"] == done.data["id"]
        client.succeed(job["id"])
    client.close()


def test_zizq_02_with_a_client_authority_a_client_needs_a_certificate(
    fresh_server: Start, flags: dict[str, Any]
) -> None:
    server = fresh_server(tls_client_ca=path("root.pem"), **flags)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        answered(server, trusting())
    assert answered(server, trusting(certified=True))["status"] == "ok"
    told = server.await_record("a TLS handshake has failed")
    assert told["reason"] == "peer did not return a certificate"


def test_zizq_02_a_certificate_of_another_authority_is_refused(
    fresh_server: Start, flags: dict[str, Any]
) -> None:
    """The server's own certificate stands for an authority that the client's has nothing to do with."""
    server = fresh_server(tls_client_ca=path("server.pem"), **flags)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        answered(server, trusting(certified=True))


def test_a_plaintext_client_is_hung_up_on_and_nothing_is_stored(
    fresh_server: Start, flags: dict[str, Any]
) -> None:
    server = fresh_server(**flags)
    with Client(server.address).wire() as wire:
        wire.send(
            b'POST /jobs HTTP/1.1\r\nhost: h\r\ncontent-length: 36\r\n\r\n{"queue":"q","type":"t","payload":1}'
        )
        assert wire.read_eof() == b""
    assert server.await_record("a TLS handshake has failed")["reason"] == "it does not speak TLS"
    client = Client(server.address, tls=trusting())
    assert client.get("/queues").data == {"queues": []}
    metrics = client.get("/metrics").body.decode()
    assert 'anew_requests_refused_total{reason="tls_plaintext"} 1.0' in metrics
    client.close()


def test_a_tls_client_of_a_plaintext_server_is_refused_at_once(fresh_server: Start) -> None:
    with pytest.raises(ssl.SSLError):
        answered(fresh_server(), trusting())


@pytest.mark.parametrize(("minimum", "spoken"), [(None, True), ("1.2", True), ("1.3", False)])
def test_the_oldest_version_can_be_chosen(
    fresh_server: Start, flags: dict[str, Any], minimum: str | None, spoken: bool
) -> None:
    server = fresh_server(tls_min=minimum, **flags)
    old = trusting()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    if spoken:
        assert answered(server, old)["status"] == "ok"
    else:
        with pytest.raises(ssl.SSLError):
            answered(server, old)
    assert answered(server, trusting())["status"] == "ok"


def test_a_stop_ends_streams_cleanly(fresh_server: Start, flags: dict[str, Any]) -> None:
    server = fresh_server(**flags)
    client = Client(server.address, tls=trusting())
    client.enqueue_many("q", 2)
    with client.take("q", prefetch=1) as stream:
        stream.next_jobs(1)
        server.process_signal(signal.SIGTERM)
        assert stream.read_end() == []
        assert stream.clean, "the stream was cut off instead of ended"
    client.close()
    assert server.wait() == 0


def test_a_cross_site_page_is_told_from_the_servers_own(fresh_server: Start, flags: dict[str, Any]) -> None:
    """With TLS the server's own origin begins with https; and any name is its own that its certificate has."""
    server = fresh_server(**flags)
    client = Client(server.address, tls=trusting())
    for origin, status in (
        ("https://queue.example.org", 200),
        ("https://QUEUE.example.org:443", 403),  # as no browser writes it
        ("http://queue.example.org", 403),
        ("https://evil.example", 403),
    ):
        lines = [("host", "queue.example.org:443"), ("origin", origin)]
        assert client.get("/queues", headers=lines).status == status
    client.close()
    with H2Wire(server.address, tls=trusting("h2")) as wire:
        assert wire.request("GET", "/queues", authority="queue.example.org:7890").status == 200
    named = fresh_server(allowed_hosts="queue.example.org", **flags)
    with H2Wire(named.address, tls=trusting("h2")) as wire:
        assert wire.request("GET", "/queues", authority="other.example.org").status == 403


# -- the product's own clients


def test_the_client_and_the_command_line_reach_it(fresh_server: Start, flags: dict[str, Any]) -> None:
    server = fresh_server(tls_client_ca=path("root.pem"), **flags)
    url = f"https://127.0.0.1:{server.address[1]}"
    files = {"ca": path("root.pem"), "cert": path("client.pem"), "key": path("client.key")}
    with ProductClient(url, **files) as client:
        job = client.enqueue("greet", "hello", {"name": "Ada"})
    words = (
        "--url",
        url,
        "--ca-cert",
        files["ca"],
        "--client-cert",
        files["cert"],
        "--client-key",
        files["key"],
    )
    shown = anew(server.address, "jobs", "show", job.id, "--json", *words)
    assert (shown.returncode, json.loads(shown.stdout)["job"]["payload"]) == (0, {"name": "Ada"})
    stranger = anew(server.address, "health", "--url", url)
    assert stranger.returncode == 3
    assert "--ca-cert ca-cert.pem, or ANEW_CA" in stranger.stderr
    plain = anew(server.address, "health")
    assert plain.returncode == 3
    assert "If the server speaks TLS, its address begins with https" in plain.stderr


def test_an_application_reaches_it_by_variables(
    fresh_server: Start, flags: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from anew import Anew

    server = fresh_server(tls_client_ca=path("root.pem"), **flags)
    for name, file in (("ANEW_CA", "root.pem"), ("ANEW_CERT", "client.pem"), ("ANEW_KEY", "client.key")):
        monkeypatch.setenv(name, path(file))
    app = Anew(f"https://127.0.0.1:{server.address[1]}")
    task = app.task(lambda: None, name="nothing")
    assert task.enqueue().id
    assert app.counts()
    app.close()


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize("version", ["1.1", "2"])
def test_curl_speaks_with_it(fresh_server: Start, flags: dict[str, Any], version: str) -> None:
    server = fresh_server(**flags)
    url = f"https://127.0.0.1:{server.address[1]}/queues"
    words = ["curl", "-sS", f"--http{version}", "--cacert", path("root.pem"), "-w", " %{http_version}", url]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == f'{{"queues":[]}} {version}'


# -- certificates that are read again


def serial(server: ServerProcess) -> str:
    """The serial number of the certificate that a new connection is shown."""
    context = trusting()
    context.check_hostname = False
    context.load_verify_locations(path("client.pem"))
    with socket.create_connection(server.address) as plain, context.wrap_socket(plain) as secure:
        shown = secure.getpeercert()
        assert shown is not None
        return str(shown["serialNumber"])


def test_sighup_has_new_connections_shown_the_new_certificate_and_drops_none(tmp_path: Path) -> None:
    own = pair(tmp_path / "certificates")
    server = ServerProcess(tmp_path / "data", **own)
    client = Client(server.address, tls=trusting())
    client.enqueue("q")
    with client.take("q", prefetch=1) as stream:
        (job,) = stream.next_jobs(1)
        before = serial(server)
        issued = run("tls", "init", "--out-dir", str(tmp_path / "new"), "--san", "127.0.0.1")
        assert issued.returncode == 0, issued.stderr
        own["tls_cert"].write_bytes((tmp_path / "new" / "server-cert.pem").read_bytes())

        server.process_signal(signal.SIGHUP)  # half of it is there: the key is the old one
        told = server.await_record("a certificate cannot be read again; the one from before stays")
        assert "does not belong to the certificate" in told["reason"]
        assert serial(server) == before

        own["tls_key"].write_bytes((tmp_path / "new" / "server-key.pem").read_bytes())
        server.process_signal(signal.SIGHUP)
        told = server.await_record("a certificate was read again; it counts for new connections")
        assert told["api"] == "primary"
        renewed = Client(
            server.address, tls=ssl.create_default_context(cafile=tmp_path / "new" / "ca-cert.pem")
        )
        metrics = renewed.get("/metrics").body.decode()
        end = ssl.cert_time_to_seconds("Jan  1 00:00:00 2120 GMT")
        (line,) = [line for line in metrics.splitlines() if line.startswith("anew_tls_certificate_expiry")]
        assert line.startswith('anew_tls_certificate_expiry_timestamp_seconds{api="primary"} ')
        assert 0 < float(line.split()[1]) < end
        renewed.succeed(job["id"])  # and the stream from before goes on
        renewed.enqueue("q")
        assert len(stream.next_jobs(1)) == 1
        renewed.close()
    client.close()
    assert server.terminate() == 0
    (complaint,) = server.new_complaints()
    assert "a certificate cannot be read again" in complaint
    server.close()


def test_a_certificate_that_ends_soon_is_told_at_the_start(fresh_server: Start, tmp_path: Path) -> None:
    issued = run("tls", "init", "--out-dir", str(tmp_path / "tls"), "--days", "13")
    assert issued.returncode == 0, issued.stderr
    server = fresh_server(
        tls_cert=tmp_path / "tls" / "server-cert.pem", tls_key=tmp_path / "tls" / "server-key.pem"
    )
    (told,) = [json.loads(line)["fields"] for line in server.output if "a certificate ends soon" in line]
    assert (told["api"], told["days"]) == ("primary", 12)


# -- what is refused at the start


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("tls_cert", None, "--tls-cert: {file} cannot be used (no such file or directory)"),
        ("tls_cert", "nonsense", "--tls-cert: {file} cannot be used (it holds no certificate)"),
        ("tls_key", None, "--tls-key: {file} cannot be used (no such file or directory)"),
        ("tls_key", "client.key", "--tls-key: {file} cannot be used (it does not belong to the certificate"),
        ("tls_key", "locked.key", "--tls-key: {file} cannot be used"),
    ],
)
def test_zizq_96_a_certificate_that_cannot_be_used_is_named_at_the_start(
    tmp_path: Path, flags: dict[str, Any], name: str, content: str | None, said: str
) -> None:
    file = flags[name]
    if content is None:
        file.unlink()
    else:
        source = Path(path(content))
        file.write_bytes(source.read_bytes() if source.exists() else content.encode())
    words = [f"--{flag.replace('_', '-')}={value}" for flag, value in flags.items()]
    ended = run("serve", "--root-dir", str(tmp_path / "data"), "--port", "0", *words)
    assert ended.returncode == 2
    assert said.format(file=f'"{file}"') in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "data").exists()
