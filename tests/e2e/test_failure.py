"""Failure reports: retry, back-off, death, error records."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .client import JSON, MSGPACK, Client, Job, now_ms

DAY_MS = 86_400_000
PAST = 1_600_000_000_000


def backoff(exponent: float, base_ms: int, jitter_ms: int = 0) -> dict[str, float]:
    return {"exponent": exponent, "base_ms": base_ms, "jitter_ms": jitter_ms}


def fail_now(client: Client, queue: str, **fields: object) -> Job:
    """Take the only job of a queue, report its failure and return what the server made of it."""
    return client.run_one(queue, lambda job_id: client.fail(job_id, **fields))


def delays(client: Client, queue: str, failures: int) -> list[int]:
    """The waits after the first ``failures`` failures, each run started at once with a patch."""
    waits = []
    for _ in range(failures):
        job = fail_now(client, queue)
        waits.append(job["ready_at"] - job["failed_at"])
        client.patch(f"/jobs/{job['id']}", {"ready_at": None})
    return waits


def test_zizq_55_a_failure_schedules_the_job(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue, payload=[1], backoff=backoff(0, 60_000))["id"]
    before = now_ms()
    job = fail_now(client, queue)
    assert (job["id"], job["status"], job["attempts"]) == (job_id, "scheduled", 1)
    assert before <= job["failed_at"] <= now_ms()
    assert job["dequeued_at"] <= job["failed_at"]
    assert job["ready_at"] == job["failed_at"] + 61_000
    assert not {"payload", "purge_at", "duplicate", "folded"} & job.keys()
    assert client.job(job_id) == job | {"payload": [1]}


def test_zizq_55_only_jobs_in_flight_can_fail(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue)["id"]
    answer = client.post(f"/jobs/{job_id}/failure", {"message": "m"})
    assert (answer.status, answer.error) == (404, "job not found in in-flight set")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (backoff(2, 100), [1100, 4100, 9100]),
        (backoff(1, 200), [1200, 2200, 3200]),
        (backoff(0.5, 0), [1000, 1414, 1732]),
        (backoff(-1, 100), [1100, 600, 433]),
    ],
)
def test_zizq_56_the_back_off_formula(
    client: Client, queue: str, policy: dict[str, float], expected: list[int]
) -> None:
    client.enqueue(queue, backoff=policy)
    assert delays(client, queue, 3) == expected


def test_zizq_56_jitter_grows_with_the_attempts(client: Client, queue: str) -> None:
    client.enqueue(queue, backoff=backoff(1, 500, 10_000))
    for attempt, delay in enumerate(delays(client, queue, 5), start=1):
        assert 0 <= delay - (attempt * 1000 + 500) <= 10_000 * attempt


def test_zizq_57_exponent_0_waits_one_second(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue, backoff=backoff(0, 0))["id"]
    job = fail_now(client, queue)
    assert job["ready_at"] - job["failed_at"] == 1000
    with client.take(queue) as stream:
        again = stream.next_job()
        assert 0 <= now_ms() - job["ready_at"] < 1500
    assert (again["id"], again["attempts"]) == (job_id, 1)


def test_the_servers_default_policy(fresh: Callable[..., Client]) -> None:
    client = fresh(
        default_retry_limit=1,
        default_backoff_exponent=2,
        default_backoff_base="3s",
        default_backoff_jitter="0",
    )
    client.enqueue("q")
    first = fail_now(client, "q")
    assert first["ready_at"] - first["failed_at"] == 4000
    assert not {"backoff", "retry_limit"} & first.keys()
    client.patch(f"/jobs/{first['id']}", {"ready_at": None})
    assert fail_now(client, "q")["status"] == "dead"


@pytest.mark.parametrize("limit", [0, 2])
def test_zizq_58_the_retry_limit(client: Client, queue: str, limit: int) -> None:
    job_id = client.enqueue(queue, retry_limit=limit)["id"]
    for attempts in range(1, limit + 1):
        job = fail_now(client, queue)
        assert (job["status"], job["attempts"]) == ("scheduled", attempts)
        client.patch(f"/jobs/{job_id}", {"ready_at": None})
    before = client.job(job_id)["ready_at"]
    dead = fail_now(client, queue)
    assert (dead["status"], dead["attempts"], dead["ready_at"]) == ("dead", limit + 1, before)
    assert client.job(job_id)["status"] == "dead"


def test_zizq_59_kill_beats_everything(client: Client, queue: str) -> None:
    client.enqueue(queue, retry_limit=100)
    assert fail_now(client, queue, kill=True)["status"] == "dead"
    client.enqueue(queue, retry_limit=100)
    killed = fail_now(client, queue, kill=True, retry_at=PAST)
    assert (killed["status"], killed["attempts"]) == ("dead", 1)
    client.enqueue(queue)
    assert fail_now(client, queue, kill=False)["status"] == "scheduled"


def test_zizq_60_retry_at_beats_the_limit(client: Client, queue: str) -> None:
    retry_at = now_ms() + DAY_MS
    client.enqueue(queue, retry_limit=0)
    job = fail_now(client, queue, retry_at=retry_at)
    assert (job["status"], job["ready_at"], job["attempts"]) == ("scheduled", retry_at, 1)


def test_zizq_60_a_past_retry_at_runs_again_at_once(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue, retry_limit=0)["id"]
    with client.take(queue) as stream:
        stream.next_job()
        assert client.fail(job_id, retry_at=PAST)["status"] == "scheduled"
        again = stream.next_job()
    assert (again["id"], again["attempts"], again["ready_at"]) == (job_id, 1, PAST)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"message": None},
        {"message": 1},
        {"message": "m", "kill": None},
        {"message": "m", "kill": 1},
        {"message": "m", "retry_at": -1},
        {"message": "m", "retry_at": "soon"},
        {"message": "m", "error_type": 1},
        {"message": "m", "backtrace": ["a"]},
    ],
)
def test_zizq_61_bad_failure_bodies_are_400(client: Client, queue: str, body: object) -> None:
    job_id = client.enqueue(queue)["id"]
    with client.take(queue) as stream:
        stream.next_job()
        answer = client.post(f"/jobs/{job_id}/failure", body)
        assert answer.status == 400
        assert answer.error
        assert client.job(job_id)["attempts"] == 0


def test_zizq_61_an_empty_message_and_nulls_are_fine(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue)["id"]
    fail_now(client, queue, message="", error_type=None, backtrace=None, retry_at=None)
    record = client.errors(job_id)[0]
    assert record["message"] == ""
    assert not {"error_type", "backtrace"} & record.keys()


def test_zizq_62_a_dead_job_stays_for_7_days(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue, retry_limit=0)["id"]
    dead = fail_now(client, queue)
    assert dead["purge_at"] == dead["failed_at"] + 7 * DAY_MS
    assert client.job(job_id)["purge_at"] == dead["purge_at"]


def test_zizq_65_error_records(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue, retry_limit=9)["id"]
    reports = [
        {"message": "one"},
        {"message": "zwei ☃", "error_type": "ValueError", "backtrace": "line 1\nline 2"},
        {"message": "three", "error_type": ""},
    ]
    failed = []
    for report in reports:
        failed.append(fail_now(client, queue, retry_at=PAST, **report))
        client.when_status(job_id, "ready")
    records = client.errors(job_id)
    assert [record["attempt"] for record in records] == [1, 2, 3]
    for record, report, job in zip(records, reports, failed, strict=True):
        times = {"dequeued_at": job["dequeued_at"], "failed_at": job["failed_at"]}
        expected = report | times | {"attempt": job["attempts"]}
        assert {name: record[name] for name in expected} == expected
    assert client.get(f"/jobs/{job_id}/errors/2").data == records[1]


def test_zizq_65_error_records_survive_a_later_success(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue, retention={"completed_ms": 60_000})["id"]
    failed = fail_now(client, queue, retry_at=PAST)
    client.run_one(queue, client.succeed)
    job = client.job(job_id)
    assert (job["status"], job["attempts"], job["failed_at"]) == ("completed", 1, failed["failed_at"])
    assert len(client.errors(job_id)) == 1


def test_zizq_65_retention_0_on_death_keeps_nothing(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue, retry_limit=0, retention={"dead_ms": 0})["id"]
    dead = fail_now(client, queue)
    assert (dead["status"], dead["attempts"]) == ("dead", 1)
    assert "purge_at" not in dead
    assert client.get(f"/jobs/{job_id}").status == 404
    assert client.get(f"/jobs/{job_id}/errors").status == 404


@pytest.mark.parametrize(("exponent", "failures"), [(13, 45), (100, 2), (3e38, 2)])
def test_an_enormous_exponent_saturates(client: Client, queue: str, exponent: float, failures: int) -> None:
    """The peer's sum wraps around to a time in the past, and the job runs hot for ever."""
    policy = backoff(exponent, 2**32 - 1, 2**32 - 1)
    job_id = client.enqueue(queue, backoff=policy, retry_limit=1000)["id"]
    for _ in range(failures - 1):
        fail_now(client, queue, retry_at=PAST)
        client.when_status(job_id, "ready")
    job = fail_now(client, queue)
    assert (job["status"], job["attempts"]) == ("scheduled", failures)
    # No wait is longer than a year, and these ask for more than that.
    assert 364 * DAY_MS <= job["ready_at"] - job["failed_at"] <= 366 * DAY_MS
    assert client.job(job_id)["status"] == "scheduled"


