"""What a server listens on: its doors, and what answers at each."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from anew.admin.api import AdminApi
from anew.admin.backup import Backups
from anew.admin.compact import Compacting
from anew.admin.events import Events
from anew.app.certificates import Certificates
from anew.app.deliver import Deliverers
from anew.app.running import address_of, cannot_listen
from anew.app.settled import (
    api_settings,
    crons_of,
    defaults_of,
    fwp_policies,
    guard_settings,
    throttles_of,
    topic_terms,
)
from anew.config import Settings
from anew.engine import Batch, Call
from anew.engine.crontab import Replaced, replace_group
from anew.engine.ops import Verb
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
from anew.http.api import Api, ApiSettings, Context
from anew.http.router import Router
from anew.http.tokens import Tokens
from anew.net.listener import NetServer
from anew.net.port import HttpPort
from anew.net.seam import App
from anew.web import assets, faktory
from anew.web.dashboard import actions, limits, replanning, webhooks
from anew.web.dashboard import pages as dashboard
from anew.web.dashboard import server as server_page
from anew.web.dashboard.replies import forbidden
from anew.web.dashboard.server import About
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


CRON_GROUP = "faktory"
"""The group of the cron entries that Faktory's tables name."""


class Door(NamedTuple):
    """One address that a server listens on.

    Attributes:
        name: ``primary``, ``admin``, ``fwp`` or ``fwp-web``.
        host, port: Where; port 0 takes a free one.
        connection: Makes the protocol of each connection.
        handshake_ms: What it allows for its whole handshake, that of TLS with it; None: one as long as a head.
    """

    name: str
    host: str
    port: int
    connection: Callable[[], asyncio.Protocol]
    handshake_ms: int | None = None


