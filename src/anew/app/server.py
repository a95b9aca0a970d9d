"""The server: store, engine, edge and pages, put together and run until told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Generator, Mapping
from functools import partial
from types import MappingProxyType

from anew.admin.backup import Backups
from anew.app.certificates import Certificates, certificates_of
from anew.app.deliver import Deliverers
from anew.app.doors import Doors, announce
from anew.app.running import run_loop, show_stacks_when_asked, stop_signals, tell_systemd
from anew.app.settled import (
    about_of,
    api_settings,
    defaults_of,
    open_store,
    set_up_logs,
    tokens_of,
    wire_limits,
)
from anew.clock import Clock
from anew.config import Loaded, Settings, declared, require_safe_bind, unsafe_binds
from anew.engine import Call, Engine, GroupCommit, recover
from anew.engine import Limits as EngineLimits
from anew.engine.crontab import Replaced
from anew.engine.reads import Reads
from anew.engine.searches import Searches
from anew.errors import AnewError, InvalidConfig, NotSupported, Unavailable
from anew.http.api import Context
from anew.http.fold_checks import FoldChecks
from anew.http.tokens import Tokens
from anew.jq import Expressions
from anew.net.certificate import Certificate
from anew.net.listener import NetServer
from anew.net.seam import WireCounters
from anew.store.protocol import Store
from anew.store.sqlite import Places, archive, remove_unsent
from anew.topics.registry import any_subscription
from anew.web.lab.helper_process import HelperProcess

log = logging.getLogger("anew.server")

_RELOADED = {("fwp_tables", "cron"), ("fwp_tables", "throttles")}
"""The settings that `Server.reload` looks at."""

CLOSE_S = 2.0
"""How long a store across a network may take to close."""

STORE_FAILED = 1
"""Exit code of a server whose disk has failed."""


class Server:
    """One server: a store, an engine, and the HTTP edge around it, in one event loop.

    Args:
        settings: Everything that was said about it.
        store: An open store; the server closes it.
        clock: Where time comes from.
        load: Reads the settings again, for SIGHUP; raises an `AnewError` where they do not fit. None: nothing is read again.
        certificates: Those of the doors that have one, by the door's name.
        origins: Where each setting comes from; see `Loaded`.
        tokens: Where there is a file of them.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: Clock | None = None,
        load: Callable[[], Settings] | None = None,
        certificates: Mapping[str, Certificate] | None = None,
        origins: Mapping[str, str] = MappingProxyType({}),
        tokens: Tokens | None = None,
    ) -> None:
        self.settings = settings
        self._origins = origins
        self._tokens = tokens
        self.certificates = Certificates(certificates or {})
        self._load = load
        self._doors: Doors | None = None
        self.store = store
        expressions = Expressions()
        self.engine = Engine(
            store,
            clock=clock or store.clock,
            defaults=defaults_of(settings),
            limits=EngineLimits(
                global_in_flight=settings.limits.global_in_flight,
                max_lease_ms=settings.timing.max_lease_ms,
                min_free_bytes=settings.limits.min_free_disk,
            ),
            expressions=expressions,
        )
        self._stopping: asyncio.Event | None = None
        self._expressions = expressions

    async def run(
        self, ready: Callable[[Mapping[str, str]], None] | None = None, *, heeds_signals: bool = True
    ) -> int:
        """Serve until told to stop.

        Args:
            ready: Called with the address of each door by its name (see `Door`) once all are open.
            heeds_signals: Stop at a signal, and tell systemd of start and end; only in the main thread, of a process of its own.

        Returns:
            The process's exit code.

        Raises:
            Unavailable: An address cannot be listened on.
        """
        loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        if heeds_signals:
            for number in {*stop_signals()} - {signal.SIGHUP}:
                loop.add_signal_handler(number, self.stop)
            loop.add_signal_handler(signal.SIGHUP, self.reload)
        context = self._context(loop)
        server = NetServer(wire_limits(self.settings), context.counters)
        server.on_drain.append(context.searches.stop)
        server.on_tick.append(self.certificates.look)
        deliverers, helper = Deliverers(self.settings), HelperProcess()
        backups = Backups(partial(_archive, self.settings), loop)
        server.on_drain.append(backups.stop)
        self._doors = doors = Doors(
            self.settings, self.certificates, server, context,
            deliverers=deliverers, helper=helper, backups=backups, loop=loop,
            about=about_of(Loaded(settings=self.settings, origins=self._origins)),
        )  # fmt: skip
        context.commit.start()
        try:
            bound = await doors.listen()
        except Unavailable:
            server.close()
            self._close(context)
            raise
        if ready is not None:
            ready(bound)
        if heeds_signals:
            tell_systemd("READY=1")
        if self.settings.webhooks.deliverers:
            context.commit.submit(Call(any_subscription, deliverers.start_if, durable=False))
        await self._stopping.wait()
        if heeds_signals:
            tell_systemd("STOPPING=1")
        log.info("draining", extra={"timeout_ms": self.settings.timing.drain_timeout_ms})
        await server.drain(self.settings.timing.drain_timeout_ms)
        await deliverers.stop()
        await backups.close()
        await helper.close()
        self._close(context)
        return 0

    def _context(self, loop: asyncio.AbstractEventLoop) -> Context:
        """Put together what all doors share."""
        counters = WireCounters()
        commit = GroupCommit(
            self.engine,
            loop,
            self._fatal,
            peers=lambda: counters.connections - self._waiting(),
            reap_ms=self.settings.timing.reaper_interval_ms,
        )
        reads = Reads(self.store, loop, commit.submit if self.store.remote else None)
        return Context(
            self.engine,
            commit,
            reads,
            Searches(reads.later, self._expressions, loop),
            api_settings(self.settings, secure="primary" in self.certificates.by_door, tokens=self._tokens),
            counters,
            FoldChecks(self._expressions, loop),
            certificate_ends=self.certificates.ends,
        )

    def _waiting(self) -> int:
        """Count the connections on which jobs are waited for: nothing more comes of them in this turn."""
        streams = 0 if self._doors is None else len(self._doors.streams.open)
        return streams + self.engine.fetches.waiting()

    def _close(self, context: Context) -> None:
        """End what all doors share, the commits before what they may ask."""
        context.fold_checks.close()
        context.commit.close()
        self._expressions.close()
        context.searches.close()
        context.reads.close()

    def reload(self) -> None:
        """Read the files of certificates and tokens again, and the settings.

        The settings' cron entries and limits all count in one transaction. What cannot be read changes nothing. All other
        settings count at the next start.
        """
        self.certificates.reload()
        self._reload_tokens()
        changed = None if self._doors is None else self._doors.tables_changed
        if self._load is None or changed is None:
            log.info(
                "no settings are read again: cron entries and throttles belong to the Faktory Work Protocol, which is off"
            )
            return
        try:
            settings = self._load()
            changed(settings, partial(self._reloaded, settings))
        except AnewError as error:
            _tell_kept(error)

    def _reload_tokens(self) -> None:
        if self._tokens is None:
            return
        try:
            self._tokens.reload()
        except InvalidConfig as error:
            reason = {"reason": str(error)}
            log.error("the tokens cannot be read again; those from before stay in force", extra=reason)
        else:
            log.info("the tokens were read again", extra={"tokens": len(self._tokens)})
            if self._doors is not None:
                self._doors.end_revoked(self._tokens)

    def _reloaded(self, settings: Settings, result: Replaced | AnewError) -> None:
        if isinstance(result, AnewError):
            _tell_kept(result)
            return
        figures = {
            "cron_written": len(result.written),
            "cron_removed": len(result.removed),
            "throttles": len(settings.fwp_tables.throttles),
        }
        log.info("cron entries and throttles were read again", extra=figures)
        others = [
            setting.name
            for group, name, setting in declared()
            if (group, name) not in _RELOADED
            and getattr(getattr(settings, group), name) != getattr(getattr(self.settings, group), name)
        ]
        if others:
            log.warning(
                "other settings have changed; they count at the next start",
                extra={"settings": ", ".join(others)},
            )

    def stop(self) -> None:
        """Stop gracefully; called a second time, at once."""
        assert self._stopping is not None
        if self._stopping.is_set():
            log.warning("stopping at once")
            os._exit(130)
        self._stopping.set()

    def _fatal(self) -> None:
        """The store has failed: end before anything else is written; what was in doubt is settled by the next start."""
        log.critical("the server ends at once; start it again when the disk is well")
        logging.shutdown()
        os._exit(STORE_FAILED)


