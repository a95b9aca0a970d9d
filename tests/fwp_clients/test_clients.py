"""What a team does with a client, done with each of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.faktory_wire import FaktoryWire

from .clients import CLIENTS, ClientProgram, Working

Start = Callable[..., Working]

WITH_BULK, WITH_INFO, WITH_MUTATE = (
    pytest.mark.parametrize(
        "client", [one for one in CLIENTS if verb not in one.lacks], ids=lambda one: one.name
    )
    for verb in ("bulk", "info", "mutate")
)


def slow_for(name: str) -> pytest.MarkDecorator:
    """All clients, of which one takes its time, by night only."""
    return pytest.mark.parametrize(
        "client",
        [pytest.param(one, marks=[pytest.mark.nightly] if one.name == name else []) for one in CLIENTS],
        ids=[one.name for one in CLIENTS],
    )


def job(queue: str, number: int = 1, **fields: Any) -> dict[str, Any]:
    """A job of type `echo` with one argument, its number."""
    return {"jid": f"{queue}-job-{number:04}", "queue": queue, "jobtype": "echo", "args": [number], **fields}


def push(wire: FaktoryWire, one: dict[str, Any]) -> None:
    """Push with the test's own connection."""
    wire.expect(f"PUSH {json.dumps(one)}")


def sets(wire: FaktoryWire) -> dict[str, int]:
    """Sizes of the sets."""
    return wire.ask("INFO")["faktory"]["sets"]


def totals(wire: FaktoryWire) -> tuple[int, int]:
    """Processed and failed since the server was emptied."""
    figures = wire.ask("INFO")["faktory"]
    return figures["total_processed"], figures["total_failures"]


def waiting(wire: FaktoryWire, queue: str) -> int:
    """Length of a queue."""
    return wire.ask("INFO")["faktory"]["queues"].get(queue, 0)


def requeue_retries(wire: FaktoryWire) -> None:
    """Make every job that awaits a retry ready now."""
    wire.expect('MUTATE {"cmd":"requeue","target":"retries"}')


def test_a_pushed_job_arrives_as_it_was_sent(
    client: ClientProgram, faktory_url: str, wire: FaktoryWire, queue: str
) -> None:
    args = [1, "zwölf €", {"deep": [None, True, 2.5]}]
    sent = job(queue, args=args, retry=3, reserve_for=120, custom={"locale": "de"})
    assert client.run("push", faktory_url, sent) == {"pushed": True}
    got = wire.ask(f"FETCH {queue}")
    assert {key: got[key] for key in sent} == sent
    assert {"created_at", "enqueued_at"} <= got.keys()


def test_a_job_for_later_waits_in_the_scheduled_set(
    client: ClientProgram, faktory_url: str, wire: FaktoryWire, queue: str
) -> None:
    assert client.run("push", faktory_url, job(queue, at="2099-01-02T03:04:05Z")) == {"pushed": True}
    assert sets(wire)["scheduled"] == 1
    assert waiting(wire, queue) == 0


def test_a_job_whose_time_has_passed_runs_at_once(
    client: ClientProgram, faktory_url: str, wire: FaktoryWire, queue: str
) -> None:
    assert client.run("push", faktory_url, job(queue, at="2001-02-03T04:05:06Z")) == {"pushed": True}
    assert wire.ask(f"FETCH {queue}")["at"] == "2001-02-03T04:05:06Z"


@WITH_BULK
def test_a_bulk_push_stores_the_good_jobs_and_names_the_bad(
    client: ClientProgram, faktory_url: str, wire: FaktoryWire, queue: str
) -> None:
    jobs = [job(queue, 1), job("no/queue", 2), job(queue, 3)]
    pattern = r"queue names must match \A[a-zA-Z0-9._-]+\z"
    refused = {"no/queue-job-0002": f'cannot get "no/queue" queue: {pattern}'}
    assert client.run("bulk", faktory_url, jobs) == {"refused": refused}
    assert [wire.ask(f"FETCH {queue}")["args"] for _ in range(2)] == [[1], [3]]


