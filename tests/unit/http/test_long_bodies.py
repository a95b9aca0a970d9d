"""Bodies whose members are jobs and results: a long one is read in chunks, so that nobody waits for all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from anew.http.api import ApiSettings
from anew.http.batches import BatchRoutes
from anew.http.crons import CronRoutes
from anew.http.formats import MSGPACK
from anew.http.reports import ReportRoutes
from anew.jobs import IdText
from anew.net import chunks
from anew.net.chunks import Chunks

from .asked import Asked

IDS = IdText("tag000000")
SMALL = {"type": "t", "queue": "q", "payload": 1}
LONG = SMALL | {"payload": [1] * 300_000}
"""Some 10 ms to count, build, check and write."""

CRON: dict[str, Any] = {"name": "n", "schedule": "0 4 * * *"}


@pytest.mark.parametrize(
    ("route", "params", "short", "long"),
    [
        (lambda all: BatchRoutes(all).create, (), {"on_success": SMALL}, {"on_complete": LONG}),
        (
            lambda all: CronRoutes(all).replace,
            ("group",),
            {"entries": [CRON | {"job": SMALL}]},
            {"entries": [CRON | {"name": f"n{n}", "job": SMALL} for n in range(1_000)]},
        ),
        (
            lambda all: ReportRoutes(all).reports,
            (),
            {"reports": [{"id": IDS.write(1), "end": "succeeded", "result": 1}]},
            {"reports": [{"id": IDS.write(1), "end": "succeeded", "result": LONG}]},
        ),
    ],
    ids=["a callback", "cron entries", "a result"],
)
def test_a_long_body_is_read_in_chunks_and_a_short_one_at_once(
    route: Callable[[Any], Any],
    params: tuple[str, ...],
    short: Any,
    long: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunks, "BUDGET_MS", 0)  # every pause is the end of a turn
    submitted: list[object] = []
    context: Any = SimpleNamespace(
        commit=SimpleNamespace(submit=submitted.append),
        engine=SimpleNamespace(ids=IDS),
        settings=ApiSettings(),
        chunks=Chunks(),
        fold_checks=SimpleNamespace(run=lambda jobs, then, listed: then(None)),
        key_of=IDS.read,
    )

    async def turns(body: Any) -> int:
        packed = msgspec.msgpack.encode(body)
        submitted.clear()
        request = Asked("POST", "/", packed, content_type="application/msgpack")
        route(context)(request, MSGPACK, params)
        taken = 0
        while not submitted:
            assert not request.answers
            taken += 1
            await asyncio.sleep(0)
        return taken

    assert asyncio.run(turns(short)) == 0
    assert asyncio.run(turns(long)) > 5
