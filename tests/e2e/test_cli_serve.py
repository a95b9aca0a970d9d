"""The command line of ``serve``: readiness line, durations, refused options."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .client import Client
from .server import ServerProcess, run
from .stream import HEARTBEAT

DAY_MS = 86_400_000


def test_zizq_95_the_readiness_line(fresh_server: Callable[..., ServerProcess]) -> None:
    """Client test harnesses read stdout for it; ``fresh_server`` waited for this very record."""
    record = fresh_server().listening
    assert record["level"] == "INFO"
    assert {"timestamp", "target"} <= record.keys()
    fields = record["fields"]
    assert (fields["message"], fields["api"], fields["scheme"]) == ("listening", "primary", "http")
    host, _, port = fields["addr"].partition(":")
    assert host == "127.0.0.1"
    assert 0 < int(port) < 65536


def test_zizq_95_port_0_gives_each_server_its_own(fresh_server: Callable[..., ServerProcess]) -> None:
    assert len({fresh_server().address for _ in range(2)}) == 2


def test_zizq_95_a_port_of_ones_own(
    fresh_server: Callable[..., ServerProcess], fresh: Callable[..., Client]
) -> None:
    first = fresh_server()
    first.kill()
    second = fresh_server(port=first.address[1])
    assert second.address == first.address
    assert fresh(second).get("/health").status == 200


def test_zizq_95_a_taken_port_is_an_error(fresh_server: Callable[..., ServerProcess], tmp_path: Path) -> None:
    port = fresh_server().address[1]
    ended = run("serve", "--root-dir", str(tmp_path / "other"), "--port", str(port), "--no-admin")
    assert ended.returncode == 1
    assert "Error: " in ended.stderr


def test_zizq_96_a_bare_number_is_milliseconds(fresh: Callable[..., Client]) -> None:
    client = fresh(heartbeat_interval="500")
    start = time.monotonic()
    with client.take("q") as stream:
        assert stream.next_message() is HEARTBEAT
    assert time.monotonic() - start > 0.4  # and not after 500 s, for which nobody waits here


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("7d", 7 * DAY_MS), ("90000", 90_000), ("5s", 5_000), ("1h 30m", 5_400_000), ("3w", 21 * DAY_MS)],
)
def test_zizq_96_durations(fresh: Callable[..., Client], text: str, expected_ms: int) -> None:
    client = fresh(default_dead_job_retention=text)
    client.enqueue("q")
    dead = client.run_one("q", lambda job_id: client.fail(job_id, kill=True))
    assert dead["purge_at"] - dead["failed_at"] == expected_ms


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ("--tls-cert", "--tls-key"),
        ("--tls-key", "--tls-cert"),
        ("--tls-client-ca", "--tls-cert"),
        ("--admin-tls-cert", "--admin-tls-key"),
    ],
)
def test_zizq_96_half_a_tls_configuration_is_refused(tmp_path: Path, given: str, missing: str) -> None:
    ended = run("serve", "--root-dir", str(tmp_path / "data"), "--port", "0", "--no-admin", given, "file.pem")
    assert ended.returncode != 0
    assert given in ended.stderr
    assert missing in ended.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["--heartbeat-interval", "soon"],
        ["--heartbeat-interval", "-1s"],
        ["--default-dead-job-retention", "5 lightyears"],
        ["--port", "70000"],
        ["--port", "x"],
        ["--host", "not an address"],
        ["--global-in-flight-limit", "-1"],
        ["--no-such-option"],
    ],
)
def test_zizq_96_nonsense_is_refused_by_name(tmp_path: Path, options: list[str]) -> None:
    ended = run("serve", "--root-dir", str(tmp_path / "data"), "--port", "0", "--no-admin", *options)
    assert ended.returncode != 0
    assert options[0] in ended.stderr or options[-1] in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_insecure_bind_is_logged_once_for_each_thing_that_a_door_lacks(tmp_path: Path) -> None:
    server = ServerProcess(
        tmp_path / "data", host="0.0.0.0", fwp_host="0.0.0.0", fwp_port=0, insecure=True, token="s3cret"
    )
    records = [json.loads(line) for line in server.output if "--insecure" in line]
    assert [
        (record["level"], record["fields"]["setting"], record["fields"]["addr"]) for record in records
    ] == [("WARN", "host", "0.0.0.0"), ("WARN", "fwp-host", "0.0.0.0"), ("WARN", "fwp-host", "0.0.0.0")]
    assert ["nothing is encrypted" in record["fields"]["message"] for record in records] == [
        True,
        False,
        True,
    ]
    server.close()


@pytest.mark.parametrize(("also", "said"), [([], "--token"), (["--token", "t"], "anew tls init")])
def test_reliability_51_a_public_bind_without_authentication_and_tls_is_refused(
    tmp_path: Path, also: list[str], said: str
) -> None:
    """A choice of this server; the peer has no authentication and binds anywhere."""
    words = ["serve", "--root-dir", str(tmp_path / "data"), "--port", "0", "--no-admin", "--host", "0.0.0.0"]
    ended = run(*words, *also)
    assert ended.returncode == 5
    assert "--insecure" in ended.stderr
    assert said in ended.stderr


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_the_program_says_what_it_is(word: str) -> None:
    ended = run(word)
    assert ended.returncode == 0
    assert ended.stdout
