"""`POST /compact`: what is needed no more is removed now, and the log is copied, some of it in each of several batches."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from anew.engine import Call
from anew.engine.upkeep import Compaction
from anew.errors import AnewError
from anew.http.api import Context
from anew.http.formats import Format
from anew.http.replies import reply_error
from anew.net.seam import Request

PAUSE_S = 0.02
"""Between two pieces."""


class Compacting:
    """Compacts on request.

    Args:
        context: What handlers may use.
        loop: The event loop.
    """

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._submit = context.commit.submit
        self._loop = loop

    def compact(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Compact the store; answer when it is done."""
        self._go_on(request, form, Compaction())

    def _go_on(self, request: Request, form: Format, compaction: Compaction) -> None:
        if not request.hung_up:
            self._submit(Call(compaction.run, partial(self._done, request, form, compaction)))

    def _done(self, request: Request, form: Format, compaction: Compaction, more: Any) -> None:
        if isinstance(more, AnewError):
            reply_error(request, form, more)
        elif more:
            self._loop.call_later(PAUSE_S, partial(self._go_on, request, form, compaction))
        else:
            request.reply(204, b"", None)
