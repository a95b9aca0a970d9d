"""The messages of ``/events``: each form that Zizq documents, and what is none of them.

What is expected is written as Zizq 0.6.1 writes it; the order of members carries no meaning.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from anew.admin.messages import (
    MAX_TERMS,
    DeleteJob,
    Find,
    SetDetailLevel,
    Subscribe,
    Terms,
    Writer,
    anchor_of,
    read_message,
    start_of,
)
from anew.engine.windows import NOTHING, Around, Head, Offset, Tail, Window
from anew.jobs import IdText, Job
from anew.jobs.codec import Backoff, Retention
from anew.store.protocol import JobList, Lengths
from tests.unit.engine.rig import NOW, Rig, fail, new_job

IDS = IdText("tag000000")
SERVER = {
    "version": "0.6.1",
    "uptime_ms": 5,
    "tier": "pro",
    "total_ready": 3,
    "total_in_flight": 4,
    "total_scheduled": 5,
}


def message(**members: Any) -> bytes:
    return json.dumps(members).encode()


@pytest.mark.parametrize(
    ("anchor", "meant"),
    [
        ({"kind": "head"}, Head()),
        ({"kind": "tail"}, Tail()),
        ({"kind": "offset", "offset": 7}, Offset(7)),
        ({"kind": "around", "id": IDS.write(9)}, Around(9, "nowhere")),
        ({"kind": "around", "id": IDS.write(9), "fallback": "head"}, Around(9, "head")),
        ({"kind": "around", "id": IDS.write(9), "fallback": "tail"}, Around(9, "tail")),
        ({"kind": "around", "id": "no id of ours", "fallback": "nowhere"}, Around(-1, "nowhere")),
    ],
    ids=str,
)
@pytest.mark.parametrize("of", ["ready", "in_flight", "scheduled"])
def test_a_subscription_names_a_list_an_anchor_and_a_limit(of: str, anchor: Any, meant: Any) -> None:
    read = read_message(message(type="subscribe", list=of, anchor=anchor, limit=60))
    assert isinstance(read, Subscribe)
    assert (read.list, read.limit, anchor_of(IDS, read)) == (JobList(of), 60, meant)


@pytest.mark.parametrize(
    ("anchor", "meant"),
    [
        ({"kind": "start"}, "start"),
        ({"kind": "end"}, "end"),
        ({"kind": "job_id", "id": IDS.write(9)}, 9),
        ({"kind": "job_id", "id": "gone"}, -1),
    ],
)
@pytest.mark.parametrize("direction", ["forward", "backward", "locate"])
def test_a_search_names_where_it_begins_and_its_direction(direction: str, anchor: Any, meant: Any) -> None:
    read = read_message(message(type="find", list="ready", anchor=anchor, direction=direction, limit=3))
    assert isinstance(read, Find)
    assert (read.direction, read.query, start_of(IDS, read)) == (direction, Terms(), meant)


def test_what_is_searched_for_is_parts_of_queues_and_types() -> None:
    query = {"queues": ["mail"], "types": ["send", "get"]}
    given = message(
        type="find", list="ready", anchor={"kind": "start"}, direction="forward", limit=3, query=query
    )
    read = read_message(given)
    assert isinstance(read, Find)
    assert read.query == Terms(["mail"], ["send", "get"])


def test_the_other_messages_and_members_that_are_not_known() -> None:
    assert read_message(message(type="set_detail_level", detail=True, more=1)) == SetDetailLevel(True)
    assert read_message(message(type="delete_job", id="x")) == DeleteJob("x")


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"garbage",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"[" * 30_000,
        b'{"type":"subscribe"}',
        b'{"type":"unknown"}',
        message(type="set_detail_level", detail="yes"),
        message(type="delete_job", id=5),
        message(type="subscribe", list="dead", anchor={"kind": "head"}, limit=1),
        message(type="subscribe", list="ready", anchor={"kind": "start"}, limit=1),
        message(type="subscribe", list="ready", anchor={"kind": "head"}, limit=-1),
        message(type="subscribe", list="ready", anchor={"kind": "head"}, limit=1.5),
        message(type="subscribe", list="ready", anchor={"kind": "offset", "offset": -1}, limit=1),
        message(type="subscribe", list="ready", anchor={"kind": "around", "id": "x", "fallback": "up"}, limit=1),
        message(type="find", list="ready", anchor={"kind": "head"}, direction="forward", limit=1),
        message(type="find", list="ready", anchor={"kind": "start"}, direction="up", limit=1),
        message(
            type="find", list="ready", anchor={"kind": "start"}, direction="forward", limit=1,
            query={"types": ["x"] * (MAX_TERMS + 1)},
        ),
    ],
    ids=lambda given: given[:60],
)  # fmt: skip
def test_what_is_no_message_is_read_as_none(given: bytes) -> None:
    assert read_message(given) is None


# -- to clients


@pytest.fixture
def writer() -> Writer:
    return Writer(IDS, "0.6.1")


@pytest.fixture
def server(writer: Writer) -> msgspec.Raw:
    return writer.server(Lengths(ready=2, blocked=1, in_flight=4, scheduled=5), 5)


def failed_job(**members: Any) -> Job:
    """A job that was taken and has failed once."""
    rig = Rig()
    (key,) = rig.put(new_job(**members))
    rig.worker()
    rig.clock.advance(10)
    rig.do(fail(key))
    return rig.job(key)


def test_a_heartbeat_says_how_the_server_is_jobs_that_a_limit_holds_back_counted_as_ready(
    writer: Writer, server: msgspec.Raw
) -> None:
    assert json.loads(writer.heartbeat(server)) == {"server": SERVER, "event": "heartbeat"}


def test_a_job_is_shown_without_what_it_does_not_have(writer: Writer, server: msgspec.Raw) -> None:
    rig = Rig()
    (key,) = rig.put(new_job("q", type="t", priority=7))
    assert json.loads(writer.came(server, JobList.READY, rig.job(key), detail=True)) == {
        "server": SERVER,
        "event": "job_changed",
        "id": IDS.write(key),
        "status": "ready",
        "job": {
            "id": IDS.write(key), "queue": "q", "job_type": "t", "priority": 7, "ready_at": NOW, "attempts": 0,
        },
    }  # fmt: skip


def test_a_job_is_shown_with_more_where_detail_is_asked_for(writer: Writer, server: msgspec.Raw) -> None:
    backoff: dict[str, Any] = {"exponent": 2.0, "base_ms": 100, "jitter_ms": 30}
    job = failed_job(
        retry_limit=9,
        backoff=Backoff(**backoff),
        retention=Retention(dead_ms=60_000),
    )
    little = json.loads(writer.came(server, JobList.SCHEDULED, job, detail=False))["job"]
    assert little.keys() == {
        "id", "queue", "job_type", "priority", "ready_at", "attempts", "dequeued_at", "failed_at",
    }  # fmt: skip
    assert (little["attempts"], little["dequeued_at"], little["failed_at"]) == (1, NOW, NOW + 10)
    much = json.loads(writer.came(server, JobList.SCHEDULED, job, detail=True))["job"]
    assert much == little | {"retry_limit": 9, "backoff": backoff, "retention": {"dead_ms": 60_000}}


def test_what_has_happened_to_a_job_is_said_by_its_id(writer: Writer, server: msgspec.Raw) -> None:
    assert json.loads(writer.happened(server, 9, "ready_removed")) == {
        "server": SERVER, "event": "job_changed", "id": IDS.write(9), "status": "ready_removed",
    }  # fmt: skip


def test_a_snapshot_has_all_three_windows(writer: Writer, server: msgspec.Raw) -> None:
    windows = {of: Window([], at, at + 5) for at, of in enumerate(JobList)}
    windows[JobList.IN_FLIGHT] = Window([failed_job()], 2, 3, anchor=9)
    shown = json.loads(writer.snapshot(server, windows, detail=False))
    assert shown.keys() == {"server", "event", "ready", "in_flight", "scheduled"}
    assert (shown["server"], shown["event"]) == (SERVER, "job_snapshot")
    assert shown["ready"] == {"items": [], "first_position": 0, "total": 5}
    assert shown["scheduled"] == {"items": [], "first_position": 2, "total": 7}
    assert len(shown["in_flight"].pop("items")) == 1
    assert shown["in_flight"] == {"first_position": 2, "total": 3, "resolved_anchor": IDS.write(9)}


def test_a_search_that_finds_nothing_says_null(writer: Writer, server: msgspec.Raw) -> None:
    assert json.loads(writer.found(server, JobList.READY, *NOTHING)) == {
        "server": SERVER, "event": "find_result", "list": "ready", "matched_position": None,
        "window": {"items": [], "first_position": 0, "total": 0},
    }  # fmt: skip