# -- many at once


@pytest.mark.parametrize("form", [JSON, MSGPACK])
def test_reports_in_a_list_are_decided_each_by_itself(client: Client, queue: str, form: str) -> None:
    ids = client.enqueue_many(queue, 5)
    waiting = client.enqueue(queue, ready_at=4_102_444_800_000)["id"]
    with client.take(queue, prefetch=5) as stream:
        for _ in ids:
            stream.next_job()
        reports = [
            {"id": ids[0], "message": "a", "error_type": "E", "backtrace": "b"},
            {"id": ids[1], "message": "b", "kill": True},
            {"id": waiting, "message": "c"},
            {"id": ids[2], "message": "d", "retry_at": PAST},
            {"id": ids[3]},
            {"id": ids[3], "message": "e", "retry_at": -1},
            {"message": "f"},
            {"id": "no id", "message": "g"},
            {"id": ids[0], "message": "reported a second time"},
            {"id": ids[4], "message": "h", "retry_at": 4_102_444_800_000, "more": [1]},
        ]
        sent = {"packed": {"failures": reports}} if form == MSGPACK else {"data": {"failures": reports}}
        answer = client.request("POST", "/v1/jobs/failure", accept=form, **sent)
        assert (answer.status, answer.content_type) == (200, form)
        results = answer.data["results"]
        assert [result["id"] for result in results] == [report.get("id") for report in reports]
        assert [result.get("status") or result["code"] for result in results] == [
            "scheduled", "dead", "not_found", "scheduled", "malformed_request", "malformed_request",
            "malformed_request", "not_found", "not_found", "scheduled",
        ]  # fmt: skip
        assert results[2]["error"] == "job not found in in-flight set"
        assert results[4]["error"] == "object missing required field message"
        assert results[5]["error"].startswith("retry_at: expected int >= 0, got -1")
        assert results[6]["error"] == "object missing required field id"
        for at in (0, 1, 3, 9):
            shown = results[at]["job"]
            assert (shown["id"], shown["attempts"], shown["status"]) == (
                reports[at]["id"],
                1,
                results[at]["status"],
            )
            assert "payload" not in shown
        assert client.job(ids[3])["status"] == "in_flight"
    (record,) = client.errors(ids[0])
    assert (record["message"], record["error_type"], record["backtrace"]) == ("a", "E", "b")


