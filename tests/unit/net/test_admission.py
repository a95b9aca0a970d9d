"""The gate before all applications: how long a turn hands over, who waits, who is shed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from anew.clock import ManualClock
from anew.net import admission as gate_module
from anew.net.admission import Gate
from anew.net.seam import Kind, Request, Stream

from .http2_peer import Peer, in_loop


class Asked:
    """A request of some protocol."""

    def __init__(self, size: int = 0, kind: Kind = Kind.new_work) -> None:
        self.size = size
        self.kind = kind


class Rig:
    """A gate, its clock, and a service: what it got, each with whether it was shed.

    Attributes:
        cost_ms: What it takes to serve a request.
        came: How long ago a request came; None if that is not known.
    """

    def __init__(self, cost_ms: int = 0) -> None:
        self.clock = ManualClock()
        self.clock.advance(1_000_000)
        self.gate = Gate(self.clock.monotonic)
        self.cost_ms = cost_ms
        self.came: int | None = None
        self.got: list[tuple[Asked, bool]] = []

    def size_of(self, request: Asked) -> int:
        return request.size

    def kind_of(self, request: Asked) -> Kind:
        return request.kind

    def came_ms_ago(self, request: Asked) -> int | None:
        return self.came

    def start(self, request: Asked) -> None:
        self.got.append((request, False))
        self.clock.advance(self.cost_ms)

    def shed(self, request: Asked) -> None:
        self.got.append((request, True))

    def hand(self, count: int, kind: Kind = Kind.new_work) -> list[Asked]:
        requests = [Asked(kind=kind) for _ in range(count)]
        for request in requests:
            self.gate.hand(request, self)
        return requests

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not done():
                await asyncio.sleep(0)

    async def make_crowd(self) -> None:
        """Let a crowd come and go."""
        cost_ms, self.cost_ms = self.cost_ms, 1
        before = len(self.got)
        self.hand(100)
        assert self.gate.overloaded
        await self.until(lambda: len(self.got) == before + 100 and not self.gate.overloaded)
        self.got.clear()
        self.cost_ms = cost_ms


@in_loop
async def test_a_turn_hands_over_for_20_ms_and_the_rest_follows_in_order() -> None:
    rig = Rig(cost_ms=5)
    requests = rig.hand(10)
    assert len(rig.got) == 4
    later: list[int] = []
    while len(rig.got) < 10:
        await asyncio.sleep(0)
        if not later or later[-1] != len(rig.got):
            later.append(len(rig.got))
    assert later == [4, 8, 10]
    assert rig.got == [(request, False) for request in requests]


@in_loop
async def test_who_comes_while_others_wait_waits_behind_them() -> None:
    rig = Rig(cost_ms=20)
    requests = rig.hand(3)
    await rig.until(lambda: len(rig.got) == 2)
    requests += rig.hand(1)
    await rig.until(lambda: len(rig.got) == 4)
    assert [request for request, _ in rig.got] == requests


@pytest.mark.parametrize(("waiting", "shed"), [(63, False), (64, True)])
@in_loop
async def test_who_waits_for_more_than_60_ms_is_shed_in_a_crowd_of_64(waiting: int, shed: bool) -> None:
    rig = Rig(cost_ms=20)
    rig.hand(1 + waiting)
    rig.clock.advance(41)  # the turn began 61 ms ago
    await rig.until(lambda: len(rig.got) == 1 + waiting)
    assert [was_shed for _, was_shed in rig.got] == [False] + [shed] * waiting


@in_loop
async def test_60_ms_are_not_too_long() -> None:
    rig = Rig(cost_ms=20)
    rig.hand(65)
    rig.clock.advance(40)
    await rig.until(lambda: len(rig.got) > 2)
    assert [was_shed for _, was_shed in rig.got[:3]] == [False, False, True]


@pytest.mark.parametrize("kind", [Kind.other, Kind.settling])
@in_loop
async def test_only_new_work_is_shed_for_its_age(kind: Kind) -> None:
    rig = Rig(cost_ms=20)
    rig.hand(65)
    requests = rig.hand(1, kind)
    rig.clock.advance(100)
    await rig.until(lambda: len(rig.got) == 66)
    assert rig.got[64] == (rig.got[64][0], True)
    assert rig.got[65] == (requests[0], False)


@in_loop
async def test_what_finds_the_queue_full_is_shed_at_once_settling_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate_module, "max_queued", 3)
    monkeypatch.setattr(gate_module, "max_queued_bytes", 10)
    rig = Rig(cost_ms=20)
    first, *_ = rig.hand(1)
    large, second, third, fourth = Asked(10), Asked(1, Kind.other), Asked(), Asked()
    settling = Asked(1, Kind.settling)
    for request in (large, second, third, fourth, Asked(), settling):
        rig.gate.hand(request, rig)
    # The second has no room beside the large one's bytes, and the last but one would be the fourth that waits.
    assert [asked for asked, shed in rig.got if not shed] == [first, settling]
    assert next(asked for asked, shed in rig.got if shed) is second
    assert len(rig.got) == 4
    await rig.until(lambda: len(rig.got) == 7)
    rig.gate.hand(large, rig)  # room again
    assert rig.got[4:] == [(large, False), (third, False), (fourth, False)]


@in_loop
async def test_after_a_stall_nobody_is_shed_unless_there_has_been_a_crowd() -> None:
    """Behind a batch that took 150 ms come 100 requests; a second after a crowd that is forgotten."""
    # The batch takes 150 ms of that second.
    for crowded_ms_ago, shed in ((None, False), (0, True), (849, True), (850, False), (1_000, False)):
        rig = Rig()
        if crowded_ms_ago is not None:
            await rig.make_crowd()
            rig.clock.advance(crowded_ms_ago)
            for _ in range(8):
                await asyncio.sleep(0)
        rig.hand(1)
        asyncio.get_running_loop().call_soon(rig.clock.advance, 150)  # as a batch does, after the turn
        await asyncio.sleep(0)
        requests = rig.hand(100)
        await rig.until(lambda rig=rig: len(rig.got) == 101)
        assert rig.got[1:] == [(request, shed) for request in requests]


@in_loop
async def test_after_a_crowd_a_loop_that_has_slept_has_left_nobody_unread() -> None:
    rig = Rig()
    await rig.make_crowd()
    rig.hand(1)
    for _ in range(8):
        await asyncio.sleep(0)
    rig.clock.advance(150)
    rig.hand(1)
    assert [shed for _, shed in rig.got] == [False, False]


@pytest.mark.parametrize(("came_ms", "shed"), [(None, True), (61, True), (60, False)])
@in_loop
async def test_what_may_have_waited_too_long_is_served_if_it_is_known_that_it_has_not(
    came_ms: int | None, shed: bool
) -> None:
    rig = Rig(cost_ms=20)
    rig.came = came_ms
    rig.hand(65)
    rig.clock.advance(41)
    await rig.until(lambda: len(rig.got) == 65)
    assert [was_shed for _, was_shed in rig.got] == [False] + [shed] * 64


class HeldOff:
    """A connection that is not read."""

    went_on = False

    def go_on(self) -> None:
        self.went_on = True

    def abort(self) -> None:
        raise AssertionError("cut")


@in_loop
async def test_after_a_turn_with_time_to_spare_16_connections_are_read_again_the_first_first() -> None:
    rig, crowd = Rig(), [HeldOff() for _ in range(20)]
    for one in crowd:
        rig.gate.hold_off(one)
    rig.hand(1)
    await rig.until(lambda: crowd[0].went_on)
    assert [one.went_on for one in crowd] == [True] * 16 + [False] * 4
    rig.hand(1)
    await rig.until(lambda: crowd[16].went_on)
    assert not any(rig.gate.holds_off(one) for one in crowd)


@in_loop
async def test_while_requests_wait_none_is_read_again() -> None:
    rig, one = Rig(cost_ms=20), HeldOff()
    rig.gate.hold_off(one)
    rig.hand(3)
    await rig.until(lambda: len(rig.got) == 3)
    assert not one.went_on
    await rig.until(lambda: one.went_on)


@in_loop
async def test_without_time_to_spare_they_are_spread_over_the_second_after_the_one_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The golden ratio's first five multiples without their whole parts: .618, .236, .854, .472, .090."""
    waits: list[float] = []
    rig, loop = Rig(), asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda wait_s, *rest: waits.append(round(wait_s, 3)))
    for _ in range(5):
        rig.gate.hold_off(HeldOff())
    assert waits == [0.162, 0.124, 0.185, 0.147, 0.109]


