"""The server's side of the process that computes: started when first needed, watched, ended when idle.

Nothing is computed in the server's loop. One question at a time goes through the pipes; a few wait; more are refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from anew.errors import InternalError, Overloaded
from anew.web.lab.computing import CPU_S, LENGTH_BYTES, MAX_ANSWER, Ask, Made, framed

log = logging.getLogger("anew.web")

PATIENCE_S: Final = 8.0
"""The longest that one page may take by the clock: where the machine is busy, its processor time takes that long."""

IDLE_S: Final = 60.0
MAX_WAITING: Final = 8
_START_S: Final = 20.0

TOO_LONG: Final = f"this takes longer than {CPU_S:g} s to compute; ask for fewer jobs, retries or policies"

BROKEN: Final = "the computation broke off; ask for fewer jobs, retries or policies"

_ONE_THREAD: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_REUSED_MEMORY: Final = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(128 << 20)}
"""glibc would give each large array back to the kernel, and ask for the next one page by page: a tenth of a page's time."""

_PROGRAM: Final = "import sys; sys.path[:] = sys.argv[1:]; from anew.web.lab.computing import main; main()"
"""For this interpreter: it finds modules where this process finds them."""


Then = Callable[[Made | Overloaded | InternalError], None]


class _Waiting(NamedTuple):
    ask: Ask
    then: Then
    gone: Callable[[], bool]


class HelperProcess:
    """Makes pages in a process of its own.

    Args:
        words: The command that starts it; None: this interpreter, with `anew.web.lab.computing`.
        limit_s: The longest that one page may take by the clock; the helper itself keeps to `CPU_S` of processor time.
        idle_s: How long it is kept without a question.

    Attributes:
        started: How many have been started.
    """

    def __init__(
        self, words: Sequence[str] | None = None, *, limit_s: float = PATIENCE_S, idle_s: float = IDLE_S
    ) -> None:
        self.started = 0
        self._words = words
        self._limit_s, self._idle_s = limit_s, idle_s
        self._waiting: deque[_Waiting] = deque()
        self._process: asyncio.subprocess.Process | None = None
        self._work: asyncio.Task[None] | None = None
        self._more = asyncio.Event()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process's id; None while there is none."""
        return None if self._process is None else self._process.pid

    def ask(self, ask: Ask, then: Then, gone: Callable[[], bool] = lambda: False) -> None:
        """Have a page made.

        Args:
            ask: Which.
            then: Called in the loop's thread with the page, or with why there is none.
            gone: Whether nobody waits for it any more; such a page is not made.

        Raises:
            Overloaded: Too many wait already, or the server is stopping.
        """
        if self._closed:
            raise Overloaded("the server is shutting down")
        if len(self._waiting) >= MAX_WAITING:
            self._waiting = deque(one for one in self._waiting if not one.gone())
        if len(self._waiting) >= MAX_WAITING:
            raise Overloaded("too many pages are being computed; try again in a second")
        self._waiting.append(_Waiting(ask, then, gone))
        self._more.set()
        if self._work is None or self._work.done():
            self._work = asyncio.get_running_loop().create_task(self._serve())

    async def close(self) -> None:
        """End the process and answer whoever waits."""
        self._closed = True
        if self._work is not None and not self._work.done():
            self._work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._work
        await self._end()
        while self._waiting:
            self._waiting.popleft().then(Overloaded("the server is shutting down"))

    # ---- inside

    async def _serve(self) -> None:
        while True:
            while self._waiting:
                one = self._waiting.popleft()
                if not one.gone():
                    await self._answer(one)
            self._more.clear()
            try:
                async with asyncio.timeout(self._idle_s):
                    await self._more.wait()
            except TimeoutError:
                await self._end()
                await self._more.wait()

    async def _answer(self, one: _Waiting) -> None:
        try:
            made = await self._made(one.ask)
            if made.trace:
                log.error("a page could not be made", extra={"trace": made.trace[-900:]})
            if made.problem and not one.ask.problem:
                # The rest of the page stays: the form comes without results, and with the reason.
                made = await self._made(msgspec.structs.replace(one.ask, problem=made.problem))
        except asyncio.CancelledError:
            one.then(Overloaded("the server is shutting down"))
            raise
        except Exception:
            log.exception("the process that computes pages has failed")
            await self._end()
            one.then(InternalError("internal server error"))
        else:
            one.then(made)

    async def _made(self, ask: Ask) -> Made:
        process = await self._start()
        try:
            async with asyncio.timeout(self._limit_s):
                return await _exchange(process, framed(ask))
        except TimeoutError:
            await self._end()
            return Made(problem=TOO_LONG)
        except (OSError, EOFError):
            # It has used up its processor time, or the kernel ended it (memory), or it broke down.
            late = await _ended_by(process) == signal.SIGPROF
            await self._end()
            return Made(problem=TOO_LONG if late else BROKEN)

    async def _start(self) -> asyncio.subprocess.Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        self.started += 1
        process = self._process = await asyncio.create_subprocess_exec(
            *(self._words or (sys.executable, "-P", "-c", _PROGRAM, *sys.path)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=_environment(),
            start_new_session=True,  # Ctrl-C in a terminal is for the server, which ends the helper itself
        )
        async with asyncio.timeout(_START_S):
            first = await _exchange(process, b"")
        if first.trace:
            raise RuntimeError(first.trace)
        return process

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _exchange(process: asyncio.subprocess.Process, message: bytes) -> Made:
    assert process.stdin is not None
    assert process.stdout is not None
    if message:
        process.stdin.write(message)
        await process.stdin.drain()
    length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES), "big")
    if length > MAX_ANSWER:
        raise EOFError(length)
    return msgspec.msgpack.decode(await process.stdout.readexactly(length), type=Made)


async def _ended_by(process: asyncio.subprocess.Process) -> int:
    """Give the signal that ended a process which has closed its pipes; 0 if it was none, or it lingers."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            return max(0, -await process.wait())
    return 0


def _environment() -> dict[str, str]:
    """This process's variables; libraries that would start a thread for each core start none."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("ANEW_")}
    return own | dict.fromkeys(_ONE_THREAD, "1") | _REUSED_MEMORY
