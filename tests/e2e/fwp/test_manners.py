"""Peers that are slow, rude or mad: limits answer clearly, and others keep their pace."""

from __future__ import annotations

import contextlib
import random
import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.server import ServerProcess
from tests.faktory_wire import BadReply, Closed, FaktoryWire, target
from tests.fwp_clients.servers import url_of
from tests.waiting import until

from .conftest import Open
from .jobs import compact, fetch, job, push, push_many

LIMIT = 8

NO_QUEUE = "-ERR must call fetch with at least one queue"


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with tight limits; gives its URL."""
    place: Path = tmp_path_factory.mktemp("narrow") / "data"
    server = ServerProcess(place, fwp_port=0, fwp_max_line="64KiB", max_connections=LIMIT)
    yield url_of(*server.address_of("fwp"), None)
    server.close()
    assert "Traceback" not in "".join(server.output)  # that the limit is reached is logged as an error


def raw(url: str) -> socket.socket:
    """A socket that has said HELLO and read the answer."""
    found = socket.create_connection(target(url), timeout=15)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    found.sendall(b'HELLO {"v":2}\r\n')
    said = b""
    while not said.endswith(b"+OK\r\n"):
        said += found.recv(4096)
    return found


def test_a_dialogue_is_the_same_wherever_it_is_split(url: str, wire: FaktoryWire, queue: str) -> None:
    text = (
        f"PUSH {compact(job(queue, args=['é€𝄞']))}\r\nQUEUE LATENCY nobody-{queue}\nnonsense\r\n\r\n"
        f"FETCH\nACK {{}}\r\nPUSHB [{{}}]\n"
    ).encode()
    answers = (
        b'+OK\r\n$%d\r\n{"nobody-%s":0}\r\n-ERR unknown command nonsense\r\n-ERR unknown command \r\n'
        b"-ERR must call fetch with at least one queue\r\n-ERR invalid ACK {}\r\n"
        b'$54\r\n{"":"jobs must have a reasonable jid parameter"}\r\n'
    ) % (len(f'{{"nobody-{queue}":0}}'), queue.encode())
    answers = answers.replace(b"$54", b"$%d" % len(b'{"":"jobs must have a reasonable jid parameter"}'))
    peer = raw(url)
    for at in range(1, len(text)):
        peer.sendall(text[:at])
        peer.sendall(text[at:])
        assert _exactly(peer, len(answers)) == answers
    peer.close()
    assert wire.ask("INFO")["faktory"]["queues"][queue] == len(text) - 1


def _exactly(peer: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        chunk = peer.recv(count - len(got))
        assert chunk, f"closed after {got!r}"
        got += chunk
    return got


@pytest.mark.parametrize("seed", range(4))
def test_reliability_43_random_lines_get_one_answer_each(url: str, seed: int) -> None:
    draw = random.Random(seed)
    verbs = ("PUSH", "PUSHB", "ACK", "FAIL", "BEAT", "MUTATE", "QUEUE", "INFO", "TRACK", "BATCH", "x", "")
    for _ in range(5):
        lines = []
        for _ in range(40):
            rest = bytes(draw.choice(b'{}[]",:jidargs0 \x00\xff\xc3\r\\u') for _ in range(draw.randrange(40)))
            lines.append(draw.choice(verbs).encode() + draw.choice((b" ", b"", b'" {"')) + rest)
        with FaktoryWire.open(url) as wire:
            wire.send(b"\n".join(lines), end=b"\n")
            for _ in lines:
                assert wire.read()[:1] in ("+", "-", "$")
            wire.expect("FETCH", NO_QUEUE)


@pytest.mark.parametrize(
    "line",
    [
        b"PUSH \x00",
        b"\x00",
        b"\xff\xfe",
        b"PUSH {\xff",
        b"FETCHx\x00y",
        b'ACK {"jid":"\xc3"}',
        b"\r",
        b"\r\r",
    ],
)
def test_reliability_43_strange_bytes_get_an_answer(wire: FaktoryWire, line: bytes) -> None:
    assert wire.say(line)[:1] in ("+", "-")
    wire.expect("FETCH", NO_QUEUE)


def test_a_line_without_an_end_is_cut_off(url: str, wire: FaktoryWire) -> None:
    """100 MiB, where 64 are taken; others are answered meanwhile."""
    endless = FaktoryWire.open(url)
    block = b"x" * (4 << 20)
    try:
        for _ in range(25):
            endless.send(block, end=b"")
            wire.expect("FETCH", NO_QUEUE)
    except (BrokenPipeError, ConnectionResetError):
        pass
    with endless:
        try:
            said = endless.read()
        except (Closed, BadReply):  # the reset may come before what was said
            said = "-ERR line too long"
    assert said == "-ERR line too long"
    wire.expect("FETCH", NO_QUEUE)


def test_a_long_line_is_refused_by_name(narrow: str) -> None:
    with FaktoryWire.open(narrow) as wire:
        wire.expect("FETCH" + "x" * ((64 << 10) - 5), "-ERR unknown command FETCH" + "x" * ((64 << 10) - 5))
        wire.send("x" * ((64 << 10) + 1))
        assert wire.read() == "-ERR line too long"
        with pytest.raises(Closed):
            wire.read()


def test_what_came_before_a_long_line_is_answered(narrow: str) -> None:
    with FaktoryWire.open(narrow) as wire:
        wire.send("FETCH\r\nnonsense\r\n" + "x" * (65 << 10))
        assert [wire.read() for _ in range(3)] == [
            NO_QUEUE,
            "-ERR unknown command nonsense",
            "-ERR line too long",
        ]


def test_a_slow_writer_holds_up_nobody(url: str, wire: FaktoryWire, queue: str) -> None:
    slow = raw(url)
    line = f"PUSH {compact(job(queue))}\r\n".encode()
    for at in range(len(line)):
        slow.sendall(line[at : at + 1])
        if at % 10 == 0:
            wire.expect("FETCH", NO_QUEUE)
    assert _exactly(slow, 5) == b"+OK\r\n"
    slow.close()


@pytest.mark.parametrize(
    "request_line", ["GET / HTTP/1.1", "POST /jobs HTTP/1.1", "PRI * HTTP/2.0", "\x16\x03\x01\x02"]
)
def test_other_protocols_are_hung_up_on(url: str, request_line: str) -> None:
    with FaktoryWire(url) as wire:
        wire.send(f"{request_line}\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}", end=b"\r\n")
        with pytest.raises(Closed):
            wire.read()


def test_a_peer_that_reads_nothing_holds_up_nobody(url: str, wire: FaktoryWire, queue: str) -> None:
    """It asks for far more than buffers hold; the server stops reading from it, and goes on when it reads again."""
    push_many(wire, queue, 40, args=["x" * 200_000])
    deaf = raw(url)
    count = 20
    deaf.sendall(f"FETCH {queue}\r\n".encode() * count)
    for _ in range(50):
        wire.expect("FETCH", NO_QUEUE)
    push(wire, f"{queue}-other")
    assert fetch(wire, f"{queue}-other")["args"] == [1]
    stream = deaf.makefile("rb")
    for _ in range(count):
        size = int(stream.readline()[1:])
        assert len(stream.read(size + 2)) == size + 2
    stream.close()
    deaf.close()


def test_very_many_lines_ahead_are_all_answered(url: str) -> None:
    """More than the server keeps: it reads on when it has answered some."""
    with FaktoryWire.open(url) as wire:
        for _ in range(5):
            wire.send("\n".join(["FETCH"] * 2_000), end=b"\n")
        assert [wire.read() for _ in range(10_000)] == [NO_QUEUE] * 10_000


def test_a_flood_of_connections_is_turned_away(narrow: str) -> None:
    """Those that are there go on, and there is room again when they leave."""
    held = [FaktoryWire.open(narrow, wid=f"held-{number}") for number in range(LIMIT)]
    said = []
    for _ in range(30):
        with FaktoryWire(narrow) as late:
            said.append(late.say('HELLO {"v":2}'))
            said.append(late.read())
    assert said == ["+OK", f"-ERR too many connections: {LIMIT}"] * 30
    for wire in held:
        wire.expect("FETCH", NO_QUEUE)
        wire.close()
    with FaktoryWire.open(narrow) as wire:
        wire.expect("FETCH", NO_QUEUE)


def test_a_flood_at_one_moment_holds_up_nobody(narrow: str) -> None:
    """More at once than are told why: the rest is just cut. A connection from before goes on working."""
    with FaktoryWire.open(narrow, wid="held") as held:
        flood = [socket.create_connection(target(narrow), timeout=15) for _ in range(200)]
        for peer in flood:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                peer.sendall(b'HELLO {"v":2}\r\n')
        for number in range(20):
            push(held, "flood", number)
            assert fetch(held, "flood")["args"] == [number]
        # Which of them get the room that is left, nobody promises: they come at one moment.
        said = _ends(flood, LIMIT - 1)
        refused = f'+HI {{"v":2}}\r\n+OK\r\n-ERR too many connections: {LIMIT}\r\n'.encode()
        assert refused in said
        assert {answer for answer in said if not refused.startswith(answer)} == set()
        for peer in flood:
            peer.close()


def _to_the_end(peer: socket.socket) -> bytes:
    """Read until the server closes."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := peer.recv(4096):
            got += chunk
    return got


