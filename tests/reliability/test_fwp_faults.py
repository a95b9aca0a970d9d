"""The Faktory Work Protocol when things go wrong: kills within a bulk, a full disk, a taken directory or port, rude peers."""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from tests.faktory_wire import FaktoryWire
from tests.waiting import until

from .server import Server, server_command
from .test_connections import many_descriptors as many_descriptors
from .test_data_directory import Ballast, private_disk

pytestmark = pytest.mark.alone

LONG = "x" * 2_000
NO_QUEUE = "-ERR must call fetch with at least one queue"
MIB = 1 << 20


def fwp_server(folder: Path, *flags: str, command: list[str] | None = None) -> Server:
    return Server(folder / "data", "--fwp-port", "0", *flags, command=command)


def opened(server: Server) -> FaktoryWire:
    """A connection that has said HELLO."""
    host, port = server.fwp_address()
    return FaktoryWire.open(f"tcp://{host}:{port}")


def push(number: int, **members: object) -> str:
    job = {"jid": f"job-{number:06d}", "jobtype": "t", "queue": "q", "args": [LONG]} | members
    return f"PUSH {json.dumps(job)}"


@pytest.mark.parametrize("whole", [False, True], ids=["half a line", "a whole line"])
def test_reliability_12_a_kill_within_a_pushb_stores_each_of_its_jobs_once_at_most(
    tmp_path: Path, whole: bool
) -> None:
    """Nobody was answered. Of a line whose end has not come nothing may be there; of a whole one what comes first, without gaps."""
    jobs = [
        {"jid": f"job-{n:06d}", "jobtype": "t", "queue": "q", "args": [n, LONG[:500]]} for n in range(5_000)
    ]
    line = f"PUSHB {json.dumps(jobs)}\r\n".encode()
    for life in range(4):
        with fwp_server(tmp_path / str(life)) as server, opened(server) as other, opened(server) as wire:
            wire.send(line if whole else line[: len(line) // 2], end=b"")
            for _ in range(life):  # in each life the server comes a little further
                other.expect("FETCH", NO_QUEUE)
            server.kill()
            server.start()
            with opened(server) as again:
                length = again.ask("INFO")["faktory"]["queues"].get("q", 0)
            with closing(sqlite3.connect(tmp_path / str(life) / "data" / "anew.db")) as store:
                stored = [jid for (jid,) in store.execute("SELECT jid FROM job ORDER BY id")]
            assert stored == [job["jid"] for job in jobs[:length]]
            assert whole or not stored


@pytest.mark.parametrize("reserve", ["0", "16MiB"], ids=["to the last byte", "to the low mark"])
def test_reliability_08_a_full_disk_refuses_pushes_and_takes_acknowledgements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reserve: str
) -> None:
    """Checklist 8 of the reliability programme, through this protocol; service comes back with the space, without a restart."""
    command = private_disk()
    monkeypatch.setenv("DISK", str(tmp_path))
    with fwp_server(tmp_path, "--min-free-disk", reserve, command=command) as server:
        ballast = Ballast(server, tmp_path)
        with opened(server) as wire:
            for number in range(300):
                wire.expect(push(number, queue="held", retry=0))
            callback = {"jobtype": "done", "args": [], "queue": "callbacks"}
            bid = wire.say(f"BATCH NEW {json.dumps({'success': callback})}")[1:]
            wire.expect(push(500, queue="held", custom={"bid": bid}))
            wire.expect(f"BATCH COMMIT {bid}")
            jids = [wire.ask("FETCH held")["jid"] for _ in range(301)]
            ballast.fill(leave=0 if reserve == "0" else 8 << 20)
            stored = 0
            while (said := wire.say(push(1_000 + stored))) == "+OK":
                stored += 1
            assert said.startswith("-ERR ")
            assert "space" in said
            bulk = json.dumps([json.loads(push(9_000 + n)[5:]) for n in range(1_000)])
            assert wire.say(f"PUSHB {bulk}") == "-ERR no space for new jobs; settling goes on"
            no_batch = "-ERR no space for new batches; settling goes on"
            wire.expect(f"BATCH NEW {json.dumps({'success': callback})}", no_batch)
            wire.expect(f"ACK {json.dumps({'jid': 'job-000500'})}")
            assert wire.ask(f"BATCH STATUS {bid}")["success_st"] == "1"
            assert wire.ask("FETCH callbacks")["custom"]["_bid"] == bid
            for jid in jids[:200]:
                wire.expect(f"ACK {json.dumps({'jid': jid})}")
            for jid in jids[200:300]:
                wire.expect(f"FAIL {json.dumps({'jid': jid, 'errtype': 'E', 'message': 'm'})}")
            assert wire.ask("FETCH q")["jid"] == "job-001000"
            ballast.drop()
            until(lambda: wire.say(push(5_000)) == "+OK", within_s=30, what="jobs are taken again")
            assert wire.ask("INFO")["faktory"]["queues"]["q"] == stored


def test_reliability_11_a_second_server_on_one_directory_is_refused_whatever_its_ports(
    tmp_path: Path,
) -> None:
    with fwp_server(tmp_path) as first, opened(first) as wire:
        said = refused(tmp_path, "--fwp-port", "0")
        assert str(tmp_path / "data") in said
        assert "Traceback" not in said
        wire.expect(push(1))


def test_a_port_of_the_protocol_in_use_is_told_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(tmp_path, "--fwp-port", str(port))
    assert f"--fwp-port {port}" in said
    assert "--fwp-port 0" in said
    assert "Traceback" not in said


def refused(folder: Path, *flags: str) -> str:
    """What a server says that does not start."""
    flags = ("--root-dir", str(folder / "data"), "--port", "0", "--no-admin", *flags)
    ended = subprocess.run([*server_command(), "serve", *flags], capture_output=True, text=True, timeout=20)
    assert ended.returncode not in (0, -9)
    return ended.stdout + ended.stderr


def test_reliability_42_a_line_without_an_end_costs_what_a_line_may_have(tmp_path: Path) -> None:
    """100 MiB where 64 are taken, four times one after another: each gives back what it had."""
    with fwp_server(tmp_path) as server, opened(server) as wire:
        before = server.rss_bytes()
        for _ in range(4):
            with opened(server) as endless, suppress(BrokenPipeError, ConnectionResetError):
                for _ in range(25):
                    endless.send(b"x" * (4 * MIB), end=b"")
                    wire.expect("FETCH", NO_QUEUE)
        assert server.peak_bytes() - before < 1.1 * 64 * MIB
        assert server.rss_bytes() - before < 16 * MIB


def test_reliability_42_very_many_long_lines_at_once_are_bounded_together(tmp_path: Path) -> None:
    """Each keeps within its own limit, 4 MiB; together they may have sixteen times that, and no more."""
    with (
        fwp_server(tmp_path, "--fwp-max-line", "4MiB", "--max-body", "4MiB") as server,
        opened(server) as wire,
    ):
        before = server.rss_bytes()
        with ExitStack() as stack:
            half_done = [stack.enter_context(opened(server)) for _ in range(40)]
            for each in half_done:
                with suppress(BrokenPipeError, ConnectionResetError):
                    each.send(b"x" * (3 * MIB), end=b"")
            wire.expect("FETCH", NO_QUEUE)
            assert server.rss_bytes() - before < 1.1 * 16 * 4 * MIB
            wire.expect(push(1))


def test_reliability_47_one_who_sends_and_never_reads_costs_little_and_holds_up_nobody(
    tmp_path: Path,
) -> None:
    with fwp_server(tmp_path) as server, opened(server) as wire, opened(server) as deaf:
        before = server.rss_bytes()
        line = b"nonsense" + b"x" * 8_000  # which the answer repeats
        sent = 0
        with suppress(TimeoutError):
            deaf.set_timeout(0.5)
            while sent < 200 * MIB:
                deaf.send(b"\n".join([line] * 100), end=b"\n")
                sent += 100 * len(line)
                wire.expect(push(sent))
                wire.expect("FETCH", NO_QUEUE)
        assert sent < 100 * MIB, "the server takes in what it cannot answer"
        assert server.peak_bytes() - before < 16 * MIB
        wire.expect(push(1))


def test_5000_idle_connections_and_1000_waiting_fetches_cost_little(
    tmp_path: Path, many_descriptors: int
) -> None:
    """Memory of the first and processor time of the second; `python -m bench.fwp_idle` measures both."""
    idle, waiting = min(5_000, many_descriptors // 2 - 1_500), 1_000
    with fwp_server(tmp_path) as server, ExitStack() as stack:
        before = server.rss_bytes()
        for _ in range(idle):
            stack.enter_context(opened(server))
        assert (server.rss_bytes() - before) / idle < 10_000
        fetching = [stack.enter_context(opened(server)) for _ in range(waiting)]
        used_s = server.cpu_s()
        for wire in fetching:
            wire.send("FETCH nothing")
        for wire in fetching:
            assert wire.read() == "$-1"
        assert (server.cpu_s() - used_s) / waiting < 0.001
