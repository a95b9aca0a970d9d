"""Zizq's batched jobs: new jobs are folded into the waiting one of their key, by expressions in jq's language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.waiting import until

from .client import Client, Job
from .server import ServerProcess
from .stream import MSGPACK_STREAM, NDJSON

FAR_MS = 4_102_444_800_000  # the year 2100
WHEN = "(($existing | .p) + ($new | .p)) | length <= 4"
FOLD = "$existing | .p += ($new | .p)"


def batch_of(queue: str, **fields: str) -> dict[str, str]:
    """Keys are global, and tests share a server: each has its own."""
    return {"key": f"key of {queue}", "when": WHEN, "fold": FOLD} | fields


def enqueue(client: Client, queue: str, payload: Any, status: int = 201, **fields: Any) -> Job:
    job = {"type": "t", "queue": queue, "payload": payload, "batch": batch_of(queue)}
    response = client.post("/jobs", job | fields)
    assert response.status == status, response.data
    stored: Job = response.data
    return stored


def payloads(client: Client, queue: str) -> list[Any]:
    return [job["payload"] for job in client.jobs(queue=queue)]


def test_zizq_35_a_second_job_is_folded_into_the_first(client: Client, queue: str) -> None:
    first = enqueue(client, queue, {"p": [1], "a": 1}, priority=5)
    assert (first["duplicate"], first["folded"], first["batch"]) == (False, False, batch_of(queue))
    second = enqueue(client, queue, {"p": [2], "b": 2}, 200, type="other", priority=9)
    assert second == first | {"folded": True}
    shown = client.job(first["id"])
    assert (shown["payload"], shown["batch"], "folded" in shown) == (
        {"p": [1, 2], "a": 1},
        batch_of(queue),
        False,
    )
    assert client.count(queue=queue) == 1


def test_zizq_36_where_the_condition_fails_the_new_job_is_the_open_one(client: Client, queue: str) -> None:
    first = enqueue(client, queue, {"p": [1, 2, 3]})
    second = enqueue(client, queue, {"p": [4, 5]})
    assert second["id"] != first["id"]
    assert enqueue(client, queue, {"p": [6]}, 200)["id"] == second["id"]
    assert payloads(client, queue) == [{"p": [1, 2, 3]}, {"p": [4, 5, 6]}]


@pytest.mark.parametrize("when", ["false", "null", "empty", 'error("no")', "$new.absent", "false, true"])
def test_zizq_36_only_a_first_output_that_is_true_folds(client: Client, queue: str, when: str) -> None:
    """An error at that time is none of the producer's: the dry run was with other payloads."""
    condition = f"if $existing == $new then true else ({when}) end"
    batch = batch_of(queue, when=condition)
    first = enqueue(client, queue, {"p": [1]}, batch=batch)
    assert enqueue(client, queue, {"p": [2]}, batch=batch)["id"] != first["id"]


def test_zizq_37_the_open_job_s_own_expressions_count(client: Client, queue: str) -> None:
    mine = batch_of(queue, when="true", fold="$new")
    other = batch_of(queue, when="false", fold="$existing")
    first = enqueue(client, queue, {"p": [1]}, batch=mine)
    assert enqueue(client, queue, {"p": [2]}, 200, batch=other)["batch"] == mine
    assert client.job(first["id"])["payload"] == {"p": [2]}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"when": "1 +"}, "batch expression: when: syntax error"),
        ({"fold": "|"}, "batch expression: fold: syntax error"),
        ({"when": "$other"}, "batch expression: when: $other is not defined"),
        ({"when": 'error("no")'}, "batch dry-run: when: no"),
        ({"fold": "empty"}, "batch dry-run: fold: it gives nothing; expected one value"),
        ({"fold": "1, 2"}, "batch dry-run: fold: it gives several values; expected one"),
        ({"when": "1" + " " * 4_096}, "batch expression: when: it has 4097 bytes; expected at most 4096"),
    ],
)
def test_zizq_38_expressions_that_do_not_do_are_refused(
    client: Client, queue: str, fields: dict[str, str], words: str
) -> None:
    job = {"type": "t", "queue": queue, "payload": {"p": [1]}}
    bad = job | {"batch": batch_of(queue, **fields)}
    single = client.post("/jobs", bad)
    assert (single.status, single.data["code"], words in single.error) == (422, "invalid_expression", True), (
        single.error
    )
    many = client.post("/jobs/bulk", {"jobs": [job, bad]})
    assert (many.status, f"jobs[1]: {words}" in many.error) == (422, True), many.error
    assert client.count(queue=queue) == 0


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({"key": "k", "when": "true"}, "missing required field `fold`"),
        ({"key": 7, "when": "true", "fold": "$new"}, "batch: "),
        ([], "batch: expected object"),
        (
            {"key": "x" * 4_097, "when": "true", "fold": "$new"},
            "batch.key: expected at most 4096 bytes, got 4097",
        ),
    ],
)
def test_zizq_38_a_batch_of_another_form_is_400(client: Client, queue: str, batch: Any, words: str) -> None:
    response = client.post("/jobs", {"type": "t", "queue": queue, "payload": 1, "batch": batch})
    assert (response.status, words in response.error) == (400, True), response.error


