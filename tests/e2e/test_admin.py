"""The admin listener of a real server: what is watched, saved and compacted there, and what it withstands."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import struct
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from anew import Anew

from . import tls
from .client import Client
from .server import ServerProcess, run
from .watcher import Watcher, watching
from .wire import TIMEOUT_S, Address

Start = Callable[..., ServerProcess]

HANDSHAKE = (
    b"GET /events HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class Site:
    """A server with an admin listener, and a client of each of its ports."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.admin_address: Address = server.address_of("admin")
        self.client = Client(server.address)
        self.admin = Client(self.admin_address)

    def watching(self, **headers: str) -> contextlib.AbstractContextManager[Watcher]:
        return watching(self.admin_address, **headers)

    def close(self) -> None:
        self.client.close()
        self.admin.close()


@pytest.fixture
def start(fresh_server: Start) -> Iterator[Callable[..., Site]]:
    """Start a server with an admin listener."""
    sites: list[Site] = []

    def site(**flags: Any) -> Site:
        sites.append(Site(fresh_server(**{"no_admin": None, "admin_port": 0} | flags)))
        return sites[-1]

    yield site
    for one in sites:
        one.close()


@pytest.fixture
def site(start: Callable[..., Site]) -> Site:
    return start()


# -- the listener


def test_the_log_says_where_it_listens_in_the_form_that_programs_read(site: Site) -> None:
    record = next(line for line in site.server.output if '"admin"' in line)
    fields = json.loads(record)["fields"]
    assert (fields["message"], fields["api"], fields["scheme"]) == ("listening", "admin", "http")
    assert fields["addr"] == "{}:{}".format(*site.admin_address)


def test_its_routes_are_not_on_the_other_port_nor_the_other_ports_on_it(site: Site) -> None:
    for method, path in (("POST", "/backup"), ("POST", "/compact"), ("GET", "/events")):
        assert site.client.request(method, path).status == 404
    for path in ("/health", "/healthz", "/jobs", "/metrics"):
        answer = site.admin.request("GET", path)
        assert (answer.status, answer.body, answer.content_type) == (404, b"", None)


def test_a_port_that_is_taken_is_said_with_what_to_do(site: Site, tmp_path: Path) -> None:
    """As with Zizq the server does not start; a second one on a machine with defaults meets this."""
    host, port = site.admin_address
    ended = run("serve", "--root-dir", str(tmp_path / "other"), "--port", "0", "--admin-port", str(port))
    assert ended.returncode == 1
    assert (
        f"cannot listen on --admin-host {host} --admin-port {port} (address already in use); expected an address of this "
        "machine and a port that no other program has (--admin-port 0 takes a free one, --no-admin leaves the admin "
        "listener out)"
    ) in ended.stderr


def test_it_is_not_there_where_it_is_switched_off(start: Callable[..., Site], fresh_server: Start) -> None:
    server = fresh_server(no_admin=True)
    assert not [line for line in server.output if '"admin"' in line]


def test_beyond_loopback_it_needs_a_token(tmp_path: Path) -> None:
    ended = run("serve", "--root-dir", str(tmp_path / "data"), "--port", "0", "--admin-host", "0.0.0.0")
    assert ended.returncode == 5
    assert "--admin-host 0.0.0.0: others could reach this server" in ended.stderr


def test_with_a_token_all_of_it_asks_for_that(start: Callable[..., Site]) -> None:
    site = start(token="s3cret")
    bearer = "Bearer s3cret"
    with pytest.raises(InvalidStatus) as refused, site.watching():
        pass
    assert refused.value.response.status_code == 401
    with site.watching(authorization=bearer) as watcher:
        assert watcher.next()["event"] == "job_snapshot"
    assert site.admin.request("POST", "/compact").status == 401
    assert site.admin.request("POST", "/compact", headers=[("authorization", bearer)]).status == 204


# -- the live view