@WITH_INFO
def test_info_counts_what_waits(
    client: ClientProgram, faktory_url: str, wire: FaktoryWire, queue: str
) -> None:
    push(wire, job(queue, 1))
    push(wire, job(queue, 2))
    info = client.run("info", faktory_url)["info"]
    assert info["faktory"]["queues"][queue] == 2
    assert info["faktory"]["total_enqueued"] == 2
    assert info["server"]["faktory_version"] == "1.10.0"


@WITH_MUTATE
def test_mutate_moves_what_its_filter_names(
    client: ClientProgram, faktory_url: str, wire: FaktoryWire, queue: str
) -> None:
    for number in (1, 2, 3, 4):
        push(wire, job(queue, number, at="2099-01-02T03:04:05Z", jobtype=f"kind{number}"))

    def mutate(cmd: str, target: str, **chosen: Any) -> None:
        order = {"cmd": cmd, "target": target, "filter": chosen}
        assert client.run("mutate", faktory_url, order) == {"mutated": True}

    mutate("requeue", "scheduled", jids=[f"{queue}-job-0001"])
    assert wire.ask(f"FETCH {queue}")["args"] == [1]
    mutate("kill", "scheduled", jobtype="kind2")
    assert (sets(wire)["scheduled"], sets(wire)["dead"]) == (2, 1)
    mutate("discard", "scheduled", regexp=r'*"args":\[3\]*')
    assert sets(wire)["scheduled"] == 1
    mutate("clear", "dead")
    assert sets(wire)["dead"] == 0


def test_a_worker_runs_fails_and_runs_again(
    client: ClientProgram, wire: FaktoryWire, queue: str, working: Start
) -> None:
    broken = job(queue, 2, jobtype="fail", retry=3)
    for one in (job(queue, 1), broken, job(queue, 3)):
        push(wire, one)
    worker = working(client, queue=queue, wid=f"worker-{queue}")
    # It takes one job at a time, so that the third runs only when the verdicts on the others have been given.
    assert [worker.hear() for _ in range(3)] == [{"ran": [1]}, {"failing": [2]}, {"ran": [3]}]
    assert sets(wire)["retries"] == 1
    requeue_retries(wire)
    assert worker.hear() == {"failing": [2]}
    assert worker.stop() == []
    assert totals(wire) == (4, 2)
    assert (sets(wire)["working"], sets(wire)["retries"]) == (0, 1)
    requeue_retries(wire)
    failure = wire.ask(f"FETCH {queue}")["failure"]
    assert (failure["retry_count"], failure["remaining"], failure["message"]) == (1, 2, "boom")


@slow_for("pyfaktory")
def test_a_worker_made_quiet_takes_no_more_and_one_told_to_terminate_ends(
    client: ClientProgram, wire: FaktoryWire, queue: str, working: Start
) -> None:
    wid = f"worker-{queue}"
    push(wire, job(queue, 1))
    worker = working(client, queue=queue, wid=wid)
    assert worker.hear() == {"ran": [1]}
    assert wire.ask(f'BEAT {{"wid":"{wid}","current_state":"quiet"}}') == {"state": "quiet"}
    assert worker.hear() == {"quiet": True}
    # A FETCH that began before may still deliver; one of ours that begins now ends after it.
    assert wire.ask(f"FETCH empty-{queue}") is None
    push(wire, job(queue, 2))
    assert wire.ask(f'BEAT {{"wid":"{wid}","current_state":"terminate"}}') == {"state": "terminate"}
    assert worker.ended() == []
    assert waiting(wire, queue) == 1
    assert totals(wire) == (1, 0)
    assert sets(wire)["working"] == 0


def test_a_password_opens_a_locked_server(client: ClientProgram, locked_url: str, queue: str) -> None:
    assert client.run("push", locked_url, job(queue)) == {"pushed": True}
    with FaktoryWire.open(locked_url) as wire:
        assert wire.ask(f"FETCH {queue}")["args"] == [1]


@slow_for("node")
def test_a_wrong_password_does_not(client: ClientProgram, locked_url: str, queue: str) -> None:
    with pytest.raises(AssertionError, match=r"(?i)password"):
        client.run("push", locked_url.replace(":anew-secret@", ":wrong@"), job(queue))
    with FaktoryWire.open(locked_url) as wire:
        assert waiting(wire, queue) == 0
