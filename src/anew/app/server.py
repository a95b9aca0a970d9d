"""The server: store, engine, edge and pages, put together and run until told to stop."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import signal
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from anew.admin.api import AdminApi
from anew.admin.backup import Backups
from anew.admin.compact import Compacting
from anew.admin.events import Events
from anew.app.certificates import Certificates, certificates_of
from anew.app.deliver import Deliverers
from anew.app.running import address_of, cannot_listen, run_loop, stop_signals
from anew.app.settled import (
    api_settings,
    crons_of,
    defaults_of,
    fwp_policies,
    guard_settings,
    open_store,
    set_up_logs,
    throttles_of,
    topic_terms,
    wire_limits,
)
from anew.clock import Clock, SystemClock
from anew.config import Loaded, Settings, declared, require_safe_bind, unsafe_binds
from anew.engine import Batch, Call, Engine, GroupCommit, recover
from anew.engine import Limits as EngineLimits
from anew.engine.crontab import Replaced, replace_group
from anew.engine.ops import Verb
from anew.engine.reads import Reads
from anew.engine.searches import Searches
from anew.engine.throttles import set_throttles
from anew.engine.upkeep import wait_and_apply
from anew.errors import AnewError, InvalidConfig, InvalidInput
from anew.fwp.connection import HANDSHAKE_MS, FwpPort
from anew.fwp.service import FwpService
from anew.http import (
    batches,
    breakers,
    changing,
    cron_groups,
    crons,
    enqueuing,
    metrics,
    openapi,
    querying,
    reports,
    service,
    settling,
    take,
    topics,
    workers,
)
from anew.http.api import Api, Context
from anew.http.fold_checks import FoldChecks
from anew.http.router import Router
from anew.jq import Expressions
from anew.net.certificate import Certificate
from anew.net.chunks import Chunks
from anew.net.listener import NetServer
from anew.net.port import HttpPort
from anew.net.seam import WireCounters
from anew.store.protocol import Store
from anew.store.sqlite import Places, archive, remove_unsent
from anew.topics.registry import any_subscription
from anew.web import assets, faktory
from anew.web.dashboard import actions
from anew.web.dashboard import pages as dashboard
from anew.web.faktory import FaktoryWeb
from anew.web.lab import routes as lab
from anew.web.lab.helper_process import HelperProcess

log = logging.getLogger("anew.server")

_SCHEMES = {
    "primary": ("http", "https"),
    "admin": ("http", "https"),
    "fwp": ("tcp", "tcp+tls"),
    "fwp-web": ("http", "https"),
}

_FLAGS = {"primary": "--", "admin": "--admin-", "fwp": "--fwp-", "fwp-web": "--fwp-web-"}
"""How the settings of each door begin."""

_HANDSHAKES_MS = {"fwp": HANDSHAKE_MS}
"""What a door allows for its whole handshake, that of TLS with it; the others allow one as long as a head."""

CRON_GROUP = "faktory"
"""The group of the cron entries that Faktory's tables name."""

