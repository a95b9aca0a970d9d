"""Greeting, HELLO, lines: checklist 1 to 20."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.server import ServerProcess
from tests.faktory_wire import Closed, FaktoryWire, password_hash
from tests.fwp_clients.servers import url_of

from .conftest import Open
from .jobs import compact, fetch, job, push

PASSWORD = "anew-secret"


@pytest.fixture(scope="module")
def locked_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that asks for a password, which is not in this URL."""
    place: Path = tmp_path_factory.mktemp("locked") / "data"
    server = ServerProcess(place, fwp_port=0, fwp_password=PASSWORD)
    yield url_of(*server.address_of("fwp"), None)
    server.close()
    assert not server.new_complaints()


def hello(url: str, rounds: int | None, **fields: Any) -> str:
    """Say HELLO with a hash of so many rounds, None for as many as the greeting asks; gives the answer."""
    with FaktoryWire(url) as wire:
        digest = password_hash(PASSWORD, wire.hi["s"], wire.hi["i"] if rounds is None else rounds)
        return wire.say(f"HELLO {compact(fields | {'pwdhash': digest})}")


def closes_without_a_word(url: str, first: str) -> bool:
    with FaktoryWire(url) as wire:
        wire.send(first)
        with pytest.raises(Closed):
            wire.read()
    return True


def test_fwp_01_the_greeting(url: str) -> None:
    with FaktoryWire(url) as wire:
        assert wire.greeting == '+HI {"v":2}'


def test_fwp_02_the_greeting_with_a_password(locked_url: str) -> None:
    with FaktoryWire(locked_url) as one, FaktoryWire(locked_url) as other:
        for wire in (one, other):
            found = re.fullmatch(r'\+HI \{"v":2,"i":(\d+),"s":"([0-9a-f]{1,16})"\}', wire.greeting)
            assert found
            assert 4000 <= int(found[1]) <= 8095
        assert one.hi["s"] != other.hi["s"]


def test_fwp_03_hello_with_lf_only(url: str) -> None:
    with FaktoryWire(url) as wire:
        wire.send('HELLO {"v":2}', end=b"\n")
        assert wire.read() == "+OK"
        wire.send("FETCH", end=b"\n")
        assert wire.read() == "-ERR must call fetch with at least one queue"


@pytest.mark.parametrize("first", ["", "HELLO", "HELLO{}", "HELLO  {}", "hello {}", "INFO", "GET / HTTP/1.1"])
def test_fwp_04_another_first_line_closes(url: str, first: str) -> None:
    assert closes_without_a_word(url, first)


@pytest.mark.parametrize("text", ["{", "{]", '{"pid":"x"}', '{"v":"2"}', '{"labels":"a"}', '{"v":256}'])
def test_fwp_05_a_hello_that_cannot_be_read_closes(url: str, text: str) -> None:
    assert closes_without_a_word(url, f"HELLO {text}")


def test_fwp_06_who_says_no_hello_is_closed_after_two_seconds(url: str) -> None:
    began = time.monotonic()
    with FaktoryWire(url) as silent, FaktoryWire(url) as halfway:
        halfway.send('HELLO {"v":2', end=b"")
        for wire in (silent, halfway):
            with pytest.raises(Closed):
                wire.read()
        assert time.monotonic() - began > 1.5


def test_fwp_07_the_vectors_of_the_hash() -> None:
    """The wire of these tests computes what the protocol's text says, so that the server is asked for that."""
    salt = "2a1b3c4d5e6f7081"
    many = "96e57565a5ea55ecc1894a6ff967acbeedb2d7b6f542ab00d76c063a3cc7307d"
    once = "13d8e0e6001827acfe6bd28d94d6666c925b1c17bf5c10a4e01a8da69e75c98d"
    assert (password_hash(PASSWORD, salt, 4321), password_hash(PASSWORD, salt, 1)) == (many, once)


def test_fwp_08_the_iterated_hash_opens(locked_url: str) -> None:
    assert hello(locked_url, None, v=2) == "+OK"


def test_fwp_09_one_round_is_for_old_clients_alone(locked_url: str) -> None:
    assert hello(locked_url, 1) == "+OK"
    assert hello(locked_url, 1, v=1) == "+OK"
    assert hello(locked_url, 1, v=2) == "-ERR Invalid password"


@pytest.mark.parametrize("fields", ['{"v":2,"pwdhash":"00"}', '{"v":2}', '{"v":2,"pwdhash":null}', "{}"])
def test_fwp_10_a_wrong_password_is_said_and_closes(locked_url: str, fields: str) -> None:
    with FaktoryWire(locked_url) as wire:
        assert wire.say(f"HELLO {fields}") == "-ERR Invalid password"
        with pytest.raises(Closed):
            wire.read()


