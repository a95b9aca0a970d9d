"""What takes minutes by the clock: reservations that lapse, retries that come due, workers that fall silent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from anew.clock import ManualClock
from anew.engine import Enqueue, Op
from anew.engine.verbs import patch_one
from anew.errors import StoreFull
from anew.fwp import commands, long_lines, pushing
from anew.fwp.commands import Hello
from anew.fwp.connection import FwpConnection
from anew.fwp.workers import SILENT_MS, Workers
from anew.jobs.patch import Patch
from anew.store.selection import Filter, Page
from tests.unit.engine.rig import call

from .desk import Desk, Peer

pytestmark = pytest.mark.usefixtures("both_ways")

MINUTE = 60_000
SECOND = 1_000


@pytest.fixture
def desk() -> Desk:
    return Desk()


def lapsed(desk: Desk, **fields: object) -> str:
    """Push a job, fetch it, and let its reservation lapse."""
    jid = desk.push(1, **fields)
    desk.fetch()
    desk.advance(75 * SECOND)
    return jid


def test_a_due_retry_is_back_in_its_queue_with_its_failure(desk: Desk) -> None:
    """Faktory checklist 59."""
    jid = desk.push(1)
    first = desk.fetch()
    desk.say(f'FAIL {{"jid":"{jid}","errtype":"E","message":"m"}}')
    desk.advance(45 * SECOND + 6 * SECOND)  # the longest first wait, and what the protocol adds
    assert desk.sets() == (0, 0, 0, 0)
    got = desk.fetch()
    assert (got["failure"]["message"], got["failure"]["retry_count"]) == ("m", 0)
    assert got["enqueued_at"] > first["enqueued_at"]
    assert got["created_at"] == first["created_at"]


def test_a_due_scheduled_job_is_in_its_queue(desk: Desk) -> None:
    """Faktory checklist 60."""
    now = desk.rig.clock.now()  # 2023-11-14T22:13:20Z
    assert now == 1_700_000_000_000
    desk.push(1, at="2023-11-14T22:14:20Z")
    desk.advance(59 * SECOND)
    assert desk.sets() == (1, 0, 0, 0)
    desk.advance(7 * SECOND)
    assert desk.sets() == (0, 0, 0, 0)
    got = desk.fetch()
    assert got["at"] == "2023-11-14T22:14:20Z"
    assert got["enqueued_at"].startswith("2023-11-14T22:14:2")


@pytest.mark.parametrize("seconds", [60, 1])
def test_a_reservation_of_a_minute_lapses(desk: Desk, seconds: int) -> None:
    """Faktory checklist 61 and 62."""
    desk.push(1, reserve_for=seconds)
    desk.fetch()
    desk.advance(59 * SECOND)
    assert desk.sets() == (0, 0, 0, 1)
    desk.advance(17 * SECOND)
    assert desk.sets() == (0, 1, 0, 0)
    desk.say('MUTATE {"cmd":"requeue","target":"retries"}')
    failure = desk.fetch()["failure"]
    assert failure["errtype"] == "ReservationExpired"
    assert failure["message"] == "Faktory job reservation expired"
    assert "backtrace" not in failure


def test_a_reservation_lasts_half_an_hour_where_nothing_is_said(desk: Desk) -> None:
    """Faktory checklist 62."""
    desk.push(1)
    desk.fetch()
    desk.advance(30 * MINUTE - SECOND)
    assert desk.sets() == (0, 0, 0, 1)
    desk.advance(16 * SECOND)
    assert desk.sets() == (0, 1, 0, 0)


@pytest.mark.parametrize(
    ("retry", "sets"), [(25, (0, 1, 0, 0)), (0, (0, 0, 0, 0)), (-1, (0, 0, 1, 0)), (-7, (0, 0, 1, 0))]
)
def test_a_lapse_is_a_failure(desk: Desk, retry: int, sets: tuple[int, int, int, int]) -> None:
    """Faktory checklist 63."""
    lapsed(desk, reserve_for=60, retry=retry)
    assert (desk.totals(), desk.sets()) == ((1, 1), sets)


def test_a_verdict_after_the_lapse_changes_nothing(desk: Desk) -> None:
    """Faktory checklist 64."""
    jid = lapsed(desk, reserve_for=60)
    assert desk.say(f'ACK {{"jid":"{jid}"}}') == "+OK"
    assert desk.say(f'FAIL {{"jid":"{jid}"}}') == f"-ERR Job not found {jid}"
    assert desk.totals() == (1, 1)


def test_a_quiet_worker_waits_for_nothing(desk: Desk) -> None:
    """Faktory checklist 69."""
    desk.push(1)
    peer = desk.peer("w1")
    desk.say('BEAT {"wid":"w1","current_state":"quiet"}')
    desk.begin(peer, "FETCH mail")
    desk.advance(1_999)
    assert peer.answers == []
    desk.advance(1)
    assert peer.answers == ["$-1\r\n"]
    assert desk.fetch()["args"] == [1]


def test_a_silent_worker_is_dropped_and_a_producer_is_not(desk: Desk) -> None:
    """Faktory checklist 70 and 71."""
    one, other, producer = desk.peer("w1"), desk.peer("w1"), desk.peer()
    beating = desk.peer("w2")
    desk.push(1)
    desk.say("FETCH mail", one)
    desk.advance(SILENT_MS)
    desk.say('BEAT {"wid":"w2"}', beating)
    desk.service.workers.reap()
    assert not one.closed  # a minute is not more than a minute
    desk.advance(1)
    desk.service.workers.reap()
    assert (one.closed, other.closed, producer.closed, beating.closed) == (True, True, False, False)
    found = desk.ask("INFO")["faktory"]
    assert found["tasks"]["Workers"] == {"size": 1, "reaped": 1}
    assert found["sets"]["working"] == 1
    assert desk.say('BEAT {"wid":"w1"}') == "-ERR unknown worker w1"


def test_what_counts_as_a_sign_of_life(desk: Desk) -> None:
    """Faktory checklist 70: only HELLO's first and BEAT do."""
    peer = desk.peer("w1")
    desk.push(1)
    desk.advance(40 * SECOND)
    desk.say("FETCH mail", peer)
    desk.peer("w1")
    desk.advance(21 * SECOND)
    desk.service.workers.reap()
    assert peer.closed