_RELOADED = {("fwp_tables", "cron"), ("fwp_tables", "throttles")}
"""The settings that `Server.reload` looks at."""

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
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: Clock | None = None,
        load: Callable[[], Settings] | None = None,
        certificates: Mapping[str, Certificate] | None = None,
    ) -> None:
        self.settings = settings
        self.certificates = Certificates(certificates or {})
        self._load = load
        self._tables_changed: Callable[[Settings, Callable[[Any], None]], None] | None = None
        self.store = store
        expressions = Expressions()
        self.engine = Engine(
            store,
            clock=clock or SystemClock(),
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
            ready: Called with the address of each door by its name (``primary``, ``admin``, ``fwp``) once all are open.
            heeds_signals: Stop at a signal; only in the main thread.

        Returns:
            The process's exit code.

        Raises:
            Unavailable: Its address cannot be listened on.
        """
        loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        if heeds_signals:
            for number in stop_signals():
                loop.add_signal_handler(number, self.stop)
            loop.add_signal_handler(signal.SIGHUP, self.reload)
        reads = Reads(self.store, loop)
        counters = WireCounters()
        commit = GroupCommit(
            self.engine,
            loop,
            self._fatal,
            peers=lambda: counters.connections - len(streams.open) - self.engine.fetches.waiting(),
            reap_ms=self.settings.timing.reaper_interval_ms,
        )
        fold_checks = FoldChecks(self._expressions, loop)
        searches = Searches(reads.later, self._expressions, loop)
        context = Context(
            self.engine,
            commit,
            reads,
            searches,
            api_settings(self.settings, secure="primary" in self.certificates.by_door),
            counters,
            fold_checks,
            certificate_ends=self.certificates.ends,
        )
        router = Router()
        streams = add_routes(router, context, loop)
        deliverers = Deliverers(self.settings)
        topics.add_routes(
            router, context, topic_terms(self.settings), guard_settings(self.settings), deliverers.start
        )
        helper = HelperProcess()
        lab.add_routes(router, helper)
        assets.add_routes(router)
        dashboard.add_home(router)
        dashboard.add_routes(router, context, defaults_of(self.settings).policy)
        actions.add_routes(router, context)
        server = NetServer(wire_limits(self.settings), counters)
        server.on_drain.append(streams.end_all)
        server.on_drain.append(searches.stop)
        server.on_tick.append(self.certificates.look)
        http = HttpPort(server, Api(context.settings, counters, router))
        commit.start()
        doors: list[tuple[str, str, int, Callable[[], asyncio.Protocol]]] = [
            ("primary", self.settings.listen.host, self.settings.listen.port, http.connection)
        ]
        backups = None
        if not self.settings.admin.off:
            backups = Backups(partial(archive, Places.at(self.settings.store.root_dir)), loop)
            server.on_drain.append(backups.stop)
            doors.append(("admin", *self._admin(server, context, loop, backups)))
        if not self.settings.fwp.off:
            service, port = self._fwp(server, commit, reads, loop, context.chunks)
            context.workers.doors.append(service.workers)
            doors.append(("fwp", self.settings.fwp.host, self.settings.fwp.port, port.connection))
            if self.settings.fwp.web_port is not None:
                web = self._faktory_web(context, service, helper)
                pages = HttpPort(server, web).connection
                doors.append(("fwp-web", self.settings.fwp.web_host, self.settings.fwp.web_port, pages))
        bound: dict[str, str] = {}
        try:
            for name, host, port_number, connection in doors:
                tls, handshake_ms = self.certificates.by_door.get(name), _HANDSHAKES_MS.get(name)
                address = await server.listen(
                    host, port_number, connection, tls=tls, handshake_ms=handshake_ms
                )
                bound[name] = address_of(*address)
        except OSError as error:
            server.close()
            commit.close()
            fold_checks.close()
            self._expressions.close()
            reads.close()
            raise cannot_listen(host, port_number, error, _FLAGS[name]) from error
        if ready is not None:
            ready(bound)
        if self.settings.webhooks.deliverers:
            commit.submit(Call(any_subscription, deliverers.start_if, durable=False))
        await self._stopping.wait()
        log.info("draining", extra={"timeout_ms": self.settings.timing.drain_timeout_ms})
        await server.drain(self.settings.timing.drain_timeout_ms)
        await deliverers.stop()
        fold_checks.close()
        commit.close()
        if backups is not None:
            await backups.close()
        self._expressions.close()
        await helper.close()
        searches.close()
        reads.close()
        return 0

    def _admin(
        self, server: NetServer, context: Context, loop: asyncio.AbstractEventLoop, backups: Backups
    ) -> tuple[str, int, Callable[[], asyncio.Protocol]]:
        """Put the admin listener together; give where it listens, and what makes its connections."""
        router = Router()
        router.add("GET", "/events", Events(context, loop).open, streams=True)
        router.add("POST", "/backup", backups.send, streams=True)
        router.add("POST", "/compact", Compacting(context, loop).compact, streams=True)
        secure = "admin" in self.certificates.by_door
        api = AdminApi(api_settings(self.settings, secure=secure), context.counters, router)
        chosen = self.settings.admin
        return chosen.host, chosen.port, HttpPort(server, api).connection

    def _fwp(
        self,
        server: NetServer,
        commit: GroupCommit,
        reads: Reads,
        loop: asyncio.AbstractEventLoop,
        chunks: Chunks,
    ) -> tuple[FwpService, FwpPort]:
        """Put the Faktory Work Protocol together."""
        chosen = self.settings.fwp
        enterprise = "Enterprise" in chosen.description
        service = FwpService(
            self.engine,
            commit,
            reads,
            loop,
            description=chosen.description,
            enterprise=enterprise,
            own_policy=self.settings.retry.policy is not None,
            policies=fwp_policies(self.settings),
            chunks=chunks,
            idempotent=chosen.idempotent_push,
        )
        port = FwpPort(
            server, service, password=chosen.password or "", enterprise=enterprise, max_line=chosen.max_line
        )
        service.figures = lambda: (port.identified, port.executed)
        results: list[Any] = []
        wait_and_apply(self.engine, [Call(_tables(self.settings, service), results.append)])
        if isinstance(results[0], AnewError):
            raise results[0]
        self._tables_changed = lambda settings, done: commit.submit(Call(_tables(settings, service), done))
        server.on_tick.append(lambda now: service.reap())
        server.on_drain.append(service.drain)
        return service, port

    def _faktory_web(self, context: Context, service: FwpService, helper: HelperProcess) -> FaktoryWeb:
        """Put Faktory's web port together: the dashboard, and what Faktory has under paths of its own."""
        router = Router()
        dashboard.add_routes(router, context, defaults_of(self.settings).policy)
        actions.add_routes(router, context)
        lab.add_routes(router, helper)
        assets.add_routes(router)
        faktory.add_routes(router, service.read_info, service.health)
        settings = api_settings(self.settings, secure="fwp-web" in self.certificates.by_door)
        api = Api(replace(settings, token=None), context.counters, router)
        return FaktoryWeb(api, router, self.settings.fwp.web_password or self.settings.fwp.password or "")

    def reload(self) -> None:
        """Read the certificates' files again, and the settings, whose cron entries and limits all count in one transaction.

        What cannot be read changes nothing. All other settings count at the next start.
        """
        self.certificates.reload()
        if self._load is None or self._tables_changed is None:
            log.info(
                "no settings are read again: cron entries and throttles belong to the Faktory Work Protocol, which is off"
            )
            return
        try:
            settings = self._load()
            self._tables_changed(settings, partial(self._reloaded, settings))
        except AnewError as error:
            _tell_kept(error)

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


def _tables(settings: Settings, service: FwpService) -> Verb:
    """Give a verb that has the cron entries and the limits that settings name, and no others.

    Returns:
        A verb that gives which entries it has changed.

    Raises:
        InvalidConfig: One of them cannot be; raised here, before anything is done.
    """
    try:
        limits = set_throttles(throttles_of(settings))
        entries = replace_group(CRON_GROUP, crons_of(settings, service.cron_job))
    except InvalidInput as error:
        raise InvalidConfig(str(error), field=error.field) from error

    def verb(batch: Batch) -> Replaced:
        replaced = entries(batch)
        limits(batch)
        return replaced

    return verb


def _tell_kept(error: AnewError) -> None:
    log.error(
        "the settings cannot be read again; cron entries and throttles stay as they were",
        extra={"reason": str(error)},
    )


_ROUTES = (
    enqueuing, batches, settling, reports, querying, changing, service, workers, crons, cron_groups, breakers, metrics, openapi
)  # fmt: skip


def add_routes(router: Router, context: Context, loop: asyncio.AbstractEventLoop) -> take.TakeRoutes:
    """Serve every route; give the one that holds streams."""
    for module in _ROUTES:
        module.add_routes(router, context)
    return take.add_routes(router, context, loop)


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
    set_up_logs(settings)
    _told(loaded)
    for bind in unsafe_binds(settings):
        for what in bind.missing:
            log.warning(_INSECURE[what], extra={"setting": bind.name, "addr": bind.host})
    store = open_store(settings)
    try:
        server = Server(settings, store, load=lambda: _told(load()), certificates=certificates)
        remove_unsent(Places.at(settings.store.root_dir))
        returned = recover(server.engine)
        if returned:
            log.info("jobs in flight at the last stop are ready again", extra={"jobs": returned})
        if settings.store.commit == "relaxed":
            log.warning("commit is relaxed: a power cut may lose what was answered in the last moments")
        return run_loop(server.run(partial(announce, secure=certificates)))
    finally:
        _close(store)


_INSECURE = {
    "authentication": "--insecure: whoever reaches this address owns the queue, because nothing asks who it is",
    "tls": "--insecure: what is said at this address can be read on its way, because nothing is encrypted here",
}


def _told(loaded: Loaded) -> Settings:
    """Give settings, and log what of Faktory's files has no effect."""
    for key in loaded.passed_over:
        log.warning("a key of Faktory's settings is not known and has no effect", extra={"key": key})
    return loaded.settings


def announce(doors: Mapping[str, str], secure: Collection[str] = ()) -> None:
    """Say where a server listens: to programs in the log, to people on their terminal.

    Args:
        doors: As `Server.run` gives them.
        secure: Names of those that speak TLS.
    """
    schemes = {door: _SCHEMES[door][door in secure] for door in doors}
    for door, address in doors.items():
        log.info("listening", extra={"api": door, "addr": address, "scheme": schemes[door]})
    spoken = ""
    if "fwp" in doors:
        host, _, port = doors["fwp"].rpartition(":")
        # What starts Faktory in a container waits for these words, and ":PORT" is how Faktory writes all addresses.
        everywhere = ipaddress.ip_address(host.strip("[]")).is_unspecified
        log.info("listening at %s:%s", "" if everywhere else host, port, extra={"api": "fwp"})
        spoken = f" and, for clients of Faktory, on {schemes['fwp']}://{doors['fwp']}"
    if sys.stderr.isatty():
        print(
            f"Anew serves on {schemes['primary']}://{doors['primary']}{spoken}; stop it with Ctrl-C",
            file=sys.stderr,
        )


def _close(store: Store) -> None:
    try:
        store.close()
    except AnewError:
        log.exception("the store did not close cleanly; the next start recovers it")
