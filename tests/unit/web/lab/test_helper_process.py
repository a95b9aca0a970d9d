"""The process that computes, as the server sees it: one question at a time, bounded, killed, replaced, put to rest."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from anew.errors import InternalError, Overloaded
from anew.web.lab.computing import Ask, Made
from anew.web.lab.helper_process import MAX_WAITING, TOO_LONG, HelperProcess
from tests.unit.net.loopback import loops, run, until

PRETENDER = """
import os, signal, sys, time
from anew.web.lab.computing import READY, Ask, Made, framed
import msgspec
source, sink = sys.stdin.buffer, sys.stdout.buffer
def say(made):
    sink.write(framed(made))
    sink.flush()
say(READY)
while head := source.read(4):
    ask = msgspec.msgpack.decode(source.read(int.from_bytes(head, "big")), type=Ask)
    if ask.problem:
        say(Made(b"form: " + ask.problem.encode()))
    elif ask.query == b"hang":
        time.sleep(600)
    elif ask.query == b"die":
        os._exit(3)
    elif ask.query == b"burn":
        signal.raise_signal(signal.SIGPROF)
    elif ask.query == b"flood":
        sink.write(b"\\xff\\xff\\xff\\xff")
        sink.flush()
    elif ask.query == b"complain":
        say(Made(b"", problem="it does not fit"))
    else:
        say(Made(str(os.getpid()).encode() + b" " + ask.query))
"""


@pytest.fixture(params=sorted(loops))
def loop(request: pytest.FixtureRequest) -> str:
    """Each kind of event loop."""
    return str(request.param)


class Asker:
    """A helper and what it has answered."""

    def __init__(self, script: str = PRETENDER, **options: Any) -> None:
        self.helper = HelperProcess([sys.executable, "-c", script], **options)

    def ask(self, query: bytes, **rest: Any) -> asyncio.Future[Any]:
        """Ask, and give the answer to wait for."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.helper.ask(Ask(query), answer.set_result, **rest)
        return answer


def alive(pid: int) -> bool:
    """Whether a process of this id is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_one_process_serves_many_questions_in_order(loop: str) -> None:
    async def test() -> None:
        asker = Asker()
        assert asker.helper.pid is None  # nothing is started before it is needed
        made = await asyncio.gather(*(asker.ask(b"%d" % n) for n in range(5)))
        assert [one.html.split()[1] for one in made] == [b"0", b"1", b"2", b"3", b"4"]
        assert {one.html.split()[0] for one in made} == {str(asker.helper.pid).encode()}
        assert asker.helper.started == 1
        await asker.helper.close()

    run(test, loop)


def test_what_takes_too_long_is_killed_and_the_next_is_served(loop: str) -> None:
    async def test() -> None:
        asker = Asker(limit_s=0.5)
        first = asker.ask(b"hang")
        second = asker.ask(b"after")
        assert (await first).html == b"form: " + TOO_LONG.encode()
        assert (await second).html.endswith(b"after")
        assert asker.helper.started == 2
        await asker.helper.close()

    run(test, loop)


def test_what_uses_up_its_processor_time_is_told_so(loop: str) -> None:
    async def test() -> None:
        asker = Asker()
        assert (await asker.ask(b"burn")).html == b"form: " + TOO_LONG.encode()
        assert (await asker.ask(b"after")).html.endswith(b"after")
        await asker.helper.close()

    run(test, loop)


@pytest.mark.parametrize("query", [b"die", b"flood"])
def test_what_breaks_down_is_replaced(loop: str, query: bytes) -> None:
    async def test() -> None:
        asker = Asker()
        assert (await asker.ask(query)).html.startswith(b"form: the computation broke off")
        assert (await asker.ask(b"after")).html.endswith(b"after")
        await asker.helper.close()

    run(test, loop)


def test_a_problem_comes_with_the_form(loop: str) -> None:
    async def test() -> None:
        asker = Asker()
        assert (await asker.ask(b"complain")).html == b"form: it does not fit"
        assert asker.helper.started == 1
        await asker.helper.close()

    run(test, loop)


def test_the_queue_is_short(loop: str) -> None:
    async def test() -> None:
        asker = Asker()
        waiting = [asker.ask(b"") for _ in range(MAX_WAITING)]
        with pytest.raises(Overloaded, match="try again"):
            asker.helper.ask(Ask(b""), print)
        await asyncio.gather(*waiting)
        await asker.helper.close()

    run(test, loop)


def test_those_who_have_gone_take_nobodys_place(loop: str) -> None:
    async def test() -> None:
        asker = Asker()
        for _ in range(MAX_WAITING):
            asker.ask(b"", gone=lambda: True)
        assert (await asker.ask(b"heard")).html.endswith(b"heard")
        await asker.helper.close()

    run(test, loop)


def test_nothing_is_made_for_those_who_have_gone(loop: str) -> None:
    async def test() -> None:
        asker = Asker(limit_s=30)
        unheard = asker.ask(b"hang", gone=lambda: True)
        assert (await asker.ask(b"heard")).html.endswith(b"heard")
        assert not unheard.done()
        await asker.helper.close()

    run(test, loop)


def test_an_idle_process_ends_and_comes_back(loop: str) -> None:
    async def test() -> None:
        asker = Asker(idle_s=0.01)
        await asker.ask(b"")
        first = asker.helper.pid
        assert first is not None
        await until(lambda: not alive(first))
        await asker.ask(b"")
        assert asker.helper.started == 2
        await asker.helper.close()

    run(test, loop)


def test_closing_ends_the_process_and_answers_those_who_wait(loop: str) -> None:
    async def test() -> None:
        asker = Asker(limit_s=30)
        await asker.ask(b"")
        pid = asker.helper.pid
        waiting = [asker.ask(b"hang"), asker.ask(b"")]
        await asyncio.sleep(0)
        await asker.helper.close()
        assert [type(await one) for one in waiting] == [Overloaded, Overloaded]
        assert pid is not None
        assert not alive(pid)
        with pytest.raises(Overloaded, match="shutting down"):
            asker.helper.ask(Ask(b""), print)

    run(test, loop)


def test_a_helper_that_cannot_start_is_our_fault(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        asker = Asker("raise SystemExit")
        assert isinstance(await asker.ask(b""), InternalError)
        await asker.helper.close()

    run(test, loop)
    assert "has failed" in caplog.text


def test_the_true_helper_makes_a_page() -> None:
    async def test() -> None:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        helper = HelperProcess(limit_s=60)
        helper.ask(Ask(b"a=zizq&jobs=5"), answer.set_result)
        made = await answer
        assert isinstance(made, Made)
        assert b'"url":"/lab?a=zizq\\u0026jobs=5"' in made.html
        assert "16\u00a0s to 46\u00a0s".encode() in made.html
        share = Path(
            f"/proc/{helper.pid}/autogroup"
        )  # of its session, inside which alone its own niceness counts
        assert not share.exists() or share.read_text().endswith("nice 5\n")
        await helper.close()

    asyncio.run(test())