def test_zizq_39_a_job_that_was_taken_is_not_folded_into(client: Client, queue: str) -> None:
    first = enqueue(client, queue, {"p": [1]}, backoff={"exponent": 0, "base_ms": 3_600_000, "jitter_ms": 0})
    with client.take(queue) as stream:
        assert stream.next_job()["batch"] == batch_of(queue)
        client.fail(first["id"])
    client.patch(f"/jobs/{first['id']}", {"ready_at": None})
    assert client.job(first["id"])["status"] == "ready"  # it waits again, and is closed all the same
    second = enqueue(client, queue, {"p": [2]})
    assert second["id"] != first["id"]
    assert enqueue(client, queue, {"p": [3]}, 200)["id"] == second["id"]


@pytest.mark.parametrize("end", ["delete", "cancel"])
def test_zizq_39_neither_is_one_that_has_gone(client: Client, queue: str, end: str) -> None:
    first = enqueue(client, queue, {"p": [1]})
    if end == "delete":
        client.delete(f"/jobs/{first['id']}")
    else:
        client.request("POST", f"/v1/jobs/{first['id']}/cancel")
    assert enqueue(client, queue, {"p": [2]})["id"] != first["id"]


def test_zizq_40_a_scheduled_job_takes_no_part(client: Client, queue: str) -> None:
    later = enqueue(client, queue, {"p": [1]}, ready_at=FAR_MS)
    assert later["batch"] == batch_of(queue)
    first = enqueue(client, queue, {"p": [2]})
    assert enqueue(client, queue, {"p": [3]}, ready_at=FAR_MS)["folded"] is False
    client.patch(f"/jobs/{later['id']}", {"ready_at": None})
    assert enqueue(client, queue, {"p": [4]}, 200)["id"] == first["id"]
    assert payloads(client, queue) == [{"p": [1]}, {"p": [2, 4]}, {"p": [3]}]


def test_zizq_40_a_scheduled_job_is_checked_all_the_same(client: Client, queue: str) -> None:
    job = {"type": "t", "queue": queue, "payload": 1, "ready_at": FAR_MS}
    response = client.post("/jobs", job | {"batch": batch_of(queue, when="true", fold="empty")})
    assert response.status == 422


def test_zizq_41_a_unique_key_and_a_batch_cannot_be_combined(client: Client, queue: str) -> None:
    job = {"type": "t", "queue": queue, "payload": 1, "unique_key": "k", "batch": batch_of(queue)}
    response = client.post("/jobs", job)
    assert (response.status, response.error) == (400, "unique_key and batch cannot be combined")


def test_the_items_of_one_bulk_are_folded_into_each_other(client: Client, queue: str) -> None:
    item = {"type": "t", "queue": queue, "batch": batch_of(queue)}
    plain = {"type": "t", "queue": queue, "payload": "plain"}
    jobs = [item | {"payload": {"p": [1]}}, plain, *(item | {"payload": {"p": [n]}} for n in (2, 3, 4, 5))]
    response = client.post("/jobs/bulk", {"jobs": jobs})
    assert response.status == 201
    stored = response.data["jobs"]
    assert [job["folded"] for job in stored] == [False, False, True, True, True, False]
    assert {stored[at]["id"] for at in (0, 2, 3, 4)} == {stored[0]["id"]}
    assert payloads(client, queue) == [{"p": [1, 2, 3, 4]}, "plain", {"p": [5]}]
    again = client.post("/jobs/bulk", {"jobs": [item | {"payload": {"p": [6]}}]})
    assert (again.status, again.data["jobs"][0]["folded"]) == (200, True)


