"""Reports of every kind: how a list of them is handed to the engine, and what one answer says of all."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from anew.engine.reports import Report
from anew.errors import StoreFailed
from anew.http import long_lists, reports
from anew.http.api import ApiSettings
from anew.http.formats import JSON
from anew.http.reports import REPORTS_IN_ONE_BATCH, ReportRoutes
from anew.jobs import IdText
from anew.net.chunks import Chunks

from .asked import Asked

IDS = IdText("tag000000")


class Engine:
    """Keeps the operation that waits, and answers it when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting: list[tuple[list[Report], Any]] = []
        self.batches: list[int] = []
        monkeypatch.setattr(reports, "Reports", lambda some, done: (some, done))
        context: Any = SimpleNamespace(
            commit=SimpleNamespace(submit=self.waiting.append),
            engine=SimpleNamespace(ids=IDS),
            settings=ApiSettings(),
            chunks=Chunks(),
            key_of=IDS.read,
        )
        self.routes = ReportRoutes(context)

    def ask(self, given: list[dict[str, Any]]) -> Asked:
        request = Asked("POST", "/v1/jobs/reports", json.dumps({"reports": given}).encode())
        self.routes.reports(request, JSON, ())
        return request

    def apply(self, error: Exception | None = None) -> None:
        """One batch, of which all have completed unless it fails."""
        (some, done), self.waiting[:] = self.waiting[0], []
        self.batches.append(len(some))
        done([None] * len(some) if error is None else error)


def successes(count: int) -> list[dict[str, Any]]:
    return [{"id": IDS.write(key), "end": "succeeded"} for key in range(1, count + 1)]


def read_all(engine: Engine, given: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Read a list at once, however long it is."""
    monkeypatch.setattr(long_lists, "LONG_LIST", 64 << 20)
    return engine.ask(given)


def test_a_long_list_is_settled_some_in_a_batch_and_answered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(monkeypatch)
    given = successes(2 * REPORTS_IN_ONE_BATCH + 7)
    given[3] = {"id": "x", "end": "unknown"}
    request = read_all(engine, given, monkeypatch)
    while engine.waiting:
        assert request.answers == []
        engine.apply()
    assert engine.batches == [REPORTS_IN_ONE_BATCH, REPORTS_IN_ONE_BATCH, 6]
    results = request.answer.data["results"]
    assert [result["id"] for result in results] == [one["id"] for one in given]
    assert results[3]["code"] == "invalid_input"
    assert {result.get("state") for at, result in enumerate(results) if at != 3} == {"completed"}


def test_long_texts_fill_a_batch_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """262,144 characters each, a message of one among them: four make 2^20, and the fifth goes beyond."""
    engine = Engine(monkeypatch)
    failure = {"end": "failed", "message": "m", "backtrace": "x" * 262_143}
    read_all(engine, [{"id": IDS.write(key)} | failure for key in range(1, 7)], monkeypatch)
    engine.apply()
    engine.apply()
    assert engine.batches == [5, 1]


def test_an_error_of_one_batch_is_the_answer_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(monkeypatch)
    request = read_all(engine, successes(3 * REPORTS_IN_ONE_BATCH), monkeypatch)
    engine.apply()
    engine.apply(StoreFailed("table job, row 7"))
    assert (engine.waiting, request.answer.status) == ([], 500)
    assert request.answer.data["code"] == "store_failed"


def test_a_list_of_which_nothing_fits_is_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(monkeypatch)
    request = engine.ask([{"id": "x"}])
    assert (engine.waiting, len(request.answer.data["results"])) == ([], 1)
