"""Reservations over a restart, and workers: checklist 65 to 72. What takes longer is in tests/unit/fwp/test_service.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.client import Client
from tests.e2e.server import ServerProcess
from tests.faktory_wire import FaktoryWire
from tests.fwp_clients.servers import url_of

from .conftest import Open
from .jobs import LATER, ack, fail, failed, fetch, figures, length, push, sets, totals


def workers(wire: FaktoryWire) -> int:
    return int(figures(wire)["tasks"]["Workers"]["size"])


def until(wire: FaktoryWire, expected: int) -> None:
    """Ask until so many workers are counted: that a connection has gone reaches the server after what we ask next."""
    for _ in range(200):
        if workers(wire) == expected:
            return
    assert workers(wire) == expected


@pytest.mark.parametrize("end", [ServerProcess.terminate, ServerProcess.kill], ids=["stopped", "killed"])
def test_fwp_65_reliability_21_all_but_the_workers_survives_a_restart(
    tmp_path: Path, queue: str, end: Callable[[ServerProcess], int]
) -> None:
    server = ServerProcess(tmp_path / "data", fwp_port=0)
    try:
        with FaktoryWire.open(url_of(*server.address_of("fwp"), None), wid="w-1") as wire:
            failed(wire, queue, 1)
            failed(wire, queue, 2, retry=-1)
            push(wire, queue, 3, at=LATER)
            for number in (4, 5, 6):
                push(wire, queue, number)
            running = [fetch(wire, queue)["jid"] for _ in range(2)]
            wire.expect(f"QUEUE PAUSE {queue}")
        end(server)
        server.close()
        server = ServerProcess(tmp_path / "data", fwp_port=0)
        with FaktoryWire.open(url_of(*server.address_of("fwp"), None)) as wire:
            assert (sets(wire), totals(wire), length(wire, queue)) == ((1, 1, 1, 2), (2, 2), 1)
            assert workers(wire) == 0
            ack(wire, running[0])
            fail(wire, running[1])
            assert (sets(wire), totals(wire)) == ((1, 2, 1, 0), (4, 3))
            wire.send(f"FETCH {queue}")
            assert wire.read() == "$-1"
            wire.expect("QUEUE RESUME *")
            assert fetch(wire, queue)["args"] == [6]
    finally:
        server.close()
    assert not server.new_complaints()


def test_fwp_66_a_beat(connect: Open) -> None:
    wire, other = connect(wid="beating-1"), connect()
    for one in (wire, other):
        one.expect('BEAT {"wid":"beating-1","rss_kb":5}')
    wire.expect('BEAT {"wid":"nobody"}', "-ERR unknown worker nobody")
    wire.expect("BEAT {", "-ERR invalid BEAT {")


def test_fwp_67_68_a_state_only_goes_forward(connect: Open) -> None:
    wire = connect(wid="stately-1")
    quiet, over = '${"state":"quiet"}', '${"state":"terminate"}'
    for state, reply in (
        ("running", "+OK"),
        ("", "+OK"),
        ("quiet", quiet),
        ("", quiet),
        ("running", quiet),
        ("terminate", over),
        ("quiet", over),
        ("running", over),
    ):
        wire.expect(f'BEAT {{"wid":"stately-1","current_state":"{state}"}}', reply)
        wire.expect('BEAT {"wid":"stately-1"}', reply)


def test_fwp_69_no_connection_of_a_quiet_worker_gets_a_job(connect: Open, queue: str) -> None:
    """In Faktory only the connection that registered the worker is held back."""
    one, other, producer = connect(wid="quiet-1"), connect(wid="quiet-1"), connect()
    push(producer, queue)
    one.expect('BEAT {"wid":"quiet-1","current_state":"quiet"}', '${"state":"quiet"}')
    for wire in (one, other):
        wire.send(f"FETCH {queue}")
    assert [one.read(), other.read()] == ["$-1", "$-1"]
    assert length(producer, queue) == 1
    push(one, queue, 2)
    assert fetch(producer, queue)["args"] == [1]


def test_a_worker_is_told_from_outside(
    connect: Open, fwp_server: ServerProcess, fresh: Callable[..., Client], queue: str
) -> None:
    """It is listed with what it has said of itself, gets no job once it is quiet, and ends when it is told so: never back."""
    client = fresh(fwp_server)
    wire = connect(wid="told-1", hostname="app-1", pid=71, labels=["ruby", "a"])
    wire.expect('BEAT {"wid":"told-1","rss_kb":512}')
    (shown,) = [worker for worker in client.get("/v1/workers").data["workers"] if worker["id"] == "told-1"]
    assert (shown["door"], shown["state"], shown["connections"]) == ("faktory", "running", 1)
    assert (shown["host"], shown["pid"], shown["labels"], shown["rss_kb"]) == (
        "app-1",
        71,
        ["ruby", "a"],
        512,
    )
    assert client.post("/v1/workers/told-1/quiet").data == {"streams": 1}
    push(wire, queue)
    wire.send(f"FETCH {queue}")
    assert wire.read() == "$-1"
    wire.expect('BEAT {"wid":"told-1"}', '${"state":"quiet"}')
    assert client.post("/v1/workers/told-1/terminate").data == {"workers": 1}
    wire.expect('BEAT {"wid":"told-1","current_state":"quiet"}', '${"state":"terminate"}')
    assert client.post("/v1/workers/told-1/quiet").data == {"streams": 1}
    wire.expect('BEAT {"wid":"told-1"}', '${"state":"terminate"}')
    assert client.post("/v1/workers/nobody/terminate").status == 404


def test_what_a_worker_says_of_itself_is_cut_short(
    connect: Open, fwp_server: ServerProcess, fresh: Callable[..., Client]
) -> None:
    """A list of many workers with 64 KiB each would be as large as all memory."""
    wire = connect(wid="wordy-1", hostname="h" * 1_000, labels=["l" * 1_000] * 30)
    (shown,) = [w for w in fresh(fwp_server).get("/v1/workers").data["workers"] if w["id"] == "wordy-1"]
    assert shown["host"] == "h" * 200
    assert shown["labels"] == ["l" * 200] * 20
    wire.close()


def test_fwp_71_72_workers_are_counted_by_their_ids(connect: Open, queue: str) -> None:
    producer = connect()
    before = workers(producer)
    one, other = connect(wid="counted-1"), connect(wid="counted-1")
    assert workers(producer) == before + 1
    jid = push(one, queue)
    fetch(one, queue)
    reserved = sets(producer)[3]
    one.close()
    other.expect('BEAT {"wid":"counted-1"}')
    other.close()
    until(producer, before)
    assert sets(producer)[3] == reserved
    ack(producer, jid)
    assert sets(producer)[3] == reserved - 1