def _tell_kept(error: AnewError) -> None:
    log.error(
        "the settings cannot be read again; cron entries and throttles stay as they were",
        extra={"reason": str(error)},
    )


def serve(loaded: Loaded, load: Callable[[], Loaded]) -> int:
    """Run a server in this process until it is told to stop.

    Args:
        loaded: Everything that was said about it.
        load: Reads the settings again.

    Returns:
        The process's exit code.

    Raises:
        AnewError: It cannot start: the bind is not safe, the store is held or was written by a newer program.
    """
    settings = loaded.settings
    require_safe_bind(settings)
    certificates = certificates_of(settings)
    tokens = tokens_of(settings)
    set_up_logs(settings)
    show_stacks_when_asked()
    _told(loaded)
    if tokens is not None and tokens.roles() - {"admin"} and not settings.fwp.off:
        log.warning(_ROLES_ELSEWHERE)
    for bind in unsafe_binds(settings):
        for what in bind.missing:
            log.warning(_INSECURE[what], extra={"setting": bind.name, "addr": bind.host})
    store = open_store(settings)
    try:
        server = Server(
            settings,
            store,
            load=lambda: _told(load()),
            certificates=certificates,
            origins=loaded.origins,
            tokens=tokens,
        )
        if settings.store.url is None:
            remove_unsent(Places.at(settings.store.root_dir))
        returned = recover(server.engine)
        if returned:
            log.info("jobs in flight at the last stop are ready again", extra={"jobs": returned})
        if settings.store.commit == "relaxed":
            log.warning("commit is relaxed: a power cut may lose what was answered in the last moments")
        return run_loop(server.run(partial(announce, secure=certificates)))
    finally:
        _close(store)