class Doors:
    """The doors of one server, built from its settings.

    Args:
        settings: Everything that was said about the server.
        certificates: Those of the doors that have one.
        server: Keeps the connections.
        context: What routes may use.
        deliverers: Who delivers to webhooks.
        helper: Draws the lab's pages.
        backups: What the admin door sends copies of the store with.
        loop: Of the server.
        about: What its page says of it.

    Attributes:
        streams: The route that holds take streams.
        tables_changed: Has the cron entries and limits that settings name, and no others, and calls back; None where the Faktory
            Work Protocol is off.
    """

    def __init__(
        self,
        settings: Settings,
        certificates: Certificates,
        server: NetServer,
        context: Context,
        *,
        deliverers: Deliverers,
        helper: HelperProcess,
        backups: Backups,
        loop: asyncio.AbstractEventLoop,
        about: About,
    ) -> None:
        self._settings = settings
        self._about = about
        self._certificates = certificates
        self._server = server
        self._context = context
        self._helper = helper
        self.tables_changed: Callable[[Settings, Callable[[Any], None]], None] | None = None
        router = Router()
        self.streams = add_routes(router, context, loop)
        self._open: list[take.TakeRoutes | Events] = [self.streams]
        server.on_drain.append(self.streams.end_all)
        self.all = [self._primary(router, deliverers)]
        if not settings.admin.off:
            self.all.append(self._admin(backups, loop))
        if not settings.fwp.off:
            service = self._faktory(loop)
            if settings.fwp.web_port is not None:
                self.all.append(self._faktory_web(service, settings.fwp.web_port))

    async def listen(self) -> dict[str, str]:
        """Open all doors; give the address of each by its name.

        Raises:
            Unavailable: One of them cannot be listened on.
        """
        bound: dict[str, str] = {}
        for door in self.all:
            try:
                address = await self._server.listen(
                    door.host,
                    door.port,
                    door.connection,
                    tls=self._certificates.by_door.get(door.name),
                    handshake_ms=door.handshake_ms,
                )
            except OSError as error:
                raise cannot_listen(door.host, door.port, error, _FLAGS[door.name]) from error
            bound[door.name] = address_of(*address)
        return bound

    def end_revoked(self, tokens: Tokens) -> None:
        """End what was opened with tokens that are no longer good for it."""
        for routes in self._open:
            routes.end_revoked(tokens)

    def _primary(self, router: Router, deliverers: Deliverers) -> Door:
        """The HTTP API with the pages."""
        settings, context = self._settings, self._context
        topics.add_routes(router, context, topic_terms(settings), guard_settings(settings), deliverers.start)
        dashboard.add_home(router)
        self._add_pages(router)
        port = self._http(Api(context.settings, context.counters, router, forbidden))
        return Door("primary", settings.listen.host, settings.listen.port, port.connection)

    def _add_pages(self, router: Router) -> None:
        dashboard.add_routes(router, self._context, defaults_of(self._settings).policy)
        actions.add_routes(router, self._context)
        replanning.add_routes(router, self._context)
        webhooks.add_routes(router, self._context, topic_terms(self._settings))
        limits.add_routes(router, self._context)
        server_page.add_routes(router, self._context, self._about)
        lab.add_routes(router, self._helper)
        assets.add_routes(router)

    def _admin(self, backups: Backups, loop: asyncio.AbstractEventLoop) -> Door:
        """Zizq's admin API."""
        router = Router()
        events = Events(self._context, loop)
        self._open.append(events)
        router.add("GET", "/events", events.open, streams=True)
        router.add("POST", "/backup", backups.send, streams=True)
        router.add("POST", "/compact", Compacting(self._context, loop).compact, streams=True)
        api = AdminApi(self._api_settings("admin"), self._context.counters, router)
        chosen = self._settings.admin
        return Door("admin", chosen.host, chosen.port, self._http(api).connection)

    def _faktory(self, loop: asyncio.AbstractEventLoop) -> FwpService:
        """The Faktory Work Protocol; give what executes its commands."""
        chosen, context, server = self._settings.fwp, self._context, self._server
        enterprise = "Enterprise" in chosen.description
        service = FwpService(
            context.engine,
            context.commit,
            context.reads,
            loop,
            description=chosen.description,
            enterprise=enterprise,
            own_policy=self._settings.retry.policy is not None,
            policies=fwp_policies(self._settings),
            chunks=context.chunks,
            idempotent=chosen.idempotent_push,
        )
        port = FwpPort(
            server, service, password=chosen.password or "", enterprise=enterprise, max_line=chosen.max_line
        )
        service.figures = lambda: (port.identified, port.executed)
        results: list[Any] = []
        wait_and_apply(context.engine, [Call(_tables(self._settings, service), results.append)])
        if isinstance(results[0], AnewError):
            raise results[0]
        submit = context.commit.submit
        self.tables_changed = lambda settings, done: submit(Call(_tables(settings, service), done))
        server.on_tick.append(lambda now: service.reap())
        server.on_drain.append(service.drain)
        context.workers.doors.append(service.workers)
        self.all.append(Door("fwp", chosen.host, chosen.port, port.connection, HANDSHAKE_MS))
        return service

    def _faktory_web(self, service: FwpService, port: int) -> Door:
        """Faktory's web port: the dashboard, and what Faktory has under paths of its own."""
        router, chosen = Router(), self._settings.fwp
        self._add_pages(router)
        faktory.add_routes(router, service.read_info, service.health)
        api = Api(
            replace(self._api_settings("fwp-web"), token=None, tokens=None), self._context.counters, router
        )
        web = FaktoryWeb(api, router, chosen.web_password or chosen.password or "")
        return Door("fwp-web", chosen.web_host, port, self._http(web).connection)

    def _http(self, app: App) -> HttpPort:
        """Make a port for HTTP; its answers say so where they may be lost with the power."""
        relaxed = self._settings.store.commit == "relaxed"
        return HttpPort(self._server, app, ((b"anew-commit", b"relaxed"),) if relaxed else ())

    def _api_settings(self, door: str) -> ApiSettings:
        secure = door in self._certificates.by_door
        return api_settings(self._settings, secure=secure, tokens=self._context.settings.tokens)


def _tables(settings: Settings, service: FwpService) -> Verb:
    """Give a verb that has the cron entries and the limits that settings name, and no others.

    Returns:
        A verb that gives which entries it has changed.

    Raises:
        InvalidConfig: One of them cannot be; raised here, before anything is done.
    """
    try:
        limits = set_throttles(throttles_of(settings))
        entries = replace_group(CRON_GROUP, crons_of(settings, service.pushing.cron_job))
    except InvalidInput as error:
        raise InvalidConfig(str(error), field=error.field) from error

    def verb(batch: Batch) -> Replaced:
        replaced = entries(batch)
        limits(batch)
        return replaced

    return verb


_ROUTES = (
    enqueuing, batches, settling, reports, querying, changing, service, workers, crons, cron_groups, breakers, metrics, openapi
)  # fmt: skip


def add_routes(router: Router, context: Context, loop: asyncio.AbstractEventLoop) -> take.TakeRoutes:
    """Serve every route; give the one that holds streams."""
    for module in _ROUTES:
        module.add_routes(router, context)
    return take.add_routes(router, context, loop)


def announce(doors: Mapping[str, str], secure: Collection[str] = ()) -> None:
    """Say where a server listens: to programs in the log, to people on their terminal.

    Args:
        doors: As `Doors.listen` gives them.
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
