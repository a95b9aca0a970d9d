"""The composition root: the one place that knows every part by name and puts them together."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from anew import logs
from anew.backoff import Policy
from anew.clock import Clock, SystemClock
from anew.config import Listen, Settings, require_safe_bind
from anew.engine import Engine, GroupCommit, recover
from anew.engine import Limits as EngineLimits
from anew.errors import AnewError, InvalidConfig, Unavailable
from anew.http import changes, enqueue, jobs, metrics, openapi, probes, service, settle, take, v1
from anew.http.api import Alone, Api, ApiSettings, Context
from anew.http.reads import Reads
from anew.http.router import Router
from anew.http.seam import WireCounters, WireLimits
from anew.http.wire.server import HttpServer
from anew.jobs import Defaults, History
from anew.store.protocol import Store
from anew.store.sqlite import SqliteArchive, SqliteStore
from anew.web import lab
from anew.web.helper_process import HelperProcess

log = logging.getLogger("anew.server")

_PAGE = 1_000
"""Jobs that are read of a store at a time."""

SWITCH_INTERVAL_S = 0.0005
"""How long a busy thread keeps the interpreter's lock when another wants it: the reader's thread must not make the loop's thread
wait the usual 5 ms at each of its steps."""


def open_store(settings: Settings) -> Store:
    """Open the store that the settings name.

    Raises:
        StoreBusy: Another server holds it.
        NewerStore: A newer program wrote it.
        InvalidConfig: The directory cannot be used.
    """
    relaxed = settings.store.commit == "relaxed"
    try:
        return SqliteStore(Path(settings.store.root_dir), relaxed=relaxed, background=True)
    except InvalidConfig as error:
        # The store does not know what its directory is called where people set it.
        raise InvalidConfig(f"--root-dir: {error}", field="root-dir", value=error.value) from error


def defaults_of(settings: Settings) -> Defaults:
    """Give what holds for jobs that say nothing of their own."""
    policy = Policy.from_json(settings.retry.document())
    if settings.retry.limit is not None:
        policy = policy.with_limit(settings.retry.limit)
    return Defaults(
        policy=policy,
        completed_ms=settings.retention.completed_ms,
        dead_ms=settings.retention.dead_ms,
        interruption_limit=settings.retry.interruption_limit,
    )


def api_settings(settings: Settings) -> ApiSettings:
    """Give what the routes need to know."""
    listen, limits = settings.listen, settings.limits
    hosts = {name.lower().encode() for name in listen.allowed_hosts} | {_bracketed(listen.host)}
    return ApiSettings(
        token=listen.token,
        allowed_hosts=frozenset(hosts),
        heartbeat_ms=settings.timing.heartbeat_interval_ms,
        max_job_bytes=limits.max_job,
        max_bulk=limits.max_bulk,
        max_streams=limits.max_streams,
        max_stream_jobs=limits.max_stream_jobs,
        version=listen.reported_version,
        commit=settings.store.commit,
    )


def wire_limits(settings: Settings) -> WireLimits:
    """Give what a peer may ask of the wires."""
    limits = settings.limits
    return WireLimits(
        max_body=limits.max_body,
        max_unfinished=16 * limits.max_body,
        max_connections=limits.max_connections,
        header_timeout_ms=limits.header_timeout_ms,
        stall_timeout_ms=limits.stream_stall_timeout_ms,
    )


class Server:
    """One server: a store, an engine, and the HTTP edge around it, in one event loop.

    Args:
        settings: Everything that was said about it.
        store: An open store; the server closes it.
        clock: Where time comes from.
    """

    def __init__(self, settings: Settings, store: Store, clock: Clock | None = None) -> None:
        self.settings = settings
        self.store = store
        self.engine = Engine(
            store,
            clock=clock or SystemClock(),
            defaults=defaults_of(settings),
            limits=EngineLimits(
                global_in_flight=settings.limits.global_in_flight,
                max_lease_ms=settings.timing.max_lease_ms,
                min_free_bytes=settings.limits.min_free_disk,
            ),
        )
        self._stopping: asyncio.Event | None = None
        self.exit_code = 0

    async def run(self, ready: Callable[[str, int], None] | None = None) -> int:
        """Serve until told to stop.

        Args:
            ready: Called with the bound address once requests are served.

        Returns:
            The process's exit code.

        Raises:
            Unavailable: Its address cannot be listened on.
        """
        loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        commit = GroupCommit(self.engine, loop, self._fatal, reap_ms=self.settings.timing.reaper_interval_ms)
        reads = Reads(self.store.reader(), loop)
        counters = WireCounters()
        context = Context(self.engine, commit, reads, api_settings(self.settings), counters)
        router = Router()
        streams = add_routes(router, context, loop)
        helper = HelperProcess()
        lab.add_routes(router, helper)
        server = HttpServer(Api(context, router), wire_limits(self.settings), counters)
        server.on_drain = streams.end_all
        server.gate.on_late = commit.set_late
        commit.start()
        try:
            host, port = await server.start(self.settings.listen.host, self.settings.listen.port)
        except OSError as error:
            commit.close()
            reads.close()
            raise _cannot_listen(self.settings.listen, error) from error
        if ready is not None:
            ready(host, port)
        await self._stopping.wait()
        if self.exit_code == 0:
            log.info("draining", extra={"timeout_ms": self.settings.timing.drain_timeout_ms})
            await server.drain(self.settings.timing.drain_timeout_ms)
            commit.close()
        else:
            server.close()
        await helper.close()
        reads.close()
        return self.exit_code

    def stop(self) -> None:
        """Stop gracefully; called a second time, at once."""
        assert self._stopping is not None
        if self._stopping.is_set():
            log.warning("stopping at once")
            os._exit(130)
        self._stopping.set()

    def _fatal(self) -> None:
        """The store has failed: what was in doubt is settled by the next start, so end now."""
        assert self._stopping is not None
        self.exit_code = 1
        self._stopping.set()


def add_routes(router: Router, context: Context, loop: asyncio.AbstractEventLoop) -> take.TakeRoutes:
    """Serve every route; give the one that holds streams."""
    enqueue.add_routes(router, context)
    settle.add_routes(router, context)
    for module in (jobs, changes, service, v1, metrics, probes, openapi):
        module.add_routes(router, context)
    return take.add_routes(router, context, loop)


def recorded_failures(directory: Path) -> Iterator[History]:
    """Give the jobs of a data directory that have failed, the latest first; a server may go on beside it.

    Raises:
        NotFound: There is no store.
        NewerStore, StoreFailed: It cannot be read by this program.
    """
    archive = SqliteArchive(directory)
    try:
        before: int | None = None
        while page := archive.histories(before, _PAGE):
            yield from page
            before = page[-1].job.key
    finally:
        archive.close()


def serve(settings: Settings) -> int:
    """Run a server in this process until it is told to stop.

    Returns:
        The process's exit code.

    Raises:
        AnewError: It cannot start: the bind is not safe, the store is held or was written by a newer program.
    """
    require_safe_bind(settings)
    set_up_logs(settings)
    store = open_store(settings)
    try:
        server = Server(settings, store)
        returned = recover(server.engine)
        if returned:
            log.info("jobs in flight at the last stop are ready again", extra={"jobs": returned})
        if settings.store.commit == "relaxed":
            log.warning("commit is relaxed: a power cut may lose what was answered in the last moments")
        return run_loop(server.run(_announce))
    finally:
        _close(store)


def serve_lab(listen: Listen, ready: Callable[[str], None] | None = None) -> int:
    """Serve the lab alone, without any store, until told to stop.

    Args:
        listen: Where, and for whom.
        ready: Called with the page's address once it is served.

    Returns:
        The process's exit code.

    Raises:
        InvalidConfig: The bind is not safe.
        Unavailable: The address cannot be listened on.
    """
    settings = Settings(listen=listen)
    require_safe_bind(settings)
    logs.set_up("auto", "warn")
    return run_loop(_serve_lab(settings, ready))


async def _serve_lab(settings: Settings, ready: Callable[[str], None] | None) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    edge = Alone(api_settings(settings), WireCounters())
    helper = HelperProcess()
    router = Router()
    router.add("GET", "/", lab.to_the_lab, streams=True)
    lab.add_routes(router, helper)
    server = HttpServer(Api(edge, router), wire_limits(settings), edge.counters)
    try:
        host, port = await server.start(settings.listen.host, settings.listen.port)
    except OSError as error:
        raise _cannot_listen(settings.listen, error) from error
    if ready is not None:
        ready(f"http://{_address(host, port)}{lab.LAB}")
    await stopping.wait()
    server.close()
    await helper.close()
    return 0


def set_up_logs(settings: Settings) -> None:
    """Send logs where the settings say."""
    chosen = settings.log
    if not chosen.to_disk and chosen.dir is None:
        logs.set_up(chosen.format, chosen.level)
        return
    folder = chosen.dir or settings.store.root_dir / "log"
    handler = logs.rotating(folder, chosen.rotation, chosen.max_size, chosen.max_files)
    logs.set_up(chosen.format, chosen.level, rotation=handler)


def run_loop(main: Any) -> int:
    """Run a coroutine on the fastest loop there is."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()  # what was imported stays; the collector need not walk it again and again
    try:
        import uvloop
    except ImportError:
        return int(asyncio.run(main))
    return int(uvloop.run(main))


def _announce(host: str, port: int) -> None:
    address = _address(host, port)
    log.info("listening", extra={"api": "primary", "addr": address, "scheme": "http"})
    if sys.stderr.isatty():
        print(f"Anew serves on http://{address}; stop it with Ctrl-C", file=sys.stderr)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _cannot_listen(listen: Listen, error: OSError) -> Unavailable:
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    return Unavailable(
        f"cannot listen on --host {listen.host} --port {listen.port} ({reason}); expected an address of this machine and "
        "a port that no other program has (--port 0 takes a free one)"
    )


def _close(store: Store) -> None:
    try:
        store.close()
    except AnewError:
        log.exception("the store did not close cleanly; the next start recovers it")


def _bracketed(host: str) -> bytes:
    return f"[{host}]".encode() if ":" in host else host.encode()
