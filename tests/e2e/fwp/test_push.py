"""PUSH and PUSHB: checklist 22 to 37."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.server import ServerProcess
from tests.faktory_wire import FaktoryWire
from tests.fwp_clients.servers import url_of

from .conftest import Open
from .jobs import LATER, PAST, compact, fetch, instant, job, length, mutate, push, sets

NO_JID = "-ERR jobs must have a reasonable jid parameter"
NO_TYPE = "-ERR jobs must have a jobtype parameter"
NO_ARGS = "-ERR jobs must have an args parameter"
PATTERN = r"queue names must match \A[a-zA-Z0-9._-]+\z"


def refused(wire: FaktoryWire, one: Any) -> str:
    return wire.say(f"PUSH {one if isinstance(one, str) else compact(one)}")


def test_fwp_22_the_least_that_a_job_says(empty: FaktoryWire) -> None:
    empty.expect('PUSH {"jid":"minimal-1","jobtype":"kind","args":[]}')
    got = fetch(empty, "default")
    times = got.pop("created_at"), got.pop("enqueued_at")
    assert got == {"retry": 25, "jid": "minimal-1", "queue": "default", "jobtype": "kind", "args": []}
    assert instant(times[0]) <= instant(times[1])


@pytest.mark.parametrize("jid", ["1234567", "", None, ...])
def test_fwp_23_a_jid_has_eight_bytes(wire: FaktoryWire, queue: str, jid: object) -> None:
    assert refused(wire, job(queue, jid=jid)) == NO_JID
    assert refused(wire, "null") == NO_JID


def test_fwp_23_eight_bytes_may_be_fewer_characters(wire: FaktoryWire, queue: str) -> None:
    push(wire, queue, jid="ääää")
    assert fetch(wire, queue)["jid"] == "ääää"


def test_fwp_24_type_and_arguments(wire: FaktoryWire, queue: str) -> None:
    assert [refused(wire, job(queue, jobtype=kind)) for kind in (..., "", None)] == [NO_TYPE] * 3
    assert [refused(wire, job(queue, args=args)) for args in (..., None)] == [NO_ARGS] * 2
    push(wire, queue, args=[])
    assert fetch(wire, queue)["args"] == []


def test_fwp_25_how_long_a_reservation_may_be(wire: FaktoryWire, queue: str) -> None:
    text = "-ERR jobs cannot be reserved for more than one day"
    assert refused(wire, job(queue, reserve_for=86_401)) == text
    for seconds in (1, 59, -5, 86_400):
        push(wire, queue, reserve_for=seconds)
        assert fetch(wire, queue)["reserve_for"] == seconds


@pytest.mark.parametrize("name", ["a b", "c&c", "a/b", "é", "a\tb", 'a"b'])
def test_fwp_26_names_of_queues_that_are_refused(wire: FaktoryWire, queue: str, name: str) -> None:
    shown = name.replace("\t", "\\t").replace('"', '\\"')
    assert refused(wire, job(queue, queue=name)) == f'-ERR cannot get "{shown}" queue: {PATTERN}'
    assert refused(wire, job(queue, queue=name, at=LATER)) == f'-ERR cannot get "{shown}" queue: {PATTERN}'


def test_fwp_26_names_of_queues_that_are_taken(wire: FaktoryWire, queue: str) -> None:
    name = f"{queue}_A.b-9"
    push(wire, queue, queue=name)
    assert fetch(wire, name)["queue"] == name


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "5",
        '"x"',
        '{"jid":123}',
        '{"args":{}}',
        '{"retry":2.5}',
        '{"retry":"3"}',
        '{"reserve_for":60.0}',
        '{"args":[NaN]}',
        '{"args":[1e400]}',
        "{} x",
    ],
)
def test_fwp_27_what_is_no_job(wire: FaktoryWire, text: str) -> None:
    assert refused(wire, text).startswith("-ERR invalid JSON: ")


def test_fwp_28_unknown_members_are_dropped(wire: FaktoryWire, queue: str) -> None:
    push(wire, queue, priority=9, blargh={"a": 1})
    assert not {"priority", "blargh"} & fetch(wire, queue).keys()


def test_fwp_29_data_comes_back_unchanged(wire: FaktoryWire, queue: str) -> None:
    args = [1, "zwölf €", {"deep": [None, True, 2.5]}, 9007199254740993, 123456789012345678901234567890]
    custom = {"locale": "de", "n": 9007199254740993, "a": {"b": ["ü"]}}
    push(wire, queue, args=args, custom=custom, backtrace=20)
    got = fetch(wire, queue)
    assert (got["args"], got["custom"], got["backtrace"]) == (args, custom, 20)


def test_fwp_30_a_job_for_later(empty: FaktoryWire, queue: str) -> None:
    jid = push(empty, queue, at=LATER)
    assert sets(empty)[0] == 1
    assert not length(empty, queue)
    mutate(empty, "requeue", "scheduled", jids=[jid])
    assert fetch(empty, queue)["at"] == LATER


def test_fwp_31_a_time_that_has_passed_is_now(empty: FaktoryWire, queue: str) -> None:
    push(empty, queue, at=PAST)
    assert sets(empty)[0] == 0
    assert fetch(empty, queue)["at"] == PAST


@pytest.mark.parametrize("at", ["2001-02-03T04:05:06.123456789+00:00", "2001-02-03T04:05:06-12:00"])
def test_fwp_32_timestamps_that_are_taken(wire: FaktoryWire, queue: str, at: str) -> None:
    push(wire, queue, at=at)
    assert fetch(wire, queue)["at"] == at


@pytest.mark.parametrize(
    "at", ["2099-01-02T03:04:05", "2099-01-02T03:04:05+0100", "2099-01-02 03:04:05Z", "2099-01-02", "soon"]
)
def test_fwp_32_timestamps_that_are_refused(wire: FaktoryWire, queue: str, at: str) -> None:
    assert refused(wire, job(queue, at=at)).startswith(f"-ERR invalid timestamp for 'at': \"{at}\": ")


def test_fwp_33_one_jid_twice_is_two_jobs(wire: FaktoryWire, queue: str) -> None:
    push(wire, queue, args=["first"])
    push(wire, queue, args=["second"])
    assert length(wire, queue) == 2
    assert [fetch(wire, queue)["args"] for _ in range(2)] == [["first"], ["second"]]


def test_fwp_33_with_the_switch_one_jid_twice_is_one_job_after_a_restart_too(
    tmp_path: Path, connect: Open
) -> None:
    def start() -> tuple[ServerProcess, FaktoryWire]:
        server = ServerProcess(tmp_path, fwp_port=0, fwp_idempotent_push=True)
        return server, connect(to=url_of(*server.address_of("fwp"), None))

    def again(server: ServerProcess) -> tuple[ServerProcess, FaktoryWire]:
        server.kill()
        server.close()
        return start()

    server, wire = start()
    same = compact(job("mail"))
    wire.send("\n".join([*[f"PUSH {same}"] * 3, f"PUSHB [{same},{same},{compact(job('mail', 2))}]"]))
    assert [wire.read() for _ in range(4)] == ["+OK", "+OK", "+OK", "${}"]
    assert length(wire, "mail") == 2
    server, wire = again(server)
    wire.expect(f"PUSH {same}")
    assert length(wire, "mail") == 2
    assert fetch(wire, "mail")["jid"] == "mail-job-1"
    wire.expect(f"PUSH {same}")
    assert length(wire, "mail") == 1
    wire.expect('ACK {"jid":"mail-job-1"}')
    server, wire = again(server)
    wire.expect(f"PUSH {same}")
    assert length(wire, "mail") == 1
    server.close()
    assert not server.new_complaints()


def test_fwp_34_a_bulk_keeps_its_order(wire: FaktoryWire, queue: str) -> None:
    wire.expect(f"PUSHB {compact([job(queue, n) for n in range(5)])}", "${}")
    assert [fetch(wire, queue)["args"] for _ in range(5)] == [[n] for n in range(5)]


def test_fwp_34_a_long_bulk_keeps_its_order_and_that_of_its_connections_replies(
    empty: FaktoryWire, queue: str
) -> None:
    jobs = [job(queue, n, custom={"pad": "x" * 200}) for n in range(3_000)]
    after = compact(job(queue, jid="the-one-after-it"))
    empty.send(f"PUSHB {compact(jobs)}\nPUSHB {compact([*jobs, 5])}\nPUSH {after}\nnonsense")
    assert empty.read() == "${}"
    assert empty.read().startswith("-ERR invalid JSON: ")
    assert [empty.read(), empty.read()] == ["+OK", "-ERR unknown command nonsense"]
    assert [fetch(empty, queue)["args"] for _ in range(3_000)] == [[n] for n in range(3_000)]
    assert fetch(empty, queue)["jid"] == "the-one-after-it"
    assert length(empty, queue) == 0


def test_fwp_35_a_bulk_names_those_that_fail(wire: FaktoryWire, queue: str) -> None:
    jobs = [
        job(queue, 1),
        job(queue, 2, queue="no/queue"),
        job(queue, 3, args=None),
        job(queue, 4, jid=""),
        None,
        job(queue, 5),
    ]
    assert wire.ask(f"PUSHB {compact(jobs)}") == {
        "": NO_JID.removeprefix("-ERR "),
        f"{queue}-job-2": f'cannot get "no/queue" queue: {PATTERN}',
        f"{queue}-job-3": NO_ARGS.removeprefix("-ERR "),
    }
    assert [fetch(wire, queue)["args"] for _ in range(2)] == [[1], [5]]


def test_fwp_36_a_bulk_of_the_wrong_form_stores_nothing(wire: FaktoryWire, queue: str) -> None:
    assert wire.say(f"PUSHB {compact(job(queue))}").startswith("-ERR invalid JSON: ")
    assert wire.say(f"PUSHB {compact([job(queue), 'x'])}").startswith("-ERR invalid JSON: ")
    assert length(wire, queue) is None


def test_fwp_37_an_empty_bulk(wire: FaktoryWire) -> None:
    wire.expect("PUSHB []", "${}")
    wire.expect("PUSHB null", "${}")