def test_a_fold_that_fails_refuses_its_own_request_alone(client: Client, queue: str) -> None:
    """The dry run cannot foresee it: there both payloads are the new one."""
    fold = 'if $existing == $new then $new else error("they differ") end'
    first = enqueue(client, queue, {"p": [1]}, batch=batch_of(queue, when="true", fold=fold))
    refused = enqueue(client, queue, {"p": [2]}, 422)
    assert refused["error"] == "fold: they differ"
    plain = {"type": "t", "queue": queue, "payload": 1}
    item = plain | {"payload": {"p": [3]}, "batch": batch_of(queue)}
    many = client.post("/jobs/bulk", {"jobs": [plain, item]})
    assert (many.status, client.count(queue=queue)) == (422, 1)
    assert enqueue(client, queue, {"p": [1]}, 200)["id"] == first["id"]


def test_what_takes_too_long_is_not_folded(client: Client, queue: str) -> None:
    when = "if $existing == $new then true else (def f: f; f) end"
    batch = batch_of(queue, when=when)
    first = enqueue(client, queue, {"p": [1]}, batch=batch)
    assert enqueue(client, queue, {"p": [2]}, batch=batch)["id"] != first["id"]
    assert client.enqueue(queue)["status"] == "ready"


def test_long_payloads_are_folded_up_to_a_bound(client: Client, queue: str) -> None:
    """Payloads kept in the job's row, apart from it, and too long together to be folded."""
    batch = batch_of(queue, when="true", fold="$existing + $new")
    first = enqueue(client, queue, "a" * 1_000, batch=batch)
    enqueue(client, queue, "b" * 3_000, 200, batch=batch)
    enqueue(client, queue, "c" * 200_000, 200, batch=batch)
    assert client.job(first["id"])["payload"] == "a" * 1_000 + "b" * 3_000 + "c" * 200_000
    enqueue(client, queue, "d" * 100_000, batch=batch)
    enqueue(client, queue, "e" * 1_000_000, batch=batch)
    with client.take(queue, prefetch=3) as stream:
        assert [len(job["payload"]) for job in stream.next_jobs(3)] == [204_000, 100_000, 1_000_000]


def test_a_bulk_has_at_most_a_hundred_that_may_be_folded(client: Client, queue: str) -> None:
    item = {"type": "t", "queue": queue, "payload": {"p": []}, "batch": batch_of(queue)}
    # On a busy machine their folds may take too long, which is no verdict on their number.
    until(lambda: client.post("/jobs/bulk", {"jobs": [item] * 100}).status == 201)
    response = client.post("/jobs/bulk", {"jobs": [item] * 101})
    assert (response.status, response.error) == (
        413,
        "jobs: expected at most 100 with batch in one request, got 101",
    )


@pytest.mark.parametrize("framing", [NDJSON, MSGPACK_STREAM])
def test_a_worker_gets_the_folded_payload_once(client: Client, queue: str, framing: str) -> None:
    first = enqueue(client, queue, {"p": [1]})
    enqueue(client, queue, {"p": [2]}, 200)
    with client.take(queue, accept=framing) as stream:
        job = stream.next_job()
        assert (job["id"], job["payload"], job["batch"]) == (first["id"], {"p": [1, 2]}, batch_of(queue))
        client.succeed(job["id"])
    assert client.count(queue=queue) == 0


def test_folds_survive_a_kill(
    fresh_server: Callable[..., ServerProcess], fresh: Callable[..., Client]
) -> None:
    """Which job is open is known afterwards, and what its payload has become."""
    server = fresh_server()
    client = fresh(server)
    first = enqueue(client, "q", {"p": [1]})
    enqueue(client, "q", {"p": [2]}, 200)
    server.kill()
    client = fresh(fresh_server(root_dir=server.root_dir))
    assert enqueue(client, "q", {"p": [3]}, 200)["id"] == first["id"]
    assert client.job(first["id"])["payload"] == {"p": [1, 2, 3]}
