"""A server for one command: it runs in a thread of this process, on a store that programs and another server may have open too."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from anew.app.server import Server
from anew.app.settled import open_store
from anew.config import Listen, Settings, Webhooks
from anew.errors import NotFound
from anew.store.sqlite import Places
from anew.tasks.backend import CRASHES
from anew.units import shown

START_S: Final = 30.0
"""How long the thread may take to listen; what fails ends it sooner."""


@contextmanager
def served(where: Path | str, webhooks: Webhooks) -> Iterator[tuple[str, str]]:
    """Serve a store while the block runs, on a free port of this machine; nobody else knows the token that it asks for.

    What holds for new jobs is what holds in a program that has the store open, and not what a server's configuration says.

    Args:
        where: A path as `Places.at` has it, where a store must be; or ``postgresql://…`` of a database.
        webhooks: What holds for topics; nothing is delivered here.

    Yields:
        The address, and the token.

    Raises:
        NotFound: There is no store.
        AnewError: It cannot be opened.
    """
    url = where if isinstance(where, str) else None
    if url is None and not Places.at(Path(where)).database.is_file():
        raise NotFound(f"{shown(str(where))} holds no store; expected the file that Anew(...) has made")
    token = secrets.token_urlsafe(32)
    usual = Settings()
    settings = replace(
        usual,
        listen=Listen(port=0, token=token),
        admin=replace(usual.admin, off=True),
        fwp=replace(usual.fwp, off=True),
        store=replace(usual.store, url=url) if url else replace(usual.store, root_dir=Path(where)),
        retry=replace(usual.retry, policy="even", limit=None, interruption_limit=CRASHES),
        webhooks=replace(webhooks, deliverers=0),
    )
    store = open_store(settings, serves=False)
    try:
        served = _Served(Server(settings, store))
        try:
            yield f"http://{served.address()}", token
        finally:
            served.stop()
    finally:
        store.close()


class _Served:
    """A server's thread."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._doors: Mapping[str, str] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._error: BaseException | None = None
        self._started = threading.Event()
        # A daemon: a command that is interrupted twice does not wait for it.
        self._thread = threading.Thread(target=self._run, name="anew-served", daemon=True)
        self._thread.start()

    def address(self) -> str:
        """Wait until it listens; give HOST:PORT.

        Raises:
            AnewError: It could not.
        """
        self._started.wait(START_S)
        if self._error is not None:
            raise self._error
        return self._doors["primary"]

    def stop(self) -> None:
        """End it."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # for whoever waits in `address`
            self._error = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.run(self._listening, heeds_signals=False)

    def _listening(self, doors: Mapping[str, str]) -> None:
        self._doors = doors
        self._started.set()