def test_zizq_93_events_give_a_snapshot_on_connect_then_heartbeats_and_a_snapshot_for_each_subscription(
    site: Site,
) -> None:
    job = site.client.enqueue("q", type="t")
    with site.watching() as watcher:
        first = watcher.next()
        assert first["event"] == "job_snapshot"
        assert [row["id"] for row in first["ready"]["items"]] == [job["id"]]
        assert first["server"].keys() == {
            "version", "uptime_ms", "tier", "total_ready", "total_in_flight", "total_scheduled",
        }  # fmt: skip
        beats = [watcher.next(), watcher.next()]
        assert [beat["event"] for beat in beats] == ["heartbeat", "heartbeat"]
        apart_ms = beats[1]["server"]["uptime_ms"] - beats[0]["server"]["uptime_ms"]
        assert 1_900 <= apart_ms < 4_000 + 1_000 * TIMEOUT_S  # a busy machine is late, never early
        watcher.subscribe("ready", {"kind": "around", "id": job["id"]}, 5)
        snapshot = watcher.snapshot()
        assert snapshot["ready"]["resolved_anchor"] == job["id"]
        assert snapshot.keys() >= {"ready", "in_flight", "scheduled"}


def test_zizq_93_the_life_of_a_job_is_shown_step_by_step(site: Site) -> None:
    client = site.client
    with site.watching() as watcher, client.take("q", prefetch=1) as stream:
        watcher.snapshot()
        job = client.enqueue("q", type="t", backoff={"exponent": 0, "base_ms": 0, "jitter_ms": 0})
        assert stream.next_job()["id"] == job["id"]
        assert watcher.change("in_flight", job["id"])["job"]["job_type"] == "t"
        client.fail(job["id"])
        messages = watcher.until(lambda message: message.get("status") == "scheduled")
        assert [message["status"] for message in messages if message["event"] == "job_changed"] == [
            "dead", "in_flight_removed", "scheduled",
        ]  # fmt: skip
        assert messages[-1]["job"]["attempts"] == 1
        watcher.change("in_flight", job["id"])
        client.succeed(job["id"])
        watcher.change("completed", job["id"])
        watcher.change("in_flight_removed", job["id"])


def test_zizq_93_jobs_are_found_and_deleted(site: Site) -> None:
    jobs = [site.client.enqueue("mail" if n % 2 else "images", type=f"type{n}") for n in range(6)]
    with site.watching() as watcher:
        watcher.snapshot()
        find = {"type": "find", "list": "ready", "direction": "forward", "limit": 3}
        watcher.say(**find, anchor={"kind": "start"}, query={"queues": ["mai"], "types": ["type3", "type4"]})
        found = watcher.until(lambda message: message["event"] == "find_result")[-1]
        assert (found["matched_position"], found["window"]["resolved_anchor"]) == (3, jobs[3]["id"])
        watcher.say(type="delete_job", id=jobs[3]["id"])
        watcher.change("ready_removed", jobs[3]["id"])
        assert site.client.get(f"/jobs/{jobs[3]['id']}").status == 404
        watcher.say(**find | {"direction": "locate"}, anchor={"kind": "job_id", "id": jobs[3]["id"]})
        assert (
            watcher.until(lambda message: message["event"] == "find_result")[-1]["matched_position"] is None
        )


def test_what_another_process_writes_is_shown_too(site: Site) -> None:
    app = Anew(site.server.root_dir)

    @app.task(name="embedded", queue="q")
    def embedded() -> None:
        """Nobody runs it."""

    with app, site.watching() as watcher:
        watcher.snapshot()
        embedded.enqueue()
        came = watcher.until(lambda message: message.get("status") == "ready")[-1]
        assert came["job"]["job_type"] == "embedded"


def test_zizq_93_a_page_of_another_site_cannot_watch(site: Site) -> None:
    for headers in ({"origin": "https://evil.example"}, {"origin": "null"}, {"sec_fetch_site": "cross-site"}):
        with pytest.raises(InvalidStatus) as refused, site.watching(**headers):
            pass
        assert refused.value.response.status_code == 403


def test_by_http2_there_is_nothing_to_watch(site: Site) -> None:
    answer = site.admin.request("GET", "/events")
    assert answer.status == 400
    assert "by HTTP/1.1" in answer.data["error"]


# -- who means no good


