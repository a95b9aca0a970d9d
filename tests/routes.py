"""Every route of the server, without a server behind them: for what is made of the routes themselves."""

from __future__ import annotations

from unittest.mock import MagicMock, patch

from anew.app import doors as app_doors
from anew.app.certificates import Certificates
from anew.app.doors import Doors, add_routes
from anew.config import Fwp, Settings
from anew.http import topics
from anew.http.api import ApiSettings
from anew.http.roles import Roles
from anew.http.router import Router


def every_route() -> Router:
    """Give a router with all routes; their handlers are not to be called."""
    router = Router()
    context = MagicMock(settings=ApiSettings())
    add_routes(router, context, MagicMock())
    terms = MagicMock(publish_bytes=1 << 20)
    topics.add_routes(router, context, terms, MagicMock(), MagicMock())
    return router


def doors() -> dict[str, Router]:
    """Give the routes of each port of a server that has them all, added as a server adds them; they are not to be called."""
    routers: list[Router] = []

    def router() -> Router:
        routers.append(Router())
        return routers[-1]

    mocks = {name: MagicMock() for name in ("deliverers", "helper", "backups", "loop", "about")}
    with (
        patch.object(app_doors, "Router", router),
        patch.object(app_doors, "wait_and_apply", lambda engine, calls: calls[0].done(None)),
    ):
        context = MagicMock(settings=ApiSettings())
        Doors(Settings(fwp=Fwp(web_port=0)), Certificates({}), MagicMock(), context, **mocks)
    primary, admin, web = routers
    return {"primary": primary, "admin": admin, "fwp-web": web}


def for_admins(method: str, template: str) -> Roles:
    """Say who may use a route that a test has made up."""
    return frozenset({"admin"})
