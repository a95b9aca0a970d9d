"""Every route of the server, without a server behind them: for what is made of the routes themselves."""

from __future__ import annotations

from unittest.mock import MagicMock

from anew.app.server import add_routes
from anew.http.api import ApiSettings
from anew.http.router import Router


def every_route() -> Router:
    """Give a router with all routes; their handlers are not to be called."""
    router = Router()
    add_routes(router, MagicMock(settings=ApiSettings()), MagicMock())
    return router