def _ends(peers: list[socket.socket], still_open: int) -> list[bytes]:
    """Read until the server has closed all but so many; give what it said to those that it has closed."""
    answers = dict.fromkeys(peers, b"")
    left = set(peers)
    while len(left) > still_open:
        ready, _, _ = select.select(list(left), [], [], 15)
        assert ready, f"{len(left)} connections are still open"
        for peer in ready:
            chunk = b""
            with contextlib.suppress(ConnectionResetError):
                chunk = peer.recv(4096)
            answers[peer] += chunk
            if not chunk:
                left.discard(peer)
    return [answer for peer, answer in answers.items() if peer not in left]


def test_one_who_sends_no_more_is_answered_all_that_it_has_sent(
    url: str, wire: FaktoryWire, queue: str
) -> None:
    """As one that is fed from a file is. Nothing is fetched for it, since nobody may be there."""
    peer = raw(url)
    pushes = [f"PUSH {compact(job(queue, number))}\r\n" for number in range(20)]
    peer.sendall("".join([*pushes, "nonsense\r\n", f"FETCH {queue}\r\n", "nonsense\r\n", "PUSH"]).encode())
    peer.shutdown(socket.SHUT_WR)
    unknown = b"-ERR unknown command nonsense\r\n"
    assert _to_the_end(peer) == b"+OK\r\n" * 20 + unknown + b"$-1\r\n" + unknown
    peer.close()
    assert wire.ask("INFO")["faktory"]["queues"][queue] == 20