def test_a_worker_that_leaves_after_it_was_dropped_takes_no_newer_one_with_it() -> None:
    """Faktory checklist 72: the same id may have come again meanwhile."""
    clock = ManualClock(1)
    workers = Workers(clock)
    old, new = Peer(), Peer()
    hello = Hello(wid="w1")
    workers.join(_connection(old), hello)
    clock.advance(SILENT_MS + 1)
    workers.reap()
    workers.join(_connection(new), hello)
    workers.leave(_connection(old))
    assert set(workers.by_wid) == {"w1"}
    workers.leave(_connection(new))
    assert workers.by_wid == {}


def test_a_fetch_waits_for_two_seconds(desk: Desk) -> None:
    """Faktory checklist 39."""
    peer = desk.peer()
    desk.begin(peer, "FETCH mail")
    desk.advance(1_999)
    assert peer.answers == []
    desk.advance(1)
    assert peer.answers == ["$-1\r\n"]
    desk.push(1)
    assert desk.fetch()["args"] == [1]  # it was called off: the job goes to the next


def test_a_job_for_one_who_leaves_before_the_answer_goes_back_to_its_place(desk: Desk) -> None:
    """In Faktory it waits until its reservation lapses."""
    peer = desk.peer()
    desk.push(1)
    desk.push(2)
    submit = desk.group.commit.submit

    def leaving(op: Op) -> None:
        submit(op)
        peer.gone = True

    desk.group.commit.submit = leaving  # type: ignore[method-assign]
    desk.begin(peer, "FETCH mail")
    assert peer.answers == ["$-1\r\n"]  # for the lines behind it
    assert desk.sets() == (0, 0, 0, 0)
    assert [desk.fetch()["args"] for _ in range(2)] == [[1], [2]]


def test_one_who_leaves_while_it_waits_takes_nothing(desk: Desk) -> None:
    peer = desk.peer()
    desk.begin(peer, "FETCH mail")
    peer.leave()
    desk.push(1)
    assert desk.fetch()["args"] == [1]
    desk.advance(3 * SECOND)
    assert peer.answers == []


