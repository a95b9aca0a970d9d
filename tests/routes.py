"""Every route of the server, without a server behind them: for what is made of the routes themselves."""

from __future__ import annotations

from unittest.mock import MagicMock

from anew.app.doors import add_routes
from anew.http import topics
from anew.http.api import ApiSettings
from anew.http.router import Router


def every_route() -> Router:
    """Give a router with all routes; their handlers are not to be called."""
    router = Router()
    context = MagicMock(settings=ApiSettings())
    add_routes(router, context, MagicMock())
    terms = MagicMock(publish_bytes=1 << 20)
    topics.add_routes(router, context, terms, MagicMock(), MagicMock())
    return router