def test_one_who_sends_no_more_while_it_waits_gets_nothing(url: str, wire: FaktoryWire, queue: str) -> None:
    peer = raw(url)
    peer.sendall(f"nonsense\r\nFETCH {queue}\r\n".encode())
    assert _exactly(peer, 31) == b"-ERR unknown command nonsense\r\n"
    peer.shutdown(socket.SHUT_WR)
    assert _to_the_end(peer) == b"$-1\r\n"
    peer.close()
    push(wire, queue)
    assert fetch(wire, queue)["args"] == [1]


@pytest.mark.parametrize("waits", [False, True])
def test_what_was_sent_behind_a_fetch_is_done_though_no_more_will_come(
    url: str, wire: FaktoryWire, queue: str, waits: bool
) -> None:
    """Faktory 1.10 answers ``$-1``, ``+OK``, ``+OK`` to these lines, and has both jobs."""
    peer = raw(url)
    pushes = [f"PUSH {compact(job(queue, number))}" for number in range(2)]
    lines = ["nonsense", f"FETCH {queue}-other", *pushes]
    peer.sendall("".join(f"{line}\r\n" for line in lines).encode())
    if waits:
        assert _exactly(peer, 31) == b"-ERR unknown command nonsense\r\n"
    peer.shutdown(socket.SHUT_WR)
    assert _to_the_end(peer).endswith(b"$-1\r\n+OK\r\n+OK\r\n")
    peer.close()
    assert wire.ask("INFO")["faktory"]["queues"][queue] == 2


def test_one_who_has_gone_with_very_many_lines_ahead_is_found_out(
    url: str, wire: FaktoryWire, queue: str
) -> None:
    """So many that nothing more is read of it, its end neither."""

    def connections() -> int:
        return int(wire.ask("INFO")["server"]["connections"])

    peer = raw(url)
    peer.sendall(f"FETCH {queue}\r\n".encode() + b"nonsense\r\n" * 1_500)
    before = connections()
    peer.close()
    push(wire, queue)
    until(lambda: connections() != before, what="the connection is gone")
    assert fetch(wire, queue)["args"] == [1]


def test_clients_that_go_within_a_line_leave_nothing(connect: Open, url: str, queue: str) -> None:
    line = f"PUSH {compact(job(queue))}".encode()
    for at in range(0, len(line), 7):
        half = raw(url)
        half.sendall(line[:at])
        half.close()
    wire = connect()
    assert queue not in wire.ask("INFO")["faktory"]["queues"]
