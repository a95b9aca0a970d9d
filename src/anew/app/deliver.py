"""The process that delivers: an engine on the store, a dispatcher, and what a server needs to run some of them."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anew.app.running import run_loop, show_stacks_when_asked, stop_signals
from anew.app.settled import guard_settings, set_up_logs, topic_terms
from anew.config import Loaded, Settings, declared
from anew.errors import AnewError, InvalidConfig, StoreFailed
from anew.jobs import Defaults
from anew.tasks.opening import DEFAULTS, open_engine

if TYPE_CHECKING:
    from anew.topics.dispatcher import Dispatcher

log = logging.getLogger("anew.topics")

RESTART_S: Final = (0.1, 1.0, 5.0, 30.0)
"""How long a server waits before it starts a deliverer again that has died, by how often it has in a row."""

STEADY_S: Final = 60.0
"""One that has run for so long has not died in a row."""

CHILD: Final = "ANEW_DELIVERER_OF_SERVER"
"""Set for a process that a server has started: it ends when its standard input does, as the server's death ends it."""

NEEDED: Final = "webhooks need more packages: pip install 'anew[webhooks]'"


def require_extra() -> None:
    """Check that what delivering needs is installed.

    Raises:
        InvalidConfig: It is not.
    """
    if any(find_spec(name) is None for name in ("aiohttp", "cryptography")):
        raise InvalidConfig(NEEDED)


def deliver(loaded: Loaded) -> int:
    """Deliver in this process until it is told to stop.

    Args:
        loaded: Everything that was said about it.

    Returns:
        The process's exit code.

    Raises:
        AnewError: It cannot start, or its store has failed.
    """
    require_extra()
    settings = loaded.settings
    set_up_logs(settings)
    show_stacks_when_asked()
    return run_loop(_deliver(settings))


async def _deliver(settings: Settings) -> int:
    from anew.topics.dispatcher import Dispatcher
    from anew.topics.sender import Sender

    loop = asyncio.get_running_loop()
    commit = open_engine(
        settings.store.url or settings.store.root_dir, defaults=Defaults(policy=DEFAULTS.policy)
    )
    sender = Sender(guard_settings(settings), egress_proxy=settings.webhooks.egress_proxy)
    try:
        terms = topic_terms(settings)
        dispatcher = Dispatcher(commit, terms, sender.send, slots=settings.webhooks.slots)
        stops = _Stops(dispatcher, loop, settings.timing.drain_timeout_ms / 1_000)
        for number in stop_signals():
            loop.add_signal_handler(number, stops.stop, number)
        if CHILD in os.environ:
            loop.add_reader(sys.stdin.fileno(), stops.orphaned)
        log.info("delivering", extra={"slots": settings.webhooks.slots})
        try:
            await dispatcher.run()
        except StoreFailed as error:
            log.critical("the store failed; nothing more is delivered", extra={"reason": str(error)})
            return 1
        log.info("delivered", extra=dispatcher.sent)
        return 0
    finally:
        await sender.close()
        commit.close()


class _Stops:
    """What signals do: the first one waits for what runs, as long as may be; the second one cuts it off."""

    def __init__(self, dispatcher: Dispatcher, loop: asyncio.AbstractEventLoop, drain_s: float) -> None:
        self._dispatcher = dispatcher
        self._loop = loop
        self._drain_s = drain_s
        self._stopped = False

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop after what runs; the second time at once, but for the signal of a closed terminal, which comes twice."""
        if self._stopped:
            if number != signal.SIGHUP:
                self._dispatcher.cut_off()
            return
        self._stopped = True
        self._dispatcher.stop()
        self._loop.call_later(self._drain_s, self._dispatcher.cut_off)

    def orphaned(self) -> None:
        """Standard input can be read: it has ended, for nobody writes to it."""
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        if not self._stopped:
            log.warning("the server is gone; its deliverer ends")
            self.stop()


class Deliverers:
    """The delivering processes of a server: started when there is somebody to deliver to, and again when one has died.

    Args:
        settings: Of the server.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tasks: list[asyncio.Task[None]] = []
        self._processes: set[asyncio.subprocess.Process] = set()
        self._stopping = False

    def start_if(self, subscribed: object) -> None:
        """Start them if there is somebody to deliver to, as a verb has found."""
        if subscribed is True:
            self.start()

    def start(self) -> None:
        """Start them, unless they run."""
        if self._tasks or self._stopping:
            return
        try:
            require_extra()
        except AnewError as error:
            log.warning("nothing is delivered to webhooks", extra={"reason": str(error)})
            return
        self._tasks = [
            asyncio.get_running_loop().create_task(self._keep())
            for _ in range(self._settings.webhooks.deliverers)
        ]

    async def stop(self) -> None:
        """Stop them, and wait until they have ended."""
        self._stopping = True
        for process in self._processes:
            process.terminate()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._settings.timing.drain_timeout_ms / 1_000 + 5)
        for process in self._processes:
            process.kill()

    async def _keep(self) -> None:
        deaths = 0
        loop = asyncio.get_running_loop()
        while not self._stopping:
            began = loop.time()
            process = await asyncio.create_subprocess_exec(
                *command(), env={**os.environ, **variables(self._settings)}, stdin=asyncio.subprocess.PIPE
            )
            self._processes.add(process)
            code = await process.wait()
            self._processes.discard(process)
            if self._stopping:
                return
            deaths = 0 if loop.time() - began > STEADY_S else min(deaths + 1, len(RESTART_S) - 1)
            log.error(
                "a deliverer has ended; it is started again", extra={"exit_code": code, "pid": process.pid}
            )
            await asyncio.sleep(RESTART_S[deaths])


def command() -> list[str]:
    """Give the command of a delivering process."""
    return [sys.executable, "-P", "-m", "anew", "deliver"]


def variables(settings: Settings) -> Mapping[str, str]:
    """Give the variables that tell a delivering process the settings of its server."""
    found = {
        CHILD: "1",
        "ANEW_ROOT_DIR": str(Path(settings.store.root_dir).absolute()),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    for group, field, setting in declared():
        value = getattr(getattr(settings, group), field)
        told = group in ("webhooks", "log") or setting.name in ("drain-timeout", "store")
        if not told or value in (None, (), ""):
            continue
        if isinstance(value, bool):
            value = "true" if value else "false"
        found[f"ANEW_{setting.name.upper().replace('-', '_')}"] = (
            ",".join(value) if isinstance(value, tuple) else str(value)
        )
    return found
