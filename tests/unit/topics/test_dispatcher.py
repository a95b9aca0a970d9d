"""The dispatcher on an engine in memory, with exchanges that the test ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from anew.engine import Call, ThreadCommit
from anew.errors import InDoubt
from anew.jobs import State
from anew.topics import dispatcher as dispatcher_module
from anew.topics.dispatcher import SLOW_MS, UPKEEP_MS, Dispatcher
from anew.topics.exchange import Answer, Outgoing
from tests.unit.topics.rig import OK, Topics, policy

PATIENCE_S = 20


class Exchanges:
    """What a dispatcher sends: each exchange lasts until it is answered, or is answered at once."""

    def __init__(self, at_once: Callable[[str], Answer | None] = lambda url: None) -> None:
        self.open: dict[str, list[asyncio.Future[Answer]]] = {}
        self.begun: list[str] = []
        self._at_once = at_once
        self._changed = asyncio.Event()

    async def send(self, outgoing: Outgoing) -> Answer:
        self.begun.append(outgoing.url)
        self._changed.set()
        answer = self._at_once(outgoing.url)
        if answer is not None:
            return answer
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.open.setdefault(outgoing.url, []).append(future)
        return await future

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


def dispatching(
    topics: Topics,
    test: Callable[[Dispatcher, Exchanges], Coroutine[Any, Any, None]],
    exchanges: Callable[[], Exchanges] = Exchanges,
    **more: Any,
) -> None:
    """Run a test beside a dispatcher, which is stopped at its end, and cut off."""

    async def main() -> None:
        made = exchanges()
        commit = ThreadCommit(topics.engine)
        topics.do = lambda verb: commit.apply(Call(verb, lambda _: None))  # type: ignore[method-assign]
        dispatcher = Dispatcher(commit, topics.terms, made.send, **more)
        running = asyncio.create_task(dispatcher.run())
        try:
            await test(dispatcher, made)
        finally:
            dispatcher.stop()
            dispatcher.cut_off()
            await running

    asyncio.run(main())


def test_notifications_02_a_hundred_endpoints_that_never_answer_hold_up_nobody() -> None:
    topics = Topics()
    topics.topic()
    for number in range(100):
        topics.subscribe(f"https://silent-{number}.example/")
    topics.publish()
    topics.topic("other")
    topics.subscribe("https://well.example/", topic="other")

    async def test(dispatcher: Dispatcher, exchanges: Exchanges) -> None:
        await exchanges.until(lambda: len(exchanges.begun) == 100)
        topics.publish(topic="other")
        await exchanges.until(lambda: exchanges.begun[-1] == "https://well.example/")

    dispatching(topics, test)


def test_endpoints_that_fail_hold_half_of_the_slots_and_the_others_go_on() -> None:
    topics = Topics()
    topics.topic()
    own = policy(retry={"schedule": [0.001] * 100}, throttle={"max_in_flight": 100})
    topics.subscribe("https://bad.example/", delivery_policy=own)
    topics.answers["https://bad.example/"] = Answer(status=500)
    topics.publish()
    topics.turn()  # from now on it is known to fail
    for number in range(20):
        topics.publish(number)
    topics.subscribe("https://well.example/", delivery_policy=own)
    topics.clock.advance(10)

    async def test(dispatcher: Dispatcher, exchanges: Exchanges) -> None:
        await exchanges.until(lambda: len(exchanges.open.get("https://bad.example/", ())) == 5)
        topics.publish("new")
        await exchanges.until(lambda: "https://well.example/" in exchanges.begun)
        assert len(exchanges.open["https://bad.example/"]) == 5

    dispatching(topics, test, slots=10)


def test_what_is_cut_off_at_the_end_is_interrupted_not_counted_and_sent_again() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe("https://slow.example/", delivery_policy=policy(retry={"schedule": [5]}))
    topics.publish()

    async def test(dispatcher: Dispatcher, exchanges: Exchanges) -> None:
        await exchanges.until(lambda: len(exchanges.begun) == 1)

    dispatching(topics, test)
    topics.answers["https://slow.example/"] = [Answer(status=500), OK]
    topics.run()
    (row,) = topics.deliveries()
    outcomes = [one.outcome for one in topics.attempts(row.id) if one is not None]
    assert outcomes == ["interrupted", "retry", "delivered"]
    assert topics.times("https://slow.example/") == [0, 5]


def test_it_remembers_how_soon_so_many_have_answered_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anew.topics.dispatcher.MOST_KNOWN", 3)
    topics = Topics()
    topics.topic()
    for number in range(7):
        topics.subscribe(f"https://{number}.example/")
    topics.publish()

    async def test(dispatcher: Dispatcher, exchanges: Exchanges) -> None:
        await exchanges.until(lambda: len(exchanges.begun) == 7)
        for open_ in exchanges.open.values():
            open_.pop().set_result(OK)
        topics.publish()
        await exchanges.until(lambda: len(exchanges.begun) == 14)
        assert len(dispatcher._is_quick) == 3

    dispatching(topics, test)


def test_a_fault_of_our_own_is_no_attempt_of_the_policy() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe("https://a.example/", delivery_policy=policy(retry={"schedule": []}))
    topics.publish()

    class Broken(Exchanges):
        async def send(self, outgoing: Outgoing) -> Answer:
            self.begun.append(outgoing.url)
            self._changed.set()
            raise RuntimeError("ours")

    async def test(dispatcher: Dispatcher, exchanges: Exchanges) -> None:
        await exchanges.until(lambda: len(exchanges.begun) == 1)

    dispatching(topics, test, Broken)
    topics.run()
    assert topics.statuses() == ["delivered"]
    (row,) = topics.deliveries()
    assert [one.outcome for one in topics.attempts(row.id) if one is not None] == ["ours", "delivered"]


def test_endpoints_that_are_slow_and_never_fail_leave_room_too() -> None:
    topics = Topics()
    topics.topic()
    own = policy(throttle={"max_in_flight": 100})
    topics.subscribe("https://slow.example/", delivery_policy=own)
    for number in range(20):
        topics.publish(number)
    topics.topic("other")
    topics.subscribe("https://well.example/", topic="other", delivery_policy=own)

    async def test(dispatcher: Dispatcher, exchanges: Exchanges) -> None:
        slow = exchanges.open.setdefault("https://slow.example/", [])
        await exchanges.until(
            lambda: len(slow) == 6
        )  # one while nothing is known of it, and half of the slots
        for number in range(3):
            topics.publish(number, topic="other")
        await exchanges.until(lambda: len(exchanges.begun) == 7)
        exchanges.open["https://well.example/"].pop().set_result(OK)  # the other two have waited for that
        await exchanges.until(lambda: len(exchanges.begun) == 9)
        slow.pop().set_result(Answer(status=200, duration_ms=9_000))
        await exchanges.until(lambda: len(exchanges.begun) == 10)
        assert exchanges.begun.count("https://well.example/") == 3

    dispatching(topics, test, slots=10)


def test_more_slow_endpoints_than_slots_hold_them_for_no_longer_than_it_takes_to_see_that() -> None:
    topics = Topics()
    topics.topic()
    for number in range(12):
        topics.subscribe(f"https://slow-{number}.example/")
    topics.publish()
    topics.topic("other")
    topics.subscribe("https://well.example/", topic="other")

    async def test(dispatcher: Dispatcher, exchanges: Exchanges) -> None:
        await exchanges.until(lambda: len(exchanges.begun) == 10)
        topics.publish(topic="other")
        topics.clock.advance(SLOW_MS + UPKEEP_MS)
        await exchanges.until(lambda: "https://well.example/" in exchanges.begun)
        assert len(exchanges.begun) == 13

    dispatching(topics, test, slots=10)


def test_a_long_line_for_an_endpoint_that_fails_is_not_put_back_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatcher_module, "MOST_WAITING", 0)
    topics = Topics()
    topics.topic()
    own = policy(retry={"schedule": [0.001] * 100}, throttle={"max_in_flight": 20})
    topics.subscribe("https://bad.example/", delivery_policy=own)
    topics.answers["https://bad.example/"] = Answer(status=500)
    topics.publish()
    topics.turn()  # from now on it is known to fail
    for number in range(300):
        topics.publish(number)
    topics.topic("other")
    topics.subscribe("https://well.example/", topic="other")
    topics.publish(topic="other")

    async def test(dispatcher: Dispatcher, exchanges: Exchanges) -> None:
        await exchanges.until(lambda: "https://well.example/" in exchanges.begun)
        jobs = [row.job for row in topics.deliveries()]
        states = [job.state for job in topics.do(lambda batch: batch.store.load(jobs))]
        assert states.count(State.SCHEDULED) <= 20
        topics.clock.advance(2_000)
        for future in exchanges.open["https://bad.example/"]:
            future.set_result(OK)
        await exchanges.until(lambda: exchanges.begun.count("https://bad.example/") >= 10)

    dispatching(topics, test, slots=10)


def test_a_good_answer_that_comes_too_slowly_counts_as_it_is_recorded() -> None:
    """Its attempt is recorded to be retried: checklist 34."""
    topics = Topics()
    topics.topic()
    topics.subscribe("https://slow.example/")
    topics.publish()

    async def test(dispatcher: Dispatcher, exchanges: Exchanges) -> None:
        await exchanges.until(lambda: sum(dispatcher.sent.values()) == 1)
        assert dispatcher.sent == {"delivered": 0, "failed": 1}

    dispatching(topics, test, lambda: Exchanges(lambda url: Answer(status=200, error="timeout")))


def test_what_is_taken_in_a_transaction_in_doubt_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe("https://well.example/")
    for number in range(5):
        topics.publish(number)

    def doubt() -> None:
        raise InDoubt("no standby has it")

    async def test(dispatcher: Dispatcher, exchanges: Exchanges) -> None:
        monkeypatch.setattr(topics.engine.store, "sync", doubt)
        await exchanges.until(lambda: len(exchanges.begun) == 5)

    dispatching(topics, test, lambda: Exchanges(lambda url: OK), slots=1)
