"""Reports of the ends of attempts: how a list of them is read and handed to the engine."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from anew.engine import FailMany
from anew.errors import MalformedRequest, NotFound, StoreFailed, TooLarge
from anew.http.api import ApiSettings
from anew.http.formats import JSON, MSGPACK, Format
from anew.http.settling import IN_ONE_BATCH, SettleRoutes
from anew.jobs import IdText, State
from anew.net import chunks
from anew.net.chunks import Chunks
from anew.net.seam import WireCounters
from tests.unit.jobs.helpers import make_job

from .asked import Asked
from .memory import held_to

IDS = IdText("tag000000")


class Engine:
    """Gathers reports, and answers all that wait when it is told to."""

    def __init__(self, **settings: Any) -> None:
        self.waiting: list[FailMany] = []
        self.batches: list[int] = []
        context: Any = SimpleNamespace(
            commit=SimpleNamespace(submit=self.waiting.append),
            counters=WireCounters(),
            engine=SimpleNamespace(ids=IDS),
            settings=ApiSettings(**settings),
            chunks=Chunks(),
        )
        self.routes = SettleRoutes(context)

    def apply(self, result: Any = None) -> None:
        """One batch: each job is scheduled again, unless all get another result."""
        ops, self.waiting[:] = list(self.waiting), []
        self.batches += [len(op.reports) for op in ops]
        for op in ops:
            jobs = [make_job(key=key, state=State.RETRYING, attempts=1) for key, _ in op.reports]
            op.done(jobs if result is None else result)


def reports_of(count: int, **more: Any) -> dict[str, Any]:
    return {"failures": [{"id": IDS.write(key), "message": f"m{key}"} | more for key in range(1, count + 1)]}


def ask(engine: Engine, body: bytes, content_type: str = "application/json") -> Asked:
    request = Asked("POST", "/v1/jobs/failure", body, content_type=content_type)
    engine.routes.failures(request, JSON, ())
    return request


def test_a_list_goes_to_the_engine_a_hundred_at_a_time_and_is_answered_once() -> None:
    engine = Engine()
    request = ask(engine, json.dumps(reports_of(250)).encode())
    while engine.waiting:
        assert request.answers == []
        engine.apply()
    assert engine.batches == [IN_ONE_BATCH, IN_ONE_BATCH, 50]
    results = request.answer.data["results"]
    assert [result["id"] for result in results] == [IDS.write(key) for key in range(1, 251)]
    assert {(result["status"], result["job"]["attempts"]) for result in results} == {("scheduled", 1)}


def test_long_texts_fill_a_batch_sooner() -> None:
    """262,144 characters each, a message of one among them: four make 2^20, and the fifth goes beyond."""
    engine = Engine()

    async def read() -> None:
        ask(engine, json.dumps(reports_of(6, message="m", backtrace="x" * 262_143)).encode())
        while not engine.waiting:
            await asyncio.sleep(0)

    asyncio.run(read())
    engine.apply()
    engine.apply()
    assert engine.batches == [5, 1]


def test_reports_that_do_not_fit_do_not_reach_the_engine() -> None:
    engine = Engine()
    body = reports_of(150)
    for at in (0, 99, 100, 149):
        body["failures"][at]["retry_at"] = 1 << 64
    request = ask(engine, json.dumps(body).encode())
    engine.apply()
    engine.apply()
    assert engine.batches == [98, 48]
    codes = [result.get("code") for result in request.answer.data["results"]]
    assert [at for at, code in enumerate(codes) if code is not None] == [0, 99, 100, 149]
    assert set(codes) == {None, "invalid_job"}


def test_a_text_that_is_no_utf_8_is_its_own_reports_fault() -> None:
    engine = Engine()
    body = msgspec.msgpack.encode(reports_of(3)).replace(b"\xa2m2", b"\xa2m\xff")
    request = ask(engine, body, "application/msgpack")
    engine.apply()
    codes = [result.get("code") for result in request.answer.data["results"]]
    assert codes == [None, "malformed_request", None]


def test_nothing_but_reports_that_do_not_fit_is_answered_at_once() -> None:
    engine = Engine()
    request = ask(engine, json.dumps({"failures": [{"id": "x"}, 1, None, {}] * 100}).encode())
    assert engine.waiting == []
    results = request.answer.data["results"]
    assert [result["id"] for result in results] == ["x", None, None, None] * 100


def test_a_list_of_any_length_may_be_refused_whole() -> None:
    """500 times as many as go into one batch: none of them reaches the engine, and each has its answer."""
    engine = Engine(max_bulk=50_000)

    async def read() -> Asked:
        request = ask(engine, json.dumps({"failures": [{"id": "x"}] * 50_000}).encode())
        while not request.answers:
            await asyncio.sleep(0)
        return request

    answer = asyncio.run(read()).answer
    assert (answer.status, engine.waiting) == (200, [])
    results = answer.data["results"]
    assert len(results) == 50_000
    assert {(result["id"], result["code"]) for result in results} == {("x", "malformed_request")}


@pytest.mark.parametrize(
    ("error", "words", "code"),
    [
        (NotFound("job not found in in-flight set"), "job not found in in-flight set", "not_found"),
        (StoreFailed("table job, row 7"), "internal server error", "store_failed"),
    ],
)
def test_an_error_of_the_engine_is_the_reports_own(error: Exception, words: str, code: str) -> None:
    engine = Engine()
    request = ask(engine, json.dumps(reports_of(1)).encode())
    engine.apply(error if isinstance(error, StoreFailed) else [error])
    assert request.answer.status == 200
    assert request.answer.data == {"results": [{"id": IDS.write(1), "error": words, "code": code}]}


@pytest.mark.parametrize("content_type", ["application/json", "application/msgpack"])
def test_a_long_list_is_read_in_chunks(content_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One chunk a turn of the loop, and the reports reach the engine when all are read."""
    monkeypatch.setattr(chunks, "BUDGET_MS", 0)
    encode = (JSON if content_type.endswith("json") else MSGPACK).encode
    engine = Engine()

    async def turns() -> int:
        request = ask(engine, encode(reports_of(5_000, error_type="E" * 200)), content_type)
        count = 0
        while not engine.waiting:
            count += 1
            await asyncio.sleep(0)
        while not request.answers:
            engine.apply()
        assert len(request.answer.data["results"]) == 5_000
        return count

    assert asyncio.run(turns()) >= 5  # 1.4 MB in pieces of 128 KiB, or of 100 reports