def test_a_list_of_reports_is_answered_as_each_of_them_would_be(client: Client, queue: str) -> None:
    """The same report, alone and in a list: the same job but for its id and its instants."""
    ids = [client.enqueue(queue, backoff=backoff(1, 200), retention={"dead_ms": 5})["id"] for _ in range(2)]
    with client.take(queue, prefetch=2) as stream:
        stream.next_job()
        stream.next_job()
        alone = client.fail(ids[0], message="m")
        (result,) = client.post("/v1/jobs/failure", {"failures": [{"id": ids[1], "message": "m"}]}).data[
            "results"
        ]
    own = {"id", "dequeued_at", "failed_at", "ready_at"}
    shown = result["job"]
    assert list(shown) == list(alone)
    assert {n: v for n, v in shown.items() if n not in own} == {
        n: v for n, v in alone.items() if n not in own
    }
    assert shown["ready_at"] - shown["failed_at"] == alone["ready_at"] - alone["failed_at"] == 1_200


def test_thousands_of_reports_are_answered_in_their_order(client: Client, queue: str) -> None:
    """More than are decided in one batch, in a body that is read in several pieces."""
    ids = client.enqueue_many(queue, 1_000)
    with client.take(queue, prefetch=1_000) as stream:
        for _ in ids:
            stream.next_job()
        reports = [{"id": job_id, "message": f"{at}" * 100} for at, job_id in enumerate(ids)]
        results = client.post("/v1/jobs/failure", {"failures": reports}).data["results"]
        assert [(result["id"], result["status"]) for result in results] == [
            (job_id, "scheduled") for job_id in ids
        ]
    assert client.errors(ids[777])[0]["message"] == "777" * 100
    client.delete(f"/jobs?queue={queue}")