def test_a_push_that_cannot_be_read_is_logged_with_where_it_came_from(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", fwp_port=0)
    with FaktoryWire.open(url_of(*server.address_of("fwp"), None)) as wire:
        answer = wire.say('PUSH {"jid":')
    record = server.await_record("a PUSH was refused: it cannot be read")
    assert (record["peer"], record["reason"]) == ("127.0.0.1", answer.removeprefix("-ERR "))
    server.close()


def test_a_wrong_password_is_logged_with_where_it_came_from(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", fwp_port=0, fwp_password=PASSWORD)
    with FaktoryWire(url_of(*server.address_of("fwp"), None)) as wire:
        assert wire.say('HELLO {"v":2,"pwdhash":"5ecret"}') == "-ERR Invalid password"
    record = server.await_record("a client has brought a wrong password, or none")
    assert (record["peer"], record["since_the_last_line"]) == ("127.0.0.1", 1)
    assert "5ecret" not in "".join(server.output)
    server.close()


def test_fwp_11_an_open_server_looks_at_no_hash(connect: Open) -> None:
    assert connect(pwdhash="00").say("FETCH") == "-ERR must call fetch with at least one queue"


def test_fwp_12_nulls_and_unknown_members_of_hello(connect: Open) -> None:
    wire = connect(wid=None, pwdhash=None, username=None, labels=None, strange={"a": [1]})
    assert wire.say("FETCH") == "-ERR must call fetch with at least one queue"


@pytest.mark.parametrize(
    ("line", "verb"), [("push {}", "push"), ("", ""), (" PUSH {}", ""), ("PING", "PING"), ("é x", "é")]
)
def test_fwp_13_unknown_verbs(wire: FaktoryWire, line: str, verb: str) -> None:
    wire.expect(line, f"-ERR unknown command {verb}")


def test_fwp_14_hello_again(wire: FaktoryWire) -> None:
    wire.expect('HELLO {"v":2}', "-ERR unknown command HELLO")


def test_fwp_15_ten_commands_in_one_packet(wire: FaktoryWire, queue: str) -> None:
    pushes = [f"PUSH {compact(job(queue, number))}" for number in range(5)]
    wire.send("\r\n".join([*pushes, *[f"FETCH {queue}"] * 5]))
    assert [wire.read() for _ in range(5)] == ["+OK"] * 5
    assert [json.loads(wire.read()[1:])["args"] for _ in range(5)] == [[0], [1], [2], [3], [4]]


def test_fwp_16_a_line_of_ten_megabytes(wire: FaktoryWire, queue: str) -> None:
    jobs = [job(queue, number, args=["x" * 10_000]) for number in range(1_000)]
    wire.expect(f"PUSHB {compact(jobs)}", "${}")
    assert fetch(wire, queue)["args"] == ["x" * 10_000]


def test_fwp_17_end_closes_without_a_reply(wire: FaktoryWire) -> None:
    began = time.monotonic()
    wire.send("END")
    with pytest.raises(Closed):
        wire.read()
    assert time.monotonic() - began < 10  # at once, and not when the connection has idled for too long


def test_fwp_18_above_the_limit_of_connections(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", fwp_port=0, max_connections=3)
    try:
        to = url_of(*server.address_of("fwp"), None)
        held = [FaktoryWire.open(to, wid=f"worker-{n}") for n in range(3)]
        with FaktoryWire(to) as late:
            assert late.say('HELLO {"v":2}') == "+OK"
            assert late.read() == "-ERR too many connections: 3"
            with pytest.raises(Closed):
                late.read()
        held[0].expect("FETCH", "-ERR must call fetch with at least one queue")
        for wire in held:
            wire.close()
    finally:
        server.close()
    (complaint,) = server.new_complaints()
    assert "as many as --max-connections allows; a new one gets an error after its HELLO" in complaint


@pytest.mark.parametrize("verb", ["ACK", "PUSH", "PUSHB", "FAIL", "BEAT", "QUEUE", "QUEUE PAUSE"])
def test_fwp_19_a_verb_without_its_argument(wire: FaktoryWire, verb: str) -> None:
    wire.expect(verb, "-ERR internal error")
    wire.expect("FETCH", "-ERR must call fetch with at least one queue")


BARE = {"PUSH", "PUSHB", "FETCH", "ACK", "FAIL", "BEAT", "QUEUE", "MUTATE", "TRACK", "BATCH", "HELLO"}


@pytest.mark.parametrize("end", ["", " "])
def test_reliability_44_every_bare_verb_that_needs_something_is_refused_and_others_notice_nothing(
    url: str, queue: str, end: str
) -> None:
    with FaktoryWire.open(url) as other:
        push(other, queue, args=[1])
        for verb in BARE - ({"FETCH"} if end else set()):  # which then names a queue without a name
            with FaktoryWire.open(url) as bare:
                assert bare.say(verb + end).startswith("-ERR"), verb
                bare.expect("FETCH", "-ERR must call fetch with at least one queue")
        assert fetch(other, queue)["args"] == [1]


def test_fwp_20_a_bulks_length_is_in_bytes(wire: FaktoryWire, queue: str) -> None:
    args = ["zwölf €", "𝄞", "日本"]
    push(wire, queue, args=args)
    assert fetch(wire, queue)["args"] == args
    wire.expect("FETCH", "-ERR must call fetch with at least one queue")


@pytest.mark.parametrize("end", [b"", b"\r\n"], ids=["half", "whole"])
def test_a_long_hello_is_refused_before_it_is_kept(locked_url: str, end: bytes) -> None:
    """Whoever has no password yet takes up no memory: of 64 MiB that a line may have, only 64 KiB are for a HELLO."""
    with FaktoryWire(locked_url) as wire:
        wire.send(b'HELLO {"v":2,"wid":"' + b"w" * (65 << 10) + b'"}', end=end)
        assert wire.read() == "-ERR line too long"
        with pytest.raises(Closed):
            wire.read()


def test_a_long_line_may_come_with_the_hello(url: str, queue: str) -> None:
    """The bound is the HELLO's alone."""
    pushed = compact(job(queue, args=["x" * (100 << 10)]))
    with FaktoryWire(url) as wire:
        wire.send(b'HELLO {"v":2}\r\n' + f"PUSH {pushed}".encode())
        assert [wire.read(), wire.read()] == ["+OK", "+OK"]