def raw(site: Site) -> socket.socket:
    """A WebSocket without a client's good manners."""
    opened = socket.create_connection(site.admin_address, TIMEOUT_S)
    opened.sendall(HANDSHAKE)
    head = b""
    while b"\r\n\r\n" not in head:
        head += opened.recv(1)
    assert head.startswith(b"HTTP/1.1 101 ")
    return opened


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff" * 10_000,
        b"GET / HTTP/1.1\r\n\r\n" * 100,
        b"\x81\xff" + struct.pack("!Q", 100 << 20) + b"x" * 1_000_000,
        b"\x81\x87\0\0\0\0garbage" * 50_000,
    ],
    ids=["noise", "http", "100 MiB", "messages"],
)
def test_zizq_93_garbage_ends_its_own_connection_alone(site: Site, garbage: bytes) -> None:
    with site.watching() as watcher:
        watcher.snapshot()
        with raw(site) as hostile, contextlib.suppress(ConnectionError):
            hostile.sendall(garbage)
            hostile.shutdown(socket.SHUT_WR)
            while hostile.recv(65_536):
                pass
        job = site.client.enqueue("q")
        watcher.change("ready", job["id"])


def test_zizq_93_a_thousand_connections_are_refused_beyond_sixteen_and_others_are_served(site: Site) -> None:
    with contextlib.ExitStack() as stack:
        watchers = [stack.enter_context(site.watching()) for _ in range(16)]
        refused = 0
        for _ in range(1_000):
            with socket.create_connection(site.admin_address, TIMEOUT_S) as more:
                more.sendall(HANDSHAKE)
                refused += more.recv(100).startswith(b"HTTP/1.1 503 ")
        assert refused == 1_000
        job = site.client.enqueue("q")
        for watcher in watchers:
            watcher.change("ready", job["id"])
    with site.watching() as watcher:
        watcher.snapshot()


def test_zizq_93_who_reads_nothing_costs_a_bounded_amount_and_is_shown_all_of_it_when_it_reads(
    site: Site,
) -> None:
    site.client.enqueue_many("q", 1_000, type="t" * 500)
    with site.watching() as watcher, raw(site) as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        ask = json.dumps(
            {"type": "subscribe", "list": "ready", "anchor": {"kind": "head"}, "limit": 1_000}
        ).encode()
        frame = b"\x81" + bytes([0x80 | len(ask)]) + b"\0\0\0\0" + ask
        watcher.snapshot()
        # Each snapshot has a third of a megabyte, and the kernel and the server keep less than two for it.
        for _ in range(20):
            silent.sendall(frame)
            job = site.client.enqueue("q", priority=0)
            watcher.change("ready", job["id"])
        size = Path(f"/proc/{site.server.pid}/statm").read_text().split()[1]
        assert int(size) * 4_096 < 400 << 20
        assert site.client.get("/health").status == 200
        silent.settimeout(TIMEOUT_S)
        seen, deadline = b"", time.monotonic() + TIMEOUT_S
        while job["id"].encode() not in seen:  # in the last snapshot, or as a change after it
            assert time.monotonic() < deadline
            seen = seen[-100:] + silent.recv(65_536)


def test_a_server_that_stops_tells_those_who_watch(site: Site) -> None:
    with site.watching() as watcher:
        watcher.snapshot()
        threading.Thread(target=site.server.terminate).start()
        with pytest.raises(ConnectionClosed) as closed:
            watcher.until(lambda message: False)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001


# -- TLS


