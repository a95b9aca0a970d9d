"""The server on a page: what it is, where its jobs are, what it has done since its start, and what its settings come to."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Final, NamedTuple

from anew import __version__
from anew.engine import Call
from anew.engine.stats import Histogram
from anew.engine.upkeep import free_space
from anew.http.api import Context
from anew.http.formats import Format
from anew.http.query_strings import query_pairs
from anew.http.router import Router
from anew.net.seam import Request
from anew.store.page_reads import PageReads
from anew.units import format_share, format_size_about
from anew.web.dashboard.pages import UI
from anew.web.dashboard.rendering import render
from anew.web.dashboard.replies import later, paged, written
from anew.web.dashboard.shown import Moment, cut, moment

_HERE: Final = UI + "/server"
_MOST: Final = 0.99
"""The share of commits whose time is told."""

Rows = list[tuple[str, str, Moment | None]]
"""A name, a text, an instant."""


class About(NamedTuple):
    """What only the composition root knows of a server.

    Attributes:
        place: Where its jobs are: a file, or an address without what names a user or a password.
        settings: As `Loaded.shown` gives them.
        min_free_bytes: Below this free space new jobs are refused.
    """

    place: str
    settings: Sequence[tuple[str, str, str]]
    min_free_bytes: int


class ServerPage:
    """Shows the server.

    Args:
        context: What routes may use.
        about: What it is told of itself.
    """

    def __init__(self, context: Context, about: About) -> None:
        self._context = context
        self._about = about

    def show(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show it as it is now."""
        query_pairs(request.query, frozenset())

        def found(free: int | None) -> None:
            # What is counted in the loop is read there.
            parts = {
                "Process": self._process(),
                "Since the start": self._counted(),
                "Connections": self._connections(),
            }
            self._context.reads.look(partial(self._page, parts, free), written(request, form))

        self._context.commit.submit(Call(free_space, later(request, form, found), durable=False, waits=False))

    def _page(self, parts: dict[str, Rows], free: int | None, look: PageReads) -> bytes:
        settings = [(name, cut(value), origin) for name, value, origin in self._about.settings]
        return render(
            "server.html",
            here=_HERE,
            full=self._context.engine.parts.full,
            parts={"Process": parts.pop("Process"), "Store": self._store(look, free), **parts},
            given=[row for row in settings if row[2] != "default"],
            usual=[row for row in settings if row[2] == "default"],
        )

    def _process(self) -> Rows:
        context = self._context
        now, up_ms = context.engine.clock.now(), round((time.monotonic() - context.started_at) * 1_000)
        found: Rows = [
            ("Version", f"Anew {__version__}", None),
            ("Says to Zizq's clients", context.settings.version, None),
            ("Python", platform.python_version(), None),
            ("Started", "", moment(now - up_ms, now)),
        ]
        ends = sorted(context.certificate_ends().items())
        return found + [(f"Certificate ({door}) ends", "", moment(end, now)) for door, end in ends]

    def _store(self, look: PageReads, free: int | None) -> Rows:
        facts, about = look.facts(), self._about
        found: list[tuple[str, str]] = [
            ("Engine", facts.engine),
            ("Place", about.place),
            ("Size", format_size_about(facts.size)),
            ("Schema", f"{facts.schema}"),
        ]
        if free is not None:
            found.append(
                (
                    "Free",
                    f"{format_size_about(free)}; below {format_size_about(about.min_free_bytes)} new jobs are refused",
                )
            )
        promise = {
            "full": "on the disk before each answer",
            "relaxed": "relaxed: a power cut may lose the last moments",
        }
        found.append(("Commits", promise[self._context.settings.commit]))
        return [(name, text, None) for name, text in found]

    def _counted(self) -> Rows:
        stats = self._context.engine.stats
        commits = sum(stats.commit_ms.buckets)
        found = [
            ("Commits", f"{commits:,}{_times(stats.commit_ms)}"),
            ("Jobs taken in", f"{stats.enqueued:,}"),
            ("Handed to workers", f"{stats.taken:,}"),
            ("Completed", f"{stats.completed:,}"),
            ("Attempts that failed", f"{stats.failed:,}"),
            ("Died", f"{stats.died:,}"),
            ("Reports that came too late", f"{stats.stale:,}"),
        ]
        return [(name, text, None) for name, text in found]

    def _connections(self) -> Rows:
        counters, settings = self._context.counters, self._context.settings
        streams = len(self._context.engine.dispatcher.takers)
        found = [
            ("Open", f"{counters.connections:,}"),
            ("Take streams", f"{streams:,} of {settings.max_streams:,} that may be open"),
            ("Requests since the start", f"{counters.requests:,}"),
            ("Coming in", format_size_about(counters.unfinished)),
            ("Not read yet by peers", format_size_about(counters.unsent)),
            *(
                (f"Refused: {reason.replace('_', ' ')}", f"{n:,}")
                for reason, n in sorted(counters.refused.items())
            ),
        ]
        return [(name, text, None) for name, text in found]


def _times(commits: Histogram) -> str:
    """Say how long commits take."""
    number = sum(commits.buckets)
    if not number:
        return ""
    upto = accumulate(commits.buckets)
    bound = next((at for at, n in zip(commits.bounds, upto, strict=False) if n >= _MOST * number), None)
    slow = f"within {bound:g} ms" if bound is not None else f"not within {commits.bounds[-1]:g} ms"
    return f", {commits.total / number:.2f} ms on average, {format_share(_MOST)} {slow}"


def add_routes(router: Router, context: Context, about: About) -> None:
    """Serve the page, whatever `Accept` says."""
    router.add("GET", _HERE, paged(ServerPage(context, about).show), streams=True)
