"""The answers to enqueues, written with as little as can be."""

import asyncio
import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from anew.engine import Call, Enqueue, Enqueued, Entry
from anew.errors import Overloaded
from anew.http.api import ApiSettings
from anew.http.enqueuing import EnqueueRoutes
from anew.http.formats import JSON
from anew.http.newjobs import LONG_BODY
from anew.jobs import IdText, NewJob
from anew.net import chunks
from anew.net.chunks import Chunks
from anew.net.seam import WireCounters

from .asked import Answer, Asked

TAG = "0123abcde"


class NoFolds:
    """Has nothing to check."""

    def run(self, jobs: Sequence[NewJob], then: Callable[[Any], None], *, listed: str = "") -> None:
        then(None)


class FullCommit:
    """Has no room for new jobs."""

    def submit_new(self, op: Enqueue) -> None:
        op.done(Overloaded("full"))

    submit_long = submit_new


SHORT = b'{"type":"t","queue":"q","payload":1}'
LONG = b'{"type":"t","queue":"q","payload":"%b"}' % (b"x" * LONG_BODY)


def ask(path: str, body: bytes) -> tuple[Answer, dict[str, int]]:
    counters = WireCounters()
    engine = SimpleNamespace(ids=IdText(TAG))
    context: Any = SimpleNamespace(
        commit=FullCommit(),
        engine=engine,
        reads=None,
        counters=counters,
        settings=ApiSettings(),
        chunks=Chunks(),
        fold_checks=NoFolds(),
    )
    routes = EnqueueRoutes(context)
    request = Asked("POST", path, body)
    (routes.many if path.endswith("bulk") else routes.one)(request, JSON, ())
    return request.answer, counters.refused


@pytest.mark.parametrize("body", [SHORT, LONG], ids=["short", "long"])
@pytest.mark.parametrize("path", ["/jobs", "/jobs/bulk"])
def test_a_refusal_for_want_of_room_is_counted(
    path: str, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "BUDGET_MS", 60_000)  # read in one go: there is no loop here
    answer, refused = ask(path, b'{"jobs":[%b]}' % body if path.endswith("bulk") else body)
    assert (answer.status, answer.extra, refused) == (503, ((b"retry-after", b"1"),), {"overloaded": 1})


ODD = b'{"type":"t","queue":"q","payload":1,"priority":null}'
PACKED = b"\x83\xa4type\xa1t\xa5queue\xa1q\xa7payload\x01"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'{"jobs":[%b]}' % b",".join([ODD] * 4_000), b"application/json"),
        (b"\x81\xa4jobs\xdc" + (8_000).to_bytes(2, "big") + PACKED * 8_000, b"application/msgpack"),
    ],
    ids=["json", "msgpack"],
)
def test_a_bulk_of_many_small_jobs_is_read_in_chunks(body: bytes, content_type: bytes) -> None:
    """What has to be read job by job costs some 30 us a job, so bytes alone do not tell how long a bulk takes."""
    assert len(body) < LONG_BODY
    engine = SimpleNamespace(ids=IdText(TAG))
    context: Any = SimpleNamespace(
        commit=FullCommit(),
        engine=engine,
        reads=None,
        counters=WireCounters(),
        settings=ApiSettings(),
        chunks=Chunks(),
        fold_checks=NoFolds(),
    )
    request = Asked("POST", "/jobs/bulk", body)
    request.headers = {b"content-type": content_type}

    async def ask_once() -> bool:
        EnqueueRoutes(context).many(request, JSON, ())
        at_once = bool(request.answers)
        while not request.answers:
            await asyncio.sleep(0)
        return at_once

    assert not asyncio.run(ask_once())
    assert request.answer.status == 503


class Commit:
    """Knows each batch when it is asked about it, and says of a new job what it is told to."""

    def __init__(self, key: int, entry: Entry) -> None:
        self.entered = Enqueued([key], 0, {0: entry})

    def submit(self, op: Call) -> None:
        op.done(None)

    def submit_new(self, op: Enqueue) -> None:
        op.done(self.entered)


def ask_tied(commit: Commit) -> Answer:
    """Enqueue a job of a batch; no job can be read any more."""
    ids = IdText(TAG)
    context: Any = SimpleNamespace(
        commit=commit,
        engine=SimpleNamespace(ids=ids),
        reads=SimpleNamespace(
            jobs=lambda keys, payload: {},
            in_parts=lambda parts, read, then, bounded: then(map(read, parts)),
        ),
        counters=WireCounters(),
        settings=ApiSettings(),
        chunks=Chunks(),
        fold_checks=NoFolds(),
    )
    ties = {"batch": ids.write_batch(1)}
    body = {"jobs": [{"type": "t", "queue": "q", "payload": 1, "ties": ties}]}
    request = Asked("POST", "/v1/jobs/bulk", json.dumps(body).encode())
    EnqueueRoutes(context).many_tied(request, JSON, ())
    return request.answer


def test_a_job_whose_batch_goes_at_the_last_moment_is_not_said_to_be_stored() -> None:
    answer = ask_tied(Commit(-1, Entry.NO_BATCH))
    assert (answer.status, answer.data["error"]) == (404, "no such batch")


def test_a_duplicate_of_a_job_that_is_gone_is_one_all_the_same() -> None:
    (job,) = ask_tied(Commit(7, Entry.DUPLICATE)).data["jobs"]
    assert (job["id"], job["duplicate"]) == (f"{TAG}{7:016x}", True)