@pytest.mark.parametrize("form", [JSON, MSGPACK])
@pytest.mark.parametrize(
    ("body", "status"),
    [({"failures": []}, 200), ({}, 400), ({"failures": None}, 400), ({"failures": {}}, 400), ([], 400)],
)
def test_a_list_of_reports_is_a_list(client: Client, body: object, status: int, form: str) -> None:
    sent = {"packed": body} if form == MSGPACK else {"data": body}
    answer = client.request("POST", "/v1/jobs/failure", **sent)
    assert answer.status == status
    assert answer.data == {"results": []} if status == 200 else answer.data["code"] == "malformed_request"


@pytest.mark.parametrize("form", [JSON, MSGPACK])
def test_a_list_of_reports_is_bounded(client: Client, form: str) -> None:
    reports = {"failures": [{"id": "x", "message": ""}] * 10_001}
    sent = {"packed": reports} if form == MSGPACK else {"data": reports}
    answer = client.request("POST", "/v1/jobs/failure", **sent)
    assert (answer.status, answer.data["code"]) == (413, "too_large")
    assert answer.error.startswith("failures: expected at most 10000 in one request, got 10001")


def test_of_many_failures_the_first_and_the_last_are_kept_and_the_others_counted(
    fresh: Callable[..., Client],
) -> None:
    client = fresh(error_records_first=2, error_records_last=3)
    id_ = client.enqueue("q", backoff=backoff(0, 0))["id"]
    for kind in ("A", "A", "B", "B", "B", None, "C", "C", "C"):
        client.when_status(id_, "ready")
        fail_now(client, "q", error_type=kind)
    answer = client.get(f"/jobs/{id_}/errors").data
    assert [record["attempt"] for record in answer["errors"]] == [1, 2, 7, 8, 9]
    assert answer["dropped"] == [
        {"outcome": "error", "error_type": "B", "attempts": 3},
        {"outcome": "error", "attempts": 1},
    ]
    few = client.enqueue("few")["id"]
    assert "dropped" not in client.get(f"/jobs/{few}/errors").data