def _archive(settings: Settings, stopped: Callable[[], bool]) -> Generator[bytes, None, None]:
    """Copy the store for somebody far away; see `archive`.

    Raises:
        NotSupported: A database is copied by its own means.
    """
    if settings.store.url is not None:
        raise NotSupported("the jobs are in a PostgreSQL database; pg_dump copies it")
    return archive(Places.at(settings.store.root_dir), stopped)


_ROLES_ELSEWHERE = "roles hold for HTTP alone: who may speak the Faktory Work Protocol may do everything; --no-fwp turns it off"

_INSECURE = {
    "authentication": "--insecure: whoever reaches this address owns the queue, because nothing asks who it is",
    "tls": "--insecure: what is said at this address can be read on its way, because nothing is encrypted here",
}


def _told(loaded: Loaded) -> Settings:
    """Give settings, and log what of Faktory's files has no effect."""
    for key in loaded.passed_over:
        log.warning("a key of Faktory's settings is not known and has no effect", extra={"key": key})
    return loaded.settings


def _close(store: Store) -> None:
    """Close the store, for no longer than `CLOSE_S` where that waits for a network: the process ends either way."""
    if not store.remote:
        _close_now(store)
        return
    closing = threading.Thread(target=_close_now, args=(store,), name="anew-close", daemon=True)
    closing.start()
    closing.join(CLOSE_S)
    if closing.is_alive():
        log.error("the database does not answer; the process ends without its goodbye")


def _close_now(store: Store) -> None:
    try:
        store.close()
    except AnewError:
        log.exception("the store did not close cleanly; the next start recovers it")
