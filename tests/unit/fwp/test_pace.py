"""How long a line may take to come, and how much may be unread: who stands still is cut off, whatever has gone before."""

from __future__ import annotations

from typing import Any

import pytest

from anew.clock import ManualClock
from anew.fwp.connection import FwpConnection, FwpPort
from anew.net.listener import NetServer
from anew.net.seam import WireLimits

GRACE_MS = 10_000
MIB = 1 << 20


class Transport:
    """What a connection asks of its transport; it notes what is done to it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.reading, self.cut = True, False

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_extra_info(self, name: str, default: int) -> int:
        return default

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.written))

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def abort(self) -> None:
        self.cut = True


class Busy:
    """Commands that are never answered."""

    def execute(self, connection: FwpConnection, command: object) -> None:
        pass

    def hello(self, connection: FwpConnection, hello: object) -> None:
        pass

    def left(self, connection: FwpConnection) -> None:
        pass


class AtOnce:
    """A gate that holds nobody up."""

    seen_ms = 1

    def hand(self, request: FwpConnection, service: FwpPort) -> None:
        service.start(request)


class Line:
    """One connection that has said HELLO, a clock moved by hand, and the sweeps of each second."""

    def __init__(self, server: NetServer | None = None) -> None:
        self.clock = ManualClock()
        limits = WireLimits(header_timeout_ms=GRACE_MS, body_rate=1_024, stall_timeout_ms=30_000)
        self.server = server or NetServer(limits, clock=self.clock)
        commands: Any = Busy()
        self.port = FwpPort(self.server, commands, password="", enterprise=True, max_line=64 * MIB)
        self.wire, self.transport = FwpConnection(self.port), Transport()
        transport: Any = self.transport
        self.wire.connection_made(transport)
        gate: Any = AtOnce()
        self.server.gate = gate
        self.wire.data_received(b'HELLO {"v":2}\r\n')
        self.transport.written = []  # it has been read

    def seconds(self, count: int, each: bytes = b"") -> bool:
        """Let seconds pass, and bytes come in each; tell whether the connection still stands."""
        for _ in range(count):
            if each:
                self.transport.written.clear()  # it reads its answers
                self.wire.data_received(each)
            self.clock.advance(1_000)
            self.wire.sweep(self.server.now_ms())
        return not self.transport.cut


def test_one_who_has_sent_much_of_a_line_and_stands_still_is_cut_off() -> None:
    """40 MiB held for as long as 1,024 bytes a second would take them would be 11 hours."""
    line = Line()
    line.wire.data_received(b"PUSH " + b"x" * (40 * MIB))
    assert line.seconds(9)
    assert not line.seconds(2)


def test_one_who_is_steady_above_the_rate_goes_on_and_one_below_does_not() -> None:
    assert Line().seconds(60, b"x" * 1_100)
    assert not Line().seconds(60, b"x" * 1_000)


def test_each_line_has_its_own_grace() -> None:
    line = Line()
    assert line.seconds(60, b"\nPUS")


def test_a_line_that_the_server_does_not_read_on_is_not_late() -> None:
    """So many lines wait behind the one under way that reading stops within one."""
    line = Line()
    line.wire.data_received(b"FETCH q\n" * 1_100 + b"FET")
    assert not line.transport.reading
    assert line.seconds(60)


def test_of_a_long_line_behind_a_command_that_waits_little_is_read() -> None:
    """However many peers send one behind a FETCH: a whole line is counted among nothing that comes in."""
    line = Line()
    line.wire.data_received(b"FETCH q\n")
    line.wire.data_received(b"PUSH " + b"x" * MIB)
    assert not line.transport.reading
    line.wire.reply(b"$-1\r\n")
    assert line.transport.reading


@pytest.mark.parametrize("silent_s", [60, 3_600])
def test_silence_between_lines_is_no_matter(silent_s: int) -> None:
    assert Line().seconds(silent_s)


def behind(size: int, server: NetServer | None = None) -> Line:
    """A peer that leaves an answer of so many bytes unread."""
    line = Line(server)
    line.transport.written = [b"x" * size]
    line.wire.pause_writing()
    return line


def test_answers_that_nobody_reads_are_counted_until_they_are_read_or_cut_off() -> None:
    line = behind(5 * MIB)
    assert line.server.counters.unsent == 5 * MIB
    line.wire.resume_writing()
    assert line.server.counters.unsent == 0
    line.wire.pause_writing()
    line.transport.written.append(b"y")
    assert line.seconds(30)
    assert line.server.counters.unsent == 5 * MIB + 1
    assert not line.seconds(1)
    line.wire.connection_lost(None)
    assert line.server.counters.unsent == 0


def test_who_is_behind_when_too_much_is_unread_is_cut_off_and_the_others_stay() -> None:
    first = behind(5 * MIB)
    first.server.counters.max_unsent = 12 * MIB
    second, third = behind(6 * MIB, first.server), behind(4 * MIB, first.server)
    assert [each.transport.cut for each in (first, second, third)] == [False, False, True]


def test_a_little_that_nobody_reads_is_too_much_in_the_end() -> None:
    """The transport calls nobody behind for so little, and commands go on."""
    line = Line()
    line.transport.written = [b"x"]
    assert line.seconds(30)
    line.wire.reply(b"+OK\r\n")
    assert not line.seconds(1)


def test_who_reads_slowly_stays() -> None:
    line = behind(5 * MIB)
    for _ in range(90):
        assert line.seconds(1)
        line.transport.written[0] = line.transport.written[0][1_024:]


def test_a_long_answer_counts_whole_for_as_long_as_any_of_it_is_unsent() -> None:
    line = Line()
    line.wire.reply(b"x" * MIB)
    line.transport.written = [b"x"]
    assert line.seconds(1)
    assert line.server.counters.unsent == MIB
    line.transport.written = []
    assert line.seconds(1)
    assert line.server.counters.unsent == 0