def _connection(peer: object) -> FwpConnection:
    found: FwpConnection = peer  # type: ignore[assignment]
    return found


@pytest.fixture
def late(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> tuple[Peer, Op]:
    """A FETCH that stands in a batch when its two seconds are over, and is told that there is nothing."""
    held: list[Op] = []
    peer = desk.peer()
    with monkeypatch.context() as patched:
        patched.setattr(desk.group.commit, "submit", held.append)
        desk.begin(peer, "FETCH mail")
        desk.advance(2 * SECOND)
    assert peer.answers == ["$-1\r\n"]
    return peer, held[0]


def test_a_batch_that_fails_answers_no_fetch_again(desk: Desk, late: tuple[Peer, Op]) -> None:
    peer, fetch = late
    fetch.done(StoreFull("no space"))
    assert len(peer.answers) == 1


def test_a_job_for_a_fetch_that_has_its_answer_is_given_back(desk: Desk, late: tuple[Peer, Op]) -> None:
    peer, fetch = late
    jid = desk.push(1)
    desk.fetch()
    (key,) = desk.rig.store.find(Filter(), Page(limit=2))
    fetch.done(desk.rig.job(key))
    assert len(peer.answers) == 1
    assert desk.fetch()["jid"] == jid


def test_fwp_33_reliability_14_with_the_switch_a_jid_is_one_job_until_ten_minutes_after_its_end() -> None:
    """Faktory checklist 33, the other way: ready, reserved, to be retried, dead, done; and free when it is gone."""
    desk = Desk(idempotent=True)
    jid = desk.push(1, retry=1)

    def waiting() -> int:
        return int(desk.ask("INFO")["faktory"]["total_enqueued"])

    assert (desk.push(1), waiting()) == (jid, 1)
    assert desk.fetch()["args"] == [1]
    desk.push(1)
    assert (waiting(), desk.sets()) == (0, (0, 0, 0, 1))
    desk.say(f'FAIL {{"jid":"{jid}"}}')
    desk.push(1)
    assert (waiting(), desk.sets()) == (0, (0, 1, 0, 0))
    desk.advance(50 * SECOND)
    desk.fetch()
    desk.say(f'FAIL {{"jid":"{jid}"}}')
    desk.push(1)
    assert (waiting(), desk.sets()) == (0, (0, 0, 1, 0))
    desk.say('MUTATE {"cmd":"requeue","target":"dead"}')
    desk.fetch()
    assert desk.say(f'ACK {{"jid":"{jid}"}}') == "+OK"
    desk.advance(600 * SECOND - 1)
    desk.push(1)
    assert (waiting(), desk.sets()) == (0, (0, 0, 0, 0))
    desk.advance(60 * SECOND)  # what is over is removed within a minute
    desk.push(1, args=["new"])
    assert desk.fetch()["args"] == ["new"]


def test_with_the_switch_a_job_is_known_wherever_it_was_moved() -> None:
    desk = Desk(idempotent=True)
    jid = desk.push(1)
    (key,) = desk.rig.store.find(Filter(), Page())
    desk.rig.do(call(patch_one(key, Patch(queue="slow"))))
    desk.push(1)
    assert desk.ask("FETCH slow")["jid"] == jid
    assert desk.say(f'ACK {{"jid":"{jid}"}}') == "+OK"
    desk.push(1)
    assert desk.rig.store.find(Filter(), Page()) == [key]


def test_with_the_switch_a_longer_retention_of_completed_jobs_holds() -> None:
    desk = Desk(idempotent=True, completed_ms=3_600 * SECOND)
    jid = desk.push(1)
    desk.fetch()
    assert desk.say(f'ACK {{"jid":"{jid}"}}') == "+OK"
    desk.advance(3_599 * SECOND)
    desk.push(1)
    assert desk.ask("INFO")["faktory"]["total_enqueued"] == 0


def test_with_the_switch_a_callback_goes_as_without_it() -> None:
    desk = Desk(idempotent=True)
    bid = desk.say('BATCH NEW {"success":{"jobtype":"done","args":[],"queue":"mail"}}')
    assert desk.say(f"BATCH COMMIT {bid}") == "+OK"
    jid = desk.fetch()["jid"]
    assert desk.say(f'ACK {{"jid":"{jid}"}}') == "+OK"
    assert desk.rig.store.find(Filter(), Page()) == []


@pytest.mark.parametrize("other", [{"args": [2]}, {"jobtype": "other"}, {"args": ["x" * 300_000]}])
def test_reliability_14_with_the_switch_another_job_of_that_jid_is_refused(other: dict[str, Any]) -> None:
    desk = Desk(idempotent=True)
    jid = desk.push(1, args=[1])
    same = {"jid": jid, "jobtype": "kind", "args": [1], "queue": "mail"}
    refusal = f"jid {jid} was pushed before with another jobtype or args; the stored job is unchanged"
    assert desk.say(f"PUSH {json.dumps(same | other)}") == f"-ERR {refusal}"
    assert desk.ask(f"PUSHB {json.dumps([same, same | other])}") == {jid: refusal}
    new = same | {"jid": "job-0002"}
    assert desk.ask(f"PUSHB {json.dumps([new, new | other, new])}") == {
        "job-0002": refusal.replace(jid, "job-0002")
    }
    assert len(desk.rig.store.find(Filter(), Page())) == 2
    assert desk.say(f"PUSH {json.dumps(same | {'priority': 9, 'custom': {'a': 1}})}") == "+OK"


def test_with_the_switch_a_repeat_is_no_conflict_of_unique_keys_and_no_member_of_a_batch() -> None:
    desk = Desk(idempotent=True)
    custom = {"unique_for": 60}
    desk.push(1, args=[], custom=custom)
    desk.push(1, args=[], custom=custom)
    refused = '{"jid":"job-0002","jobtype":"kind","args":[],"queue":"mail","custom":{"unique_for":60}}'
    assert desk.say(f"PUSH {refused}") == "-NOTUNIQUE Job not unique"
    assert desk.say(f"PUSH {refused}") == "-NOTUNIQUE Job not unique"  # what was not stored is not repeated
    bid = desk.say('BATCH NEW {"success":{"jobtype":"done","args":[],"jid":"job-0003"}}')
    member = f'{{"jid":"job-0003","jobtype":"kind","args":[],"queue":"mail","custom":{{"bid":"{bid}"}}}}'
    assert desk.say(f"PUSHB [{member},{member},{refused}]") == '{"job-0002":"NOTUNIQUE Job not unique"}'
    assert desk.ask(f"BATCH STATUS {bid}")["total"] == 1
    assert desk.say(f"PUSH {member}") == "+OK"
    assert desk.ask(f"BATCH STATUS {bid}")["total"] == 1


def test_with_the_switch_a_repeat_with_a_long_payload_leaves_nothing_behind() -> None:
    desk = Desk(idempotent=True)
    text = "x" * 400_000
    for _ in range(2):
        desk.push(1, args=[text])
    assert desk.fetch()["args"] == [text]
    assert len(desk.rig.store.find(Filter(), Page())) == 1


@pytest.mark.parametrize(("size", "other"), [(1_000, "-NOTUNIQUE Job not unique"), (200_000, "+OK")])
def test_the_order_of_members_matters_in_long_arguments_alone(size: int, other: str) -> None:
    """Megabytes that are decoded and written in one go would hold up everybody for seconds."""
    desk = Desk()
    text, custom = "x" * size, {"unique_for": 60}
    desk.push(1, args=[{"a": text, "b": 1}], custom=custom)

    def push(number: int, argument: dict[str, Any]) -> str:
        job = {"jid": f"job-000{number}", "jobtype": "kind", "args": [argument], "queue": "mail"}
        return desk.say(f"PUSH {json.dumps(job | {'custom': custom})}")

    assert push(2, {"a": text, "b": 1}) == "-NOTUNIQUE Job not unique"
    assert push(3, {"b": 1, "a": text}) == other


def test_a_bulk_that_is_stored_in_parts_says_what_is_wrong_with_each_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Faktory checklist 34 and 35."""
    monkeypatch.setattr(pushing, "PART_JOBS", 2)
    desk = Desk()
    batches = len(desk.group.batches)
    unique = {"custom": {"unique_for": 60}, "args": []}
    jobs: list[dict[str, object]] = [
        {"jid": f"job-{n:04}", "jobtype": "kind", "args": [n], "queue": "mail"} for n in range(7)
    ]
    jobs[1] |= unique
    jobs[2]["queue"] = "a b"
    jobs[6] |= unique
    refused = desk.ask(f"PUSHB {json.dumps(jobs)}")
    assert refused.keys() == {"job-0002", "job-0006"}
    assert refused["job-0006"] == "NOTUNIQUE Job not unique"
    assert len(desk.group.batches) == batches + 4  # two jobs each, less the one with a bad queue
    assert [desk.fetch()["jid"] for _ in range(5)] == [f"job-{n:04}" for n in (0, 1, 3, 4, 5)]


def test_a_bulk_that_does_not_fit_says_which_jobs_are_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushing, "PART_JOBS", 2)
    desk = Desk()
    jobs = json.dumps([{"jid": f"job-{n:04}", "jobtype": "kind", "args": []} for n in range(5)])
    submit, left = desk.group.commit.submit_long, iter([False, True, True])

    def full(op: Enqueue) -> None:
        if next(left):
            op.done(StoreFull("no space"))
        else:
            submit(op)

    monkeypatch.setattr(desk.group.commit, "submit_long", full)
    assert desk.ask(f"PUSHB {jobs}") == dict.fromkeys(["job-0002", "job-0003", "job-0004"], "no space")
    assert desk.say(f"PUSHB {jobs}") == "-ERR no space"


def test_a_long_bulk_is_read_a_piece_at_a_time_while_it_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """So memory holds a piece of its jobs, and each that is not stored is named, also in pieces that were not read yet."""
    monkeypatch.setattr(long_lines, "PIECE", 1_000)
    monkeypatch.setattr(commands, "LONG", 1_000)
    monkeypatch.setattr(commands, "LONG_LINE", 1_000)
    desk = Desk()
    jobs: list[dict[str, object]] = [
        {"jid": f"job-{n:04}", "jobtype": "kind", "args": [n]} for n in range(90)
    ]
    jobs[40]["queue"] = "a b"
    line = f"PUSHB {json.dumps(jobs)}"
    submit = desk.group.commit.submit_long
    sizes: list[int] = []

    def noted(op: Enqueue) -> None:
        sizes.append(len(op.jobs))
        submit(op)

    monkeypatch.setattr(desk.group.commit, "submit_long", noted)
    assert desk.ask(line).keys() == {"job-0040"}
    assert sum(sizes) == 89
    assert len(sizes) >= 5
    stored, full = sizes[0], iter([False])

    def once(op: Enqueue) -> None:
        if next(full, True):
            op.done(StoreFull("no space"))
        else:
            submit(op)

    monkeypatch.setattr(desk.group.commit, "submit_long", once)
    told = desk.ask(line)
    assert told.keys() == {f"job-{n:04}" for n in range(stored, 90)}
    assert {text for jid, text in told.items() if jid != "job-0040"} == {"no space"}
    monkeypatch.setattr(desk.group.commit, "submit_long", lambda op: op.done(StoreFull("no space")))
    assert desk.say(line) == "-ERR no space"


def test_a_long_push_and_a_long_failure_are_told_like_short_ones() -> None:
    desk = Desk()
    desk.push(1, args=["x" * 300_000], custom={"unique_for": 60})
    job = desk.fetch()
    assert job["args"] == ["x" * 300_000]
    assert desk.say(f'FAIL {{"jid":"{job["jid"]}","message":"{"m" * 300_000}"}}') == "+OK"
    assert desk.say(f'FAIL {{"jid":"{job["jid"]}","message":"{"m" * 300_000}"}}').startswith(
        "-ERR Job not found"
    )
    assert desk.say(f'PUSH {{"jid":"{"j" * 300_000}"}}').startswith("-ERR jobs must have a jobtype")