@pytest.mark.parametrize(("since_ms", "now_ms", "shed"), [(0, 60, False), (0, 61, True), (1, 62, False)])
@in_loop
async def test_what_a_connection_held_back_in_an_overload_is_shed_after_60_ms_though_that_has_ended(
    since_ms: int, now_ms: int, shed: bool
) -> None:
    """Instants count from the overload's end: that of the crowd's last request, since those that are shed take no time."""
    rig = Rig()
    await rig.make_crowd()
    ended_ms = rig.clock.monotonic()
    rig.clock.advance(now_ms)
    request = Asked()
    rig.gate.hand_held(request, rig, ended_ms + since_ms)
    await rig.until(lambda: bool(rig.got))
    assert rig.got == [(request, shed)]


@in_loop
async def test_a_long_read_shares_the_time_of_its_turn_unless_it_brings_requests() -> None:
    rig = Rig()
    began_ms = rig.clock.monotonic()

    def read_until() -> tuple[int, int]:
        return rig.gate.read_until(False) - began_ms, rig.gate.read_until(True) - began_ms

    assert read_until() == (5, 25)
    rig.clock.advance(18)
    assert read_until() == (20, 25)
    rig.clock.advance(2)
    assert read_until() == (20, 25)  # the turn's time is used up: now
    rig.clock.advance(10)
    assert read_until() == (30, 35)
    assert [rig.gate.is_past(began_ms + ms) for ms in (29, 30, 31)] == [True, True, False]


