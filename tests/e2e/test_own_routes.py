"""Anew's own routes: retry and cancel, probes, metrics; and what it adds to Zizq's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from prometheus_client.parser import text_string_to_metric_families

from .client import MSGPACK, Client, now_ms
from .server import ServerProcess

FAR_MS = 4_102_444_800_000


def dead(client: Client, queue: str, count: int = 1) -> list[str]:
    ids = client.enqueue_many(queue, count)
    with client.take(queue, prefetch=count) as stream:
        stream.next_jobs(count)
        for job_id in ids:
            client.fail(job_id, kill=True)
    return ids


@pytest.mark.parametrize("name", ["mail", "ä/b c"])
def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(
    fresh: Callable[..., Client], name: str
) -> None:
    client = fresh()
    path = f"/v1/queues/{quote(name, safe='')}"
    for _ in range(2):
        assert client.post(f"{path}/pause").data == {"name": name, "paused": True}
    job_id = client.enqueue(name)["id"]
    (listed,) = client.get("/v1/queues").data["queues"]
    assert (listed["name"], listed["ready"], listed["paused"], listed["limit"]) == (name, 1, True, None)
    with client.take(name) as stream:
        client.post(f"/jobs/{client.enqueue('other')['id']}/success")
        assert client.job(job_id)["status"] == "ready"
        for _ in range(2):
            assert client.post(f"{path}/resume").data == {"name": name, "paused": False}
        assert stream.next_job()["id"] == job_id


def test_a_paused_queue_is_listed_before_it_has_a_job_and_a_resumed_one_no_more(
    fresh: Callable[..., Client],
) -> None:
    client = fresh()
    client.post("/v1/queues/early/pause")
    assert [queue["name"] for queue in client.get("/v1/queues").data["queues"]] == ["early"]
    assert client.get("/queues").data == {"queues": []}
    client.post("/v1/queues/early/resume")
    assert client.get("/v1/queues").data == {"queues": []}


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_a_name_that_no_queue_can_have_is_neither_paused_nor_resumed(client: Client, verb: str) -> None:
    response = client.post(f"/v1/queues/a%2Cb/{verb}")
    assert (response.status, "must not contain ','" in response.error) == (400, True)


def test_a_dead_job_is_retried(client: Client, queue: str) -> None:
    (job_id,) = dead(client, queue)
    before = now_ms()
    response = client.request("POST", f"/v1/jobs/{job_id}/retry")
    assert response.status == 200
    assert (response.data["status"], response.data["attempts"]) == ("ready", 1)
    assert before <= response.data["ready_at"] <= now_ms()
    assert not {"purge_at", "payload"} & response.data.keys()
    again = client.request("POST", f"/v1/jobs/{job_id}/retry", accept=MSGPACK)
    assert (again.status, "ready" in again.error) == (409, True)
    with client.take(queue) as stream:
        assert stream.next_job()["id"] == job_id


def test_a_retried_job_may_begin_again(client: Client, queue: str) -> None:
    """Its records keep the numbers that they had, so two of one number stand on one page."""
    (job_id,) = dead(client, queue)
    response = client.post(f"/v1/jobs/{job_id}/retry", {"reset_attempts": True})
    assert response.data["attempts"] == 0
    client.run_one(queue, lambda held: client.fail(held, message="second"))
    page = client.get(f"/jobs/{job_id}/errors?limit=1").data
    assert [(record["attempt"], record["message"]) for record in page["errors"]] == [
        (1, "boom"),
        (1, "second"),
    ]
    assert page["pages"]["next"] is None
    assert client.get(f"/jobs/{job_id}/errors/1").data["message"] == "second"
    assert client.get(f"/jobs/{job_id}").data["attempts"] == 1


def test_many_dead_jobs_are_spread_evenly(client: Client, queue: str) -> None:
    ids = dead(client, queue, 4)
    kept = client.enqueue(queue, ready_at=FAR_MS)["id"]
    before = now_ms()
    response = client.post(f"/v1/jobs/retry?queue={queue}", {"spread": "40m"})
    assert (response.status, response.data) == (200, {"retried": 4})
    jobs = [client.job(job_id) for job_id in ids]
    assert [job["status"] for job in jobs] == ["ready", "scheduled", "scheduled", "scheduled"]
    first = jobs[0]["ready_at"]
    assert before <= first <= now_ms()
    assert [job["ready_at"] - first for job in jobs] == [0, 600_000, 1_200_000, 1_800_000]
    assert client.job(kept)["ready_at"] == FAR_MS
    assert client.post(f"/v1/jobs/retry?queue={queue}").data == {"retried": 0}


@pytest.mark.parametrize(
    "body", [{"spread": "soon"}, {"spread": -1}, {"spread": 1.5}, {"reset_attempts": 1}, []]
)
def test_bad_bodies_of_a_retry_are_400(client: Client, queue: str, body: object) -> None:
    response = client.post(f"/v1/jobs/retry?queue={queue}", body)
    assert response.status == 400
    assert response.error


def test_a_retry_takes_the_filters_of_a_list(client: Client) -> None:
    for query in ("status=bogus", "a=b", "from=x", "id=x", "priority=5..1", "filter="):
        assert client.request("POST", f"/v1/jobs/retry?{query}").status == 400


def test_a_cancelled_job_is_shown_as_dead_and_can_be_retried(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue)["id"]
    job = client.request("POST", f"/v1/jobs/{job_id}/cancel").data
    assert job["status"] == "dead"
    assert job["purge_at"] > now_ms()
    assert client.count(queue=queue, status="dead") == 1
    assert client.request("POST", f"/v1/jobs/{job_id}/cancel").status == 409
    response = client.patch(f"/jobs/{job_id}", {"priority": 1})
    assert (response.status, response.error) == (422, f"cannot patch job {job_id} in dead status")
    assert client.request("POST", f"/v1/jobs/{job_id}/retry").data["status"] == "ready"


def test_cancelling_a_job_in_flight_frees_its_slot(client: Client, queue: str) -> None:
    first, second = client.enqueue_many(queue, 2)
    with client.take(queue) as stream:
        assert stream.next_job()["id"] == first
        assert client.request("POST", f"/v1/jobs/{first}/cancel").status == 200
        assert stream.next_job()["id"] == second
        assert client.post(f"/jobs/{first}/success").status == 404


@pytest.mark.parametrize("verb", ["retry", "cancel"])
def test_unknown_jobs_are_404(client: Client, verb: str) -> None:
    for job_id in ("x", "0" * 25):
        response = client.request("POST", f"/v1/jobs/{job_id}/{verb}")
        assert (response.status, response.error) == (404, "job not found")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_answer_whatever_is_accepted(client: Client, path: str) -> None:
    for accept in (None, "text/html", "*/*"):
        response = client.get(path, accept=accept)
        assert (response.status, response.data) == (200, {"status": "ok"})


def test_health_names_the_commit(fresh: Callable[..., Client]) -> None:
    assert fresh().get("/health").data == {"status": "ok", "commit": "full"}
    assert fresh(commit="relaxed").get("/health").data == {"status": "ok", "commit": "relaxed"}


def test_each_answer_names_a_relaxed_commit(fresh: Callable[..., Client]) -> None:
    relaxed = fresh(commit="relaxed")
    enqueued = relaxed.post("/jobs", {"type": "t", "queue": "q", "payload": 1})
    answers = [
        enqueued,
        relaxed.get("/jobs"),
        relaxed.get("/nothing"),
        relaxed.get("/ui"),
        relaxed.get("/healthz"),
    ]
    assert [answer.header("anew-commit") for answer in answers] == ["relaxed"] * 5
    assert fresh().get("/jobs").header("anew-commit") is None


def scrape(client: Client) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    response = client.get("/metrics", accept="text/plain;version=0.0.4")
    assert (response.status, response.content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    families = text_string_to_metric_families(response.body.decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def test_metrics_tell_what_has_happened(fresh: Callable[..., Client]) -> None:
    client = fresh()
    client.enqueue_many("a", 3)
    client.run_one("a", lambda job_id: client.fail(job_id, retry_at=FAR_MS))
    client.run_one("a", client.succeed)
    client.eventually(
        lambda: client.count(status="ready") == 1, "the stream that was closed has given back its job"
    )
    found = scrape(client)

    def value(name: str, **labels: str) -> float:
        return found[name, frozenset(labels.items())]

    assert value("anew_jobs", queue="a", state="ready") == 1
    assert value("anew_jobs", queue="a", state="retrying") == 1
    assert value("anew_jobs_enqueued_total") == 3
    assert value("anew_jobs_taken_total") >= 2
    assert value("anew_jobs_completed_total") == 1
    assert value("anew_jobs_failed_total") == 1
    assert value("anew_retries_total", attempt="1") == 1
    assert value("anew_retries_total", attempt="26+") == 0
    assert value("anew_batch_operations_bucket", le="+Inf") == value("anew_batch_operations_count") >= 3
    assert value("anew_commit_seconds_count") >= 3
    assert 0 < value("anew_commit_seconds_sum") < 60
    assert 0 <= value("anew_oldest_ready_age_seconds") < 60
    assert value("anew_connections") >= 1
    assert value("anew_take_streams") == 0
    assert value("anew_accepting") == 1
    with client.take("a") as stream:
        stream.next_job()
        assert scrape(client)["anew_take_streams", frozenset()] == 1


def test_metrics_count_refusals_by_reason(fresh: Callable[..., Client]) -> None:
    client = fresh()
    wire = client.wire()
    wire.send(b"GET /version HTTP/1.1\r\nhost: example.com\r\n\r\n")
    assert wire.read_response().status == 403
    wire.close()
    assert scrape(client)["anew_requests_refused_total", frozenset({("reason", "host")})] == 1


def test_metrics_have_a_bounded_number_of_queues(fresh: Callable[..., Client]) -> None:
    client = fresh()
    jobs = [{"type": "t", "queue": f"q{n}", "payload": None} for n in range(600)]
    assert client.post("/jobs/bulk", {"jobs": jobs + jobs[:500]}).status == 201
    rows = {labels: n for (name, labels), n in scrape(client).items() if name == "anew_jobs" and n}
    assert len(rows) == 501
    assert rows[frozenset({("queue", "other"), ("state", "ready")})] == 100
    assert rows[frozenset({("queue", "q499"), ("state", "ready")})] == 2


def test_a_page_ends_early_where_payloads_are_large(client: Client, queue: str) -> None:
    payload = "x" * (12 << 20)
    sent = [client.enqueue(queue, payload=payload)["id"] for _ in range(4)]
    page = client.get(f"/jobs?{urlencode({'queue': queue})}").data
    assert [job["id"] for job in page["jobs"]] == sent[:2]
    page = client.get(page["pages"]["next"]).data
    assert [job["id"] for job in page["jobs"]] == sent[2:]
    assert page["pages"]["next"] is None
    client.delete(f"/jobs?queue={queue}")


def test_a_count_does_not_show_what_is_over(client: Client, queue: str) -> None:
    """Zizq 64: neither by the counters nor by the rows."""
    client.enqueue(queue)
    job_id = client.enqueue(queue, priority=1, retention={"dead_ms": 1})["id"]
    client.run_one(queue, lambda held: client.fail(held, kill=True))
    client.eventually(lambda: client.get(f"/jobs/{job_id}").status == 404, "the job is hidden")
    assert client.count(queue=queue) == 1
    assert client.count(queue=queue, status="dead") == 0
    assert client.jobs(queue=queue, status="dead") == []
    assert client.get(f"/jobs/{job_id}/errors").status == 404
    assert client.request("POST", f"/v1/jobs/{job_id}/retry").status == 404
    assert client.patch(f"/jobs/{job_id}", {}).status in (404, 422)  # 404 once the reaper was there


def report(client: Client, *reports: dict[str, object]) -> list[dict[str, object]]:
    response = client.post("/v1/jobs/reports", {"reports": list(reports)})
    assert response.status == 200
    return response.data["results"]


def test_a_report_ends_the_attempt_that_it_names_and_no_other(fresh: Callable[..., Client]) -> None:
    client = fresh()
    client.enqueue("q")
    with client.take("q") as stream:
        first = stream.next_job()
        named = {"id": first["id"], "taken_at": first["dequeued_at"]}
        (released,) = report(client, named | {"end": "released"})
        assert (released["state"], client.job(first["id"])["attempts"]) == ("ready", 0)
        second = stream.next_job()
        (late,) = report(
            client, {"id": first["id"], "taken_at": second["dequeued_at"] + 1, "end": "succeeded"}
        )
        assert late["code"] == "not_found"
        (done,) = report(client, {"id": second["id"], "taken_at": second["dequeued_at"], "end": "succeeded"})
    assert done == {"id": first["id"], "state": "completed"}


def test_ends_of_every_kind_are_reported_together(fresh: Callable[..., Client]) -> None:
    client = fresh()
    ids = client.enqueue_many("q", 7)
    with client.take("q", prefetch=7) as stream:
        stream.next_jobs(7)
        results = report(
            client,
            {
                "id": ids[0],
                "end": "failed",
                "message": "slow",
                "outcome": "timeout",
                "policy": {"curve": {"table": ["1h"]}},
            },
            {
                "id": ids[1],
                "end": "failed",
                "message": "no",
                "retry_at": FAR_MS,
                "limited": True,
                "policy": {"preset": "even", "limit": 0},
            },
            {"id": ids[2], "end": "snoozed", "ready_at": FAR_MS, "reason": "later", "most": 0},
            {"id": ids[3], "end": "snoozed", "ready_at": FAR_MS, "outcome": "rate_limited"},
            {"id": ids[4], "end": "cancelled", "reason": "gone"},
            {"id": ids[5], "end": "gone"},
            {"id": ids[5], "end": "failed"},
            {"id": ids[5], "end": "interrupted"},
            {"id": ids[6], "end": "succeeded", "result": {"sum": 3}},
            {"id": ids[6], "end": "succeeded"},
        )
    shown = [result.get("state") or result["error"] for result in results]
    assert shown == [
        "retrying", "dead", "dead", "scheduled", "cancelled",
        'reports[5].end: "gone" is not valid; expected one of succeeded, failed, snoozed, cancelled, interrupted, released, '
        "goes_on",
        "reports[6]: object missing required field message", "ready", "completed",
        "job not found in in-flight set",
    ]  # fmt: skip
    assert results[3]["ready_at"] == FAR_MS
    errors = [client.get(f"/jobs/{job_id}/errors").data["errors"] for job_id in ids[:5]]
    outcomes = [[error["outcome"] for error in listed] for listed in errors]
    assert outcomes == [["timeout"], ["error"], ["snoozed"], ["rate_limited"], ["cancelled"]]


def test_a_kept_job_shows_its_result_and_its_own_state(fresh: Callable[..., Client]) -> None:
    client = fresh()
    job_id = client.enqueue("q", retention={"completed_ms": 3_600_000})["id"]
    with client.take("q") as stream:
        stream.next_job()
        report(client, {"id": job_id, "end": "succeeded", "result": [1, {"a": None}]})
    shown = client.get(f"/v1/jobs/{job_id}").data
    assert (shown["state"], shown["result"], shown["last_error"]) == ("completed", [1, {"a": None}], None)
    other = client.enqueue("q")["id"]
    client.post(f"/v1/jobs/{other}/cancel")
    assert client.get(f"/v1/jobs/{other}").data["state"] == "cancelled"


def test_a_quiet_worker_gets_nothing_more_and_keeps_what_it_has(fresh: Callable[..., Client]) -> None:
    client = fresh()
    first = client.enqueue("q")["id"]
    with client.take("q", headers=[("worker-id", "w 1")], prefetch=5) as stream:
        assert stream.next_job()["id"] == first
        (worker,) = client.get("/v1/workers").data["workers"]
        assert (worker["id"], worker["door"], worker["state"]) == ("w 1", "http", "running")
        assert (worker["connections"], worker["jobs"], worker["queues"]) == (1, 1, ["q"])
        assert client.post("/v1/workers/w%201/terminate").status == 404  # a stream has no word for it
        assert client.post("/v1/workers/w%201/quiet").data == {"streams": 1}
        assert client.get("/v1/workers").data["workers"][0]["state"] == "quiet"
        assert client.post("/v1/workers/other/quiet").data == {"streams": 0}
        second = client.enqueue("q")["id"]
        with client.take("q") as other:
            assert other.next_job()["id"] == second
            client.post(f"/jobs/{second}/success")
        assert report(client, {"id": first, "end": "succeeded"})[0]["state"] == "completed"


def test_jobs_with_ties_are_stored_all_or_none(fresh: Callable[..., Client]) -> None:
    client = fresh()

    def tied(**ties: object) -> dict[str, object]:
        return {"type": "t", "queue": "q", "payload": 1, "ties": ties}

    key = {"digest": "0" * 32, "scope": "active"}
    batch = client.post("/v1/batches", {"on_success": {"type": "t", "queue": "q", "payload": 1}}).data["id"]
    stored = client.post(
        "/v1/jobs/bulk", {"jobs": [tied(unique=key), tied(unique=key), tied(expires_at=FAR_MS)]}
    )
    jobs = stored.data["jobs"]
    assert [job["duplicate"] for job in jobs] == [False, True, False]
    assert jobs[0]["id"] == jobs[1]["id"]
    assert client.get(f"/jobs/{jobs[2]['id']}").data["ties"] == {"expires_at": FAR_MS}
    refused = [
        ({"unique": {"digest": "xyz"}}, "unique.digest"),
        (
            {"unique": key | {"ends_at": 5}},
            "jobs[1]: ties.unique.ends_at: expected with the scopes started and succeeded",
        ),
        ({"batch": "b-nothing"}, "no such batch"),
        ({"limit": {"key": "a"}}, "jobs[1]: ties.limit: expected a concurrency, a rate, or both"),
        ({"limit": {"key": "", "concurrency": 1}}, "limit.key"),
        ({"limit": {"key": "a", "concurrency": 0}}, "limit.concurrency"),
        *(
            ({"limit": {"key": key, "concurrency": 1}}, "which bounds deliveries to webhooks")
            for key in ("$subscription/1a2b", "$confirmation/1a2b")
        ),
        ({"fold": {"digest": "xyz"}}, "fold.digest"),
        ({"fold": {"digest": "1" * 32, "debounce_ms": 0, "max_wait_ms": 5}}, "fold.debounce_ms"),
        (
            {"fold": {"digest": "1" * 32}, "unique": key},
            "jobs[1]: ties.unique: expected none beside ties.fold",
        ),
        (
            {"fold": {"digest": "1" * 32}, "batch": batch},
            "jobs[1]: ties.batch: expected none beside ties.fold",
        ),
        *(
            (
                {"fold": {"digest": "1" * 32} | waits},
                "jobs[1]: ties.fold.max_wait_ms: expected one of debounce_ms or more with it, and none without",
            )
            for waits in ({"debounce_ms": 5}, {"max_wait_ms": 5}, {"debounce_ms": 5, "max_wait_ms": 4})
        ),
    ]
    for ties, words in refused:
        response = client.post("/v1/jobs/bulk", {"jobs": [tied(), tied(**ties)]})
        assert response.status in (400, 404), ties
        assert words in response.error
    assert client.get("/v1/queues").data["queues"][0]["ready"] == 2


@pytest.mark.parametrize("instant", [2**63 - 1, 2**63, 2**64 - 1])
def test_ties_may_end_at_the_last_instants_that_there_are(client: Client, queue: str, instant: int) -> None:
    """As `ready_at` may: an instant of the API has up to 64 bits, and the last one that is kept has 63."""
    unique = {"digest": f"{instant:032x}", "scope": "started", "ends_at": instant}
    ties = {"unique": unique, "expires_at": instant}
    body = {"jobs": [{"type": "t", "queue": queue, "payload": 1, "ties": ties}]}
    (job,) = client.post("/v1/jobs/bulk", body).data["jobs"]
    shown = client.get(f"/jobs/{job['id']}").data["ties"]
    assert (shown["expires_at"], shown["unique"]["until"]) == (2**63 - 1, 2**63 - 1)
    assert client.post("/v1/jobs/bulk", body).data["jobs"][0]["duplicate"] is True


def test_a_duplicate_is_answered_with_the_job_that_is_there(fresh: Callable[..., Client]) -> None:
    client = fresh()

    def tied(**members: object) -> dict[str, object]:
        ties = {"unique": {"digest": "0" * 32, "scope": "exists"}}
        body = {"jobs": [{"type": "t", "queue": "q", "payload": 1, "ties": ties} | members]}
        (job,) = client.post("/v1/jobs/bulk", body).data["jobs"]
        return dict(job)

    first = tied(priority=5)
    with client.take("q") as stream:
        stream.next_job()
        second = tied(type="other", queue="elsewhere", priority=9, ready_at=FAR_MS)
        there = client.get(f"/jobs/{first['id']}").data
    assert there["status"] == "in_flight"
    shown = {name: there[name] for name in there.keys() - {"payload", "ties"}}
    assert second == shown | {"duplicate": True, "folded": False}


def test_jobs_of_a_batch_that_is_not_known_are_refused_and_none_is_stored(
    fresh: Callable[..., Client],
) -> None:
    """A batch is forgotten some time after it has completed, and its id still looks like one of ours."""
    client = fresh()
    unknown = "b-" + client.enqueue("other")["id"]
    jobs = [
        {"type": "t", "queue": "q", "payload": 1},
        {"type": "t", "queue": "q", "payload": 1, "ties": {"batch": unknown}},
    ]
    response = client.post("/v1/jobs/bulk", {"jobs": jobs})
    assert (response.status, response.error) == (404, "no such batch")
    assert client.count(queue="q") == 0


def test_jobs_of_a_key_are_bounded_together_and_say_so(fresh: Callable[..., Client]) -> None:
    client = fresh()
    limit = {"key": "customer 7", "concurrency": 1}
    job = {"type": "t", "queue": "q", "payload": 1, "ties": {"limit": limit}}
    free = {"type": "t", "queue": "q", "payload": 1}
    stored = client.post("/v1/jobs/bulk", {"jobs": [job, job, free]}).data["jobs"]
    first, second, third = (one["id"] for one in stored)
    with client.take(prefetch=5) as stream:
        assert [stream.next_job()["id"], stream.next_job()["id"]] == [first, third]
        ties = client.get(f"/jobs/{second}").data["ties"]
        assert ties == {"limit": "customer 7", "blocked": True}
        assert client.get("/v1/queues").data["queues"][0]["ready"] == 1
        client.post(f"/jobs/{first}/success")
        assert stream.next_job()["id"] == second
        assert client.get(f"/jobs/{second}").data["ties"] == {"limit": "customer 7"}


def test_a_new_job_is_folded_into_the_one_of_its_key_that_waits(fresh: Callable[..., Client]) -> None:
    client = fresh()

    def put(payload: object, **rule: object) -> dict[str, Any]:
        fold = {"digest": "0" * 32} | rule
        body = {"jobs": [{"type": "t", "queue": "q", "payload": payload, "ties": {"fold": fold}}]}
        (job,) = client.post("/v1/jobs/bulk", body).data["jobs"]
        return dict(job)

    first = put([1], debounce_ms=3_600_000, max_wait_ms=7_200_000)
    assert (first["status"], first["folded"]) == ("scheduled", False)
    second = put([2], debounce_ms=7_200_000, max_wait_ms=7_200_000)
    assert (second["id"], second["folded"], second["duplicate"]) == (first["id"], True, False)
    assert first["ready_at"] < second["ready_at"] <= first["ready_at"] + 3_600_000
    third = put([3], merge="$existing + $new")
    assert (third["id"], third["status"]) == (first["id"], "ready")
    shown = client.get(f"/jobs/{first['id']}").data
    assert (shown["payload"], shown["ties"]) == ([2, 3], {"folded": 2})
    with client.take("q") as stream:
        assert stream.next_job()["payload"] == [2, 3]
        assert put([4])["id"] != first["id"]


def test_what_cannot_be_folded_is_refused_and_nothing_of_its_request_is_stored(
    fresh: Callable[..., Client],
) -> None:
    client = fresh()

    def post(path: str, member: str, count: int = 1, **job: Any) -> Any:
        body = {"type": "t", "queue": "q", "payload": 1} | job
        entries = [body if member == "jobs" else {"name": "n", "schedule": "@daily", "job": body}] * count
        return getattr(client, "post" if member == "jobs" else "put")(path, {member: entries})

    for path, member in (("/v1/jobs/bulk", "jobs"), ("/v1/crons/mine", "entries")):
        bad = post(path, member, ties={"fold": {"digest": "0" * 32, "merge": "$new |"}})
        assert bad.status in (400, 422)
        assert f"{member}[0]" in bad.error
        assert "merge expression: fold: " in bad.error
    waits = {"digest": "0" * 32, "debounce_ms": 5, "max_wait_ms": 5}
    late = post("/v1/jobs/bulk", "jobs", ties={"fold": waits}, ready_at=FAR_MS)
    assert (late.status, late.error) == (400, "jobs[0]: ready_at: expected none beside ties.fold.debounce_ms")
    merged = {"digest": "0" * 32, "merge": "$new"}
    many = post("/v1/jobs/bulk", "jobs", 101, ties={"fold": merged})
    assert (many.status, many.error) == (413, "jobs: expected at most 100 with merge in one request, got 101")
    assert post("/v1/jobs/bulk", "jobs", 1_001, ties={"fold": waits}).status == 413
    long = post("/v1/jobs/bulk", "jobs", ties={"fold": waits}, payload="x" * (1 << 20))
    assert (long.status, "jobs[0]: payload: 1048578 bytes; expected at most 1048576" in long.error) == (
        413,
        True,
    )
    assert client.count(queue="q") == 0


def test_a_batchs_callback_comes_once_all_have_ended_and_it_is_closed(fresh: Callable[..., Client]) -> None:
    client = fresh()
    assert client.post("/v1/batches", {}).error == "batch must have a success or complete callback"
    callback = {"type": "report", "queue": "reports", "payload": 7}
    batch = client.post("/v1/batches", {"on_success": callback}).data["id"]
    client.post(
        "/v1/jobs/bulk", {"jobs": [{"type": "t", "queue": "q", "payload": 1, "ties": {"batch": batch}}]}
    )
    with client.take("q") as stream:
        client.post(f"/jobs/{stream.next_job()['id']}/success")
    assert client.get("/jobs?queue=reports").data["jobs"] == []
    assert client.post(f"/v1/batches/{batch}/close").status == 204
    (job,) = client.get("/jobs?queue=reports").data["jobs"]
    assert (job["type"], job["payload"]) == ("report", 7)
    assert client.post("/v1/batches/b-1/close").status == 404
    assert client.get(f"/v1/batches/{batch}").data == {"id": batch, "total": 1, "pending": 0, "failed": 0}
    assert client.get("/v1/batches/b-1").status == 404


def test_a_groups_cron_entries_are_replaced(fresh: Callable[..., Client]) -> None:
    client = fresh()
    job = {"type": "t", "queue": "q", "payload": None}
    entries = [{"name": name, "schedule": "@daily", "job": job} for name in ("a", "b")]
    assert client.put("/v1/crons/mine", {"entries": entries}).data == {"written": ["a", "b"], "removed": []}
    assert client.put("/v1/crons/mine", {"entries": entries[:1]}).data == {"written": [], "removed": ["b"]}
    refused = client.put("/v1/crons/mine", {"entries": [entries[0] | {"schedule": "never"}]})
    assert (refused.status, '"never" is not valid' in refused.error) == (400, True)
    assert [entry["name"] for entry in client.get("/v1/crons").data["crons"]] == ["a"]


def test_a_limit_needs_a_bound(fresh: Callable[..., Client]) -> None:
    client = fresh()
    nothing = client.put("/v1/queues/q/limit", {})
    assert (nothing.status, nothing.error) == (400, "limit: expected a concurrency, a rate, or both")
    assert client.put("/v1/queues/q/limit", {"rate": {"count": 0, "per_ms": 5}}).status == 400
    limited = client.put("/v1/queues/q/limit", {"concurrency": 1})
    assert limited.data["limit"]["concurrency"] == 1
    client.enqueue_many("q", 2)
    with client.take("q", prefetch=2) as stream:
        stream.next_job()
        assert client.get("/v1/queues").data["queues"][0]["ready"] == 1
    assert client.delete("/v1/queues/q/limit").data == {"name": "q", "limit": None}


def test_what_a_job_carries_is_shown_until_it_has_a_result_and_is_bounded(
    fresh: Callable[..., Client],
) -> None:
    client = fresh()
    job = {"type": "t", "queue": "q", "payload": 1, "carried": {"traceparent": "00-1"}}
    (stored,) = client.post("/v1/jobs/bulk", {"jobs": [job]}).data["jobs"]
    assert client.get(f"/v1/jobs/{stored['id']}").data["carried"] == {"traceparent": "00-1"}
    (listed,) = client.get(f"/v1/jobs?id={stored['id']}").data["jobs"]
    assert listed["carried"] == {"traceparent": "00-1"}
    assert "carried" not in client.get(f"/jobs/{stored['id']}").data
    (bare,) = client.post("/v1/jobs/bulk", {"jobs": [job | {"carried": None}]}).data["jobs"]
    assert "carried" not in client.get(f"/v1/jobs/{bare['id']}").data
    assert client.post("/v1/jobs/bulk", {"jobs": [job | {"carried": {"a": "x" * 8_191}}]}).status == 201
    refused: list[object] = [{"a": "x" * 8_192}, {"a": 1}, {"a": None}, [], "text"]
    for carried in refused:
        response = client.post("/v1/jobs/bulk", {"jobs": [job, job | {"carried": carried}]})
        assert response.status == 400, carried
        assert "carried" in response.data["error"]


def test_a_record_says_which_worker_ran_the_attempt(
    fresh_server: Callable[..., ServerProcess], fresh: Callable[..., Client], queue: str
) -> None:
    client = fresh(fresh_server(interruption_limit=5))
    job_id = client.enqueue(queue, policy={"curve": {"constant": 0}})["id"]
    with client.take(queue, headers=[("worker-id", "w" * 300)]) as stream:
        stream.next_job()
        client.fail(job_id)
        stream.next_job()
    with client.take(queue, headers=[("worker-id", "second")]) as stream:
        stream.next_job()
        client.post("/v1/jobs/reports", {"reports": [{"id": job_id, "end": "snoozed", "ready_at": FAR_MS}]})
    workers = [record.get("worker") for record in client.errors(job_id)]
    assert workers == ["w" * 256, "w" * 256, "second"]