@pytest.mark.parametrize(
    "body",
    [
        b'{"failures":[' + b"{}," * 1_400_000 + b"{}]}",
        b'{"failures":[' + b'{"id":"","message":""},' * 200_000 + b"{}]}",
    ],
)
def test_a_crowd_of_reports_is_not_built(body: bytes) -> None:
    engine = Engine(max_bulk=100)

    async def read() -> Asked:
        request = ask(engine, body)
        while not request.answers:
            await asyncio.sleep(0)
        return request

    with held_to(30 << 20):
        answer = asyncio.run(read()).answer
    assert (answer.status, answer.data["code"]) == (413, "too_large")
    assert engine.waiting == []


def success_ids(body: bytes, content_type: str = "application/json") -> list[str]:
    """The ids that a bulk success would settle, read back from the engine's keys."""
    given: list[Any] = []
    context: Any = SimpleNamespace(
        commit=SimpleNamespace(submit=given.append),
        counters=WireCounters(),
        engine=SimpleNamespace(ids=IDS),
        settings=ApiSettings(max_bulk=3),
        chunks=Chunks(),
    )
    SettleRoutes(context).successes(Asked("POST", "/jobs/success", body, content_type=content_type), JSON, ())
    return [IDS.write(key) for key in given[0].keys]


def test_ids_are_read_each_once_in_both_formats() -> None:
    ids = [IDS.write(key) for key in (3, 1, 3)]
    assert success_ids(json.dumps({"more": [1], "ids": ids}).encode()) == [ids[0], ids[1]]
    for packed in (ids, [text.encode() for text in ids]):
        assert success_ids(msgspec.msgpack.encode({"ids": packed}), "application/msgpack") == [ids[0], ids[1]]


@pytest.mark.parametrize("form", ["application/json", "application/msgpack"])
@pytest.mark.parametrize(
    ("ids", "error", "words"),
    [
        ([], MalformedRequest, "ids must not be empty"),
        (["a"] * 4, TooLarge, "ids: expected at most 3 in one request, got 4"),
        (["a", 5], MalformedRequest, "ids"),
        ({}, MalformedRequest, "ids: expected array"),
    ],
)
def test_ids_that_do_not_fit_are_refused(ids: Any, error: type[Exception], words: str, form: str) -> None:
    encode = msgspec.json.encode if form.endswith("json") else msgspec.msgpack.encode
    with pytest.raises(error, match=words):
        success_ids(encode({"ids": ids}), form)


@pytest.mark.parametrize("form", [JSON, MSGPACK])
def test_of_a_long_id_only_the_beginning_is_kept_and_repeated(form: Format) -> None:
    long, shown = "i" * 10_000, "i" * 64
    engine = Engine()
    request = Asked(
        "POST", "/jobs/success", form.encode({"ids": [long]}), content_type=form.content_type.decode()
    )
    engine.routes.successes(request, JSON, ())
    success: Any = engine.waiting.pop()
    success.done(success.keys)  # none is in flight
    assert request.answer.data == {"not_found": [shown]}
    reports = [{"id": long, "message": "m"}, {"id": long, "message": 1}]  # the second does not fit
    request = ask(engine, form.encode({"failures": reports}), form.content_type.decode())
    while not request.answers:
        engine.apply(NotFound("job not found"))
    assert [result["id"] for result in request.answer.data["results"]] == [shown, shown]