@pytest.mark.parametrize(("waiting", "full"), [(1_023, False), (1_024, True)])
@in_loop
async def test_the_queue_is_full_once_1024_wait_and_the_turns_time_is_used_up(
    waiting: int, full: bool
) -> None:
    rig = Rig(cost_ms=20)
    rig.hand(1 + waiting)
    assert rig.gate.is_full() is full
    await asyncio.sleep(0)  # the turn ends, and its queue's turn comes after the next look
    assert rig.gate.is_full() is full
    rig.gate.close()
    assert not rig.gate.is_full()


class Broken:
    """A connection that cannot go on."""

    aborted = False

    def go_on(self) -> None:
        raise RuntimeError("broken")

    def abort(self) -> None:
        self.aborted = True


@in_loop
async def test_a_connection_that_cannot_go_on_is_cut_and_the_others_have_their_turn() -> None:
    rig, broken = Rig(cost_ms=20), Broken()
    first, second = rig.hand(2)
    rig.gate.queue_up(broken)
    third = rig.hand(1)[0]
    await rig.until(lambda: len(rig.got) == 3)
    assert rig.got == [(first, False), (second, False), (third, False)]
    assert broken.aborted


@in_loop
async def test_close_forgets_who_waits() -> None:
    rig = Rig(cost_ms=20)
    rig.hand(5)
    rig.gate.close()
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(rig.got) == 1


@in_loop
async def test_an_error_in_the_application_concerns_one_request() -> None:
    peer = Peer(lambda request: request.reply(200 if request.body else 1 // 0))
    streams = [peer.ask("/", "POST", body) for body in (b"", b"x", b"", b"x")]
    await peer.turn()
    assert [peer.status(stream) for stream in streams] == [500, 200, 500, 200]


class Jobs:
    """An application of one millisecond a request, all of them new work."""

    peer: Peer
    served = 0

    def kind_of(self, request: Request) -> Kind:
        return Kind.new_work

    def __call__(self, request: Request) -> None:
        self.served += 1
        self.peer.now_ms += 1
        request.reply(201, b"{}")


@in_loop
async def test_http2_streams_wait_and_are_shed_like_all_others() -> None:
    """100 streams of one connection: a turn hands over 20 of them, 1 ms each; behind a pause the others are shed."""
    jobs = Jobs()
    jobs.peer = peer = Peer(jobs)
    streams = [peer.ask("/jobs", "POST", b"{}") for _ in range(100)]
    peer.conn.data_received(peer.client.data_to_send())
    assert jobs.served == 20
    peer.now_ms += 100
    await peer.turn()
    assert jobs.served == 20
    assert [peer.status(stream) for stream in streams] == [201] * 20 + [503] * 80
    assert peer.fields(streams[-1])[b"retry-after"] == b"1"


@in_loop
async def test_a_stream_that_an_http2_peer_has_hung_up_on_while_it_waited_is_not_opened() -> None:
    opened: list[Stream | None] = []

    def app(request: Request) -> None:
        peer.now_ms += 20
        opened.append(request.open_stream(200, b"application/x-ndjson"))

    peer = Peer(app)
    for _ in range(2):
        peer.ask("/jobs/take")
    peer.conn.data_received(peer.client.data_to_send())
    assert peer.conn.eof_received()
    await peer.turn()
    assert opened[0] is not None
    assert opened[1:] == [None]
    assert peer.transport.closed or peer.transport.ended


@in_loop
async def test_what_http2_reads_while_very_many_wait_stays_with_the_connection() -> None:
    """1,100 of others wait; ten streams more are not looked at before them, and the peer is not read meanwhile."""
    peer = Peer(lambda request: setattr(peer, "now_ms", peer.now_ms + 1))
    rig = Rig()
    rig.start = lambda request: setattr(peer, "now_ms", peer.now_ms + 1)  # type: ignore[method-assign]
    for _ in range(1_100 + 20):
        peer.gate.hand(Asked(), rig)
    streams = [peer.ask("/jobs") for _ in range(10)]
    peer.conn.data_received(peer.client.data_to_send())
    assert peer.counters.requests == 0
    assert not peer.transport.reading
    async with asyncio.timeout(5):
        while peer.counters.requests < len(streams):
            await asyncio.sleep(0)
    assert peer.transport.reading