def test_zizq_93_with_a_certificate_all_of_it_is_over_tls(fresh_server: Start, tmp_path: Path) -> None:
    """Also while a client reads nothing: snapshots of a third of a megabyte wait for it in the same way."""
    pair = {f"admin_{name}": file for name, file in tls.pair(tmp_path / "tls").items()}
    server = fresh_server(no_admin=None, admin_port=0, **pair)
    host, port = server.address_of("admin")
    assert any('"api":"admin"' in line and '"scheme":"https"' in line for line in server.output)
    client = Client(server.address)
    client.enqueue_many("q", 1_000, type="t" * 500)
    with watching((host, port), tls.trusting()) as watcher:
        assert watcher.next()["ready"]["total"] == 1_000
        for _ in range(20):
            watcher.subscribe("ready", {"kind": "head"}, 1_000)
            client.enqueue("q")
        # A look that had begun before the last job came may answer the next subscription; one after it does not.
        watcher.until(lambda message: message.get("server", {}).get("total_ready") == 1_020)
        watcher.subscribe("ready", {"kind": "head"}, 1_000)
        found = watcher.until(lambda message: message.get("ready", {}).get("total") == 1_020)
        assert found[-1]["event"] == "job_snapshot"
    client.close()
    url, ca = f"https://{host}:{port}", tls.path("root.pem")
    assert json.loads(run("top", "--json", "--url", url, "--ca", ca).stdout)["server"]["total_ready"] == 1_020
    assert run("compact", "--url", url, "--ca", ca).returncode == 0
    untrusted = run("top", "--json", "--url", url)
    assert untrusted.returncode == 3
    assert "no secure connection" in untrusted.stderr
    with socket.create_connection((host, port), TIMEOUT_S) as plain:
        plain.sendall(HANDSHAKE)
        assert not plain.recv(1_000).startswith(b"HTTP/1.1 101")


def test_who_has_no_certificate_cannot_watch_where_one_is_asked_for(
    fresh_server: Start, tmp_path: Path
) -> None:
    pair = {f"admin_{name}": file for name, file in tls.pair(tmp_path / "tls").items()}
    server = fresh_server(no_admin=None, admin_port=0, admin_tls_client_ca=tls.path("root.pem"), **pair)
    address = server.address_of("admin")
    with watching(address, tls.trusting(certified=True)) as watcher:
        assert watcher.next()["event"] == "job_snapshot"
    with pytest.raises((OSError, WebSocketException)), watching(address, tls.trusting()):
        pass


# -- backups and compaction


def test_zizq_94_a_backup_is_a_gzip_that_restore_takes_into_an_empty_directory_only(
    site: Site, tmp_path: Path
) -> None:
    jobs = [site.client.enqueue("q", payload=n) for n in range(20)]
    answer = site.admin.request("POST", "/backup")
    assert (answer.status, answer.content_type) == (200, "application/gzip")
    assert answer.header("content-disposition") == 'attachment; filename="backup.tar.gz"'
    assert answer.header("transfer-encoding") == "chunked"
    file = tmp_path / "backup.tar.gz"
    file.write_bytes(answer.body)
    assert gzip.decompress(answer.body)
    with tarfile.open(file) as tar:
        assert all(name.startswith("zizq-root/data/") for name in tar.getnames())
    full = tmp_path / "full"
    full.mkdir()
    (full / "something").touch()
    refused = run("restore", str(file), "--root-dir", str(full))
    assert refused.returncode == 5
    assert "is not empty" in refused.stderr
    restored = run("restore", str(file), "--root-dir", str(tmp_path / "other"), "--json")
    assert (restored.returncode, json.loads(restored.stdout)["jobs"]) == (0, 20)
    server = ServerProcess(tmp_path / "other")
    try:
        client = Client(server.address)
        assert [client.get(f"/jobs/{job['id']}").data["payload"] for job in jobs] == list(range(20))
        client.close()
    finally:
        server.close()


def test_zizq_94_compaction_is_answered_with_204(site: Site) -> None:
    answer = site.admin.request("POST", "/compact")
    assert (answer.status, answer.body, answer.content_type) == (204, b"", None)


def test_a_backup_goes_on_beside_work_and_ends_with_its_client(site: Site) -> None:
    for _ in range(20):
        site.client.enqueue_many("q", 1_000, payload="x" * 1_000)
    with socket.create_connection(site.admin_address, TIMEOUT_S) as impatient:
        impatient.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        impatient.sendall(b"POST /backup HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        assert impatient.recv(12) == b"HTTP/1.1 200"
        assert site.admin.request("POST", "/backup").status == 503
        assert site.client.enqueue("q")["status"] == "ready"
    names = {path.name for path in site.server.root_dir.iterdir()}
    assert not [name for name in names if "unsent" in name]
    while site.admin.request("POST", "/backup").status == 503:
        pass  # until it is noticed that its client has gone
