"""MUTATE over sets larger than a chunk: what moves, what is kept, and that every counter still says what the rows say."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from anew.engine import bulk, verbs
from anew.engine.bulk import CHUNK
from anew.fwp import globs
from anew.fwp.policies import DEAD_MS
from anew.jobs import State
from anew.store.selection import Filter, Page
from tests.unit.engine.rig import ALL

from .desk import Desk

STATES = {"scheduled": State.SCHEDULED, "retries": State.RETRYING, "dead": State.DEAD}
COUNT = 2 * CHUNK + 7


@pytest.fixture
def desk() -> Desk:
    return Desk()


def fill(desk: Desk, target: str, count: int = COUNT, **fields: Any) -> None:
    """Put jobs in a set, every other of type `even`."""
    fields = {"queue": "mail", "jobtype": "odd", "args": [], "retry": -1 if target == "dead" else 25} | fields
    if target == "scheduled":
        fields["at"] = "2099-01-02T03:04:05Z"
    jobs = [
        fields | {"jid": f"job-{n:04}", "args": [n, *fields["args"]], "jobtype": "odd" if n % 2 else "even"}
        for n in range(count)
    ]
    assert desk.say(f"PUSHB {json.dumps(jobs)}") == "{}"
    for _ in range(0 if target == "scheduled" else count):
        desk.say(f'FAIL {{"jid":"{desk.fetch()["jid"]}","message":"no"}}')
    assert sum(desk.sets()) == count


def mutate(desk: Desk, cmd: str, target: str, **chosen: Any) -> None:
    order = {"cmd": cmd, "target": target} | ({"filter": chosen} if chosen else {})
    assert desk.say(f"MUTATE {json.dumps(order)}") == "+OK"
    found = desk.rig.store.reader().recount()
    assert (found.counters, found.heads) == ({}, [])
    assert desk.rig.broken_rules() == []


@pytest.mark.parametrize("target", STATES)
@pytest.mark.parametrize("cmd", ["clear", "discard", "kill", "requeue"])
def test_whole_sets(desk: Desk, cmd: str, target: str) -> None:
    """Faktory checklist 81 and 85."""
    fill(desk, target)
    mutate(desk, cmd, target)
    found = desk.ask("INFO")["faktory"]
    dead = COUNT if cmd == "kill" else 0
    assert (desk.sets(), found["total_enqueued"]) == ((0, 0, dead, 0), COUNT if cmd == "requeue" else 0)


@pytest.mark.parametrize("target", STATES)
@pytest.mark.parametrize("cmd", ["discard", "kill", "requeue"])
@pytest.mark.parametrize(
    "chosen",
    [
        {"jobtype": "even"},
        {"regexp": '*"jobtype":"even"*'},
        {"jids": [f"job-{n:04}" for n in range(0, COUNT, 2)]},
    ],
    ids=["type", "pattern", "ids"],
)
def test_parts_of_sets(desk: Desk, cmd: str, target: str, chosen: dict[str, Any]) -> None:
    """Faktory checklist 82 and 83."""
    fill(desk, target)
    mutate(desk, cmd, target, **chosen)
    even = (COUNT + 1) // 2
    keys = desk.rig.store.find(Filter(types=frozenset({"even"})), ALL)
    states = {job.state for job in desk.rig.store.load(keys)}
    assert (len(keys), states) == {
        "discard": (0, set()),
        "kill": (even, {State.DEAD}),
        "requeue": (even, {State.READY}),
    }[cmd]
    assert (
        desk.rig.store.count(Filter(types=frozenset({"odd"}), states=frozenset({STATES[target]})))
        == COUNT - even
    )


@pytest.mark.parametrize("target", STATES)
def test_who_is_killed_is_kept_for_half_a_year_from_then(desk: Desk, target: str) -> None:
    fill(desk, target, 1)
    desk.advance(5_000)
    mutate(desk, "kill", target)
    (job,) = desk.rig.store.load(desk.rig.store.find(Filter(), ALL))
    # the clock has stood still since the command, but for rests between chunks
    assert 0 <= desk.rig.clock.now() + DEAD_MS - (job.purge_at or 0) < 1_000
    assert DEAD_MS == 15_552_000_000


def test_requeued_retries_keep_what_their_failure_says(desk: Desk) -> None:
    """Faktory checklist 88."""
    fill(desk, "retries", 1)
    (job,) = desk.rig.store.load(desk.rig.store.find(Filter(), ALL))
    mutate(desk, "requeue", "retries")
    failure = desk.fetch()["failure"]
    assert (failure["message"], failure["retry_count"], failure["remaining"]) == ("no", 0, 25)
    assert failure["next_at"] == iso(job.ready_at)


def iso(at: int) -> str:
    text = f"{datetime.fromtimestamp(at / 1_000, UTC):%Y-%m-%dT%H:%M:%S}.{at % 1_000:03}"
    return text.rstrip("0").rstrip(".") + "Z"


def test_ids_and_types_are_found_without_any_payload(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(desk, "scheduled", 9)
    loaded: list[bool] = []
    load = desk.rig.store.load

    def watched(keys: Any, *, payload: bool = False) -> Any:
        loaded.append(payload)
        return load(keys, payload=payload)

    monkeypatch.setattr(desk.rig.store, "load", watched)
    mutate(desk, "kill", "scheduled", jids=["job-0001"])
    mutate(desk, "kill", "scheduled", jobtype="even")
    assert True not in loaded
    mutate(desk, "kill", "scheduled", regexp="*odd*")
    assert True in loaded
    assert desk.sets() == (0, 0, 9, 0)


def test_long_payloads_are_met_a_few_in_a_batch(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "CHUNK_BYTES", 10_000)
    monkeypatch.setattr(desk.service.mutations, "_timer", lambda: 0.0)  # no batch ends by its time
    fill(desk, "scheduled", 10, args=["x" * 4_000])
    chunks: list[int] = []
    find = desk.rig.store.find

    def watched(where: Filter, page: Page) -> list[int]:
        found = find(where, page)
        if where.keys is not None and page.limit == CHUNK:
            chunks.append(len(where.keys))
        return found

    monkeypatch.setattr(desk.rig.store, "find", watched)
    mutate(desk, "discard", "scheduled", regexp="*nothing like it*")
    assert chunks == [2, 2, 2, 2, 2]
    monkeypatch.setattr(bulk, "CHUNK_BYTES", 10)
    mutate(desk, "discard", "scheduled", regexp="*xxx*")
    assert desk.sets() == (0, 0, 0, 0)


def test_a_job_that_is_no_longer_there_is_passed_over(desk: Desk) -> None:
    """A chunk's jobs are looked at again in the transaction that changes them."""
    fill(desk, "scheduled", 2)
    mutate(desk, "requeue", "scheduled", jids=["job-0000"])
    mutate(desk, "kill", "scheduled", jids=["job-0000", "job-0001", "job-9999"])
    assert desk.sets() == (0, 0, 1, 0)
    assert desk.fetch()["jid"] == "job-0000"


def test_a_long_text_is_judged_over_several_batches(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch has time for one go; the second job says no only at its end."""
    monkeypatch.setattr(verbs, "JUDGING_S", 0)
    monkeypatch.setattr(globs, "STEPS", 20_000)
    for number, end in ((1, "needle"), (2, "")):
        desk.push(number, at="2099-01-02T03:04:05Z", args=["x" * 50_000 + end])
    batches = len(desk.group.batches)
    mutate(desk, "discard", "scheduled", regexp="*needle*")
    assert len(desk.group.batches) - batches >= 6
    assert desk.sets() == (1, 0, 0, 0)
