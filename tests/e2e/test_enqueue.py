"""``POST /jobs`` and ``POST /jobs/bulk``."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from .client import Client, now_ms

MINUTE_MS = 60_000


def post(client: Client, name: str, **fields: Any) -> Any:
    """Enqueue into the queue ``name`` without an opinion about the answer."""
    return client.post("/jobs", {"type": "work", "queue": name, "payload": None} | fields)


def test_zizq_14_minimal_enqueue(client: Client, queue: str) -> None:
    before = now_ms()
    response = client.post("/jobs", {"type": "t", "queue": queue, "payload": None})
    assert response.status == 201
    job = response.data
    assert (job["type"], job["queue"]) == ("t", queue)
    assert (job["status"], job["priority"], job["attempts"]) == ("ready", 32768, 0)
    assert before <= job["ready_at"] <= now_ms()
    assert "payload" not in job
    assert client.job(job["id"])["payload"] is None


@pytest.mark.parametrize("missing", ["type", "queue", "payload"])
def test_zizq_15_a_missing_required_field_is_400(client: Client, queue: str, missing: str) -> None:
    fields = {"type": "t", "queue": queue, "payload": 1}
    del fields[missing]
    response = client.post("/jobs", fields)
    assert response.status == 400
    assert missing in response.error
    assert client.count(queue=queue) == 0


@pytest.mark.parametrize("field", ["type", "queue"])
@pytest.mark.parametrize("value", [None, 7, ["q"]])
def test_zizq_15_names_must_be_strings(client: Client, queue: str, field: str, value: object) -> None:
    assert post(client, queue, **{field: value}).status == 400


def test_zizq_16_duplicate_and_folded_are_in_enqueue_answers_alone(client: Client, queue: str) -> None:
    job = client.enqueue(queue)
    assert job["duplicate"] is False
    assert job["folded"] is False
    bulk = client.post("/jobs/bulk", {"jobs": [{"type": "t", "queue": queue, "payload": 1}]}).data["jobs"][0]
    assert bulk["duplicate"] is False
    assert bulk["folded"] is False
    listed = client.jobs(queue=queue)[0]
    changed = client.patch(f"/jobs/{job['id']}", {}).data
    for other in (client.job(job["id"]), listed, changed):
        assert not {"duplicate", "folded"} & other.keys()


def test_zizq_17_unset_fields_are_absent(client: Client, queue: str) -> None:
    always = {"id", "type", "queue", "priority", "status", "ready_at", "attempts"}
    job = client.enqueue(queue)
    assert job.keys() == always | {"duplicate", "folded"}
    assert client.job(job["id"]).keys() == always | {"payload"}


def test_zizq_17_null_is_the_same_as_absent(client: Client, queue: str) -> None:
    optional = [
        "priority",
        "ready_at",
        "retry_limit",
        "backoff",
        "retention",
        "unique_key",
        "unique_while",
        "batch",
    ]
    job = client.enqueue(queue, **dict.fromkeys(optional))
    assert job["priority"] == 32768
    assert not set(optional) - {"priority", "ready_at"} & job.keys()


def test_given_fields_are_echoed(client: Client, queue: str) -> None:
    fields = {
        "priority": 7,
        "retry_limit": 0,
        "backoff": {"exponent": 2, "base_ms": 100, "jitter_ms": 0},
        "retention": {"dead_ms": 5},
    }
    job = client.enqueue(queue, **fields)
    assert {name: job[name] for name in fields} == fields
    read = client.job(job["id"])
    assert {name: read[name] for name in fields} == fields
    assert client.enqueue(queue, retention={})["retention"] == {}


RESERVED = "*?[]{}\\"


@pytest.mark.parametrize("field", ["type", "queue"])
@pytest.mark.parametrize("name", ["", "a,b", "a\0b", *(f"a{char}b" for char in RESERVED)])
def test_zizq_18_reserved_characters_in_names_are_400(
    client: Client, queue: str, field: str, name: str
) -> None:
    expected = {
        "": f"{field} must not be empty",
        "a,b": f"{field} must not contain ','; expected one name, got 'a,b'",
        "a\0b": f"{field} must not contain null bytes",
    }.get(name) or (
        f"{field} must not contain '{name[1]}' (reserved); expected a name without * ? [ ] {{ }} \\, got {name!r}"
    )
    response = post(client, queue, **{field: name})
    assert (response.status, response.error) == (400, expected)


def test_zizq_18_type_is_checked_before_queue(client: Client) -> None:
    assert post(client, "", type="").error == "type must not be empty"


@pytest.mark.parametrize("name", ["a b", "a/b", "a:b", "a.b", "größe ☃", "a&b=c#d%e+f", "'\"", "n" * 200])
def test_zizq_18_other_characters_are_fine(client: Client, queue: str, name: str) -> None:
    job = client.enqueue(queue + name, type=name)
    assert (job["type"], job["queue"]) == (name, queue + name)
    with client.take(queue + name) as stream:
        assert stream.next_job()["type"] == name


@pytest.mark.parametrize("priority", [0, 1, 65535])
def test_zizq_19_the_range_of_priorities(client: Client, queue: str, priority: int) -> None:
    assert client.enqueue(queue, priority=priority)["priority"] == priority


@pytest.mark.parametrize("priority", [65536, -1, 1.5, "5", True, [], 10**30])
def test_zizq_19_other_priorities_are_400(client: Client, queue: str, priority: object) -> None:
    response = post(client, queue, priority=priority)
    assert response.status == 400
    assert response.error


def test_zizq_20_future_jobs_are_scheduled(client: Client, queue: str) -> None:
    ready_at = now_ms() + 10 * MINUTE_MS
    job = client.enqueue(queue, ready_at=ready_at)
    assert (job["status"], job["ready_at"]) == ("scheduled", ready_at)


@pytest.mark.parametrize("ready_at", [0, 1, 1_600_000_000_000])
def test_zizq_20_past_jobs_are_ready_with_the_given_time(client: Client, queue: str, ready_at: int) -> None:
    job = client.enqueue(queue, ready_at=ready_at)
    assert (job["status"], job["ready_at"]) == ("ready", ready_at)


def test_zizq_20_a_scheduled_job_is_delivered_when_it_is_due(client: Client, queue: str) -> None:
    ready_at = now_ms() + 400
    job = client.enqueue(queue, ready_at=ready_at)
    with client.take(queue) as stream:
        taken = stream.next_job()
        # 250 ms late at most when nothing else is due; the rest is the test machine's.
        assert 0 <= now_ms() - ready_at < 1500
    assert (taken["id"], taken["ready_at"]) == (job["id"], ready_at)


def test_zizq_20_an_earlier_job_rearms_the_clock(client: Client, queue: str) -> None:
    client.enqueue(queue, ready_at=now_ms() + 10 * MINUTE_MS)
    sooner = client.enqueue(queue, ready_at=now_ms() + 300)
    with client.take(queue) as stream:
        assert stream.next_job()["id"] == sooner["id"]


@pytest.mark.parametrize("missing", ["exponent", "base_ms", "jitter_ms"])
def test_zizq_21_backoff_needs_all_three_members(client: Client, queue: str, missing: str) -> None:
    backoff = {"exponent": 2, "base_ms": 100, "jitter_ms": 0}
    del backoff[missing]
    assert post(client, queue, backoff=backoff).status == 400


def test_zizq_21_whole_floats_are_integers(client: Client, queue: str) -> None:
    """A published client sends its back-off so. The peer answers 400."""
    job = client.enqueue(queue, backoff={"exponent": 2.0, "base_ms": 1500.0, "jitter_ms": 2e3})
    assert job["backoff"] == {"exponent": 2.0, "base_ms": 1500, "jitter_ms": 2000}
    assert isinstance(job["backoff"]["base_ms"], int)
    assert isinstance(job["backoff"]["jitter_ms"], int)


IDS = re.compile(r"[0-9a-z]{25}")


def test_zizq_22_ids_are_25_characters_and_increase(client: Client, queue: str) -> None:
    ids = [client.enqueue(queue)["id"] for _ in range(50)] + client.enqueue_many(queue, 50)
    assert all(IDS.fullmatch(job_id) for job_id in ids)
    assert ids == sorted(set(ids))


def test_zizq_22_ids_increase_across_a_restart(fresh_server: Any, fresh: Any) -> None:
    server = fresh_server()
    before = fresh(server).enqueue_many("q", 3)
    server.kill()
    after = fresh(fresh_server(root_dir=server.root_dir)).enqueue("q")["id"]
    assert after > before[-1]


def test_zizq_23_bulk_keeps_the_order(client: Client, queue: str) -> None:
    jobs = [{"type": f"t{n}", "queue": queue, "payload": n, "priority": n % 7} for n in range(250)]
    response = client.post("/jobs/bulk", {"jobs": jobs})
    assert response.status == 201
    stored = response.data["jobs"]
    assert [job["type"] for job in stored] == [job["type"] for job in jobs]
    ids = [job["id"] for job in stored]
    assert ids == sorted(set(ids))
    assert all("payload" not in job for job in stored)


def test_zizq_23_bulk_in_messagepack(client: Client, queue: str) -> None:
    jobs = [{"type": "t", "queue": queue, "payload": {"n": n}} for n in range(3)]
    response = client.request("POST", "/jobs/bulk", packed={"jobs": jobs}, accept="application/msgpack")
    assert response.status == 201
    assert [client.job(job["id"])["payload"] for job in response.data["jobs"]] == [{"n": n} for n in range(3)]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"queue": ""}, "jobs[1]: queue must not be empty"),
        ({"type": "a*"}, "jobs[1]: type must not contain '*' (reserved)"),
        ({"priority": -1}, "jobs[1]: priority"),
        ({"payload": ...}, "jobs[1]: object missing required field payload"),
    ],
)
def test_zizq_24_one_bad_item_stores_none(
    client: Client, queue: str, bad: dict[str, Any], message: str
) -> None:
    good = {"type": "t", "queue": queue, "payload": 1}
    item = {name: value for name, value in (good | bad).items() if value is not ...}
    response = client.post("/jobs/bulk", {"jobs": [good, item, good]})
    assert response.status == 400
    assert response.error.startswith(message)
    assert client.count(queue=queue) == 0


def test_zizq_24_the_first_bad_item_is_named(client: Client, queue: str) -> None:
    items = [{"type": "t", "queue": name, "payload": 1} for name in (queue, queue, "a,b", "")]
    assert client.post("/jobs/bulk", {"jobs": items}).error.startswith("jobs[2]: ")


def test_zizq_25_an_empty_bulk(client: Client) -> None:
    response = client.post("/jobs/bulk", {"jobs": []})
    assert (response.status, response.data) == (201, {"jobs": []})


@pytest.mark.parametrize("body", [{}, {"jobs": None}, {"jobs": {}}, {"jobs": [1]}, {"jobs": [None]}])
def test_zizq_25_a_bulk_needs_a_list_of_jobs(client: Client, body: object) -> None:
    assert client.post("/jobs/bulk", body).status == 400


def test_a_bulk_has_at_most_10_000_jobs(client: Client, queue: str) -> None:
    """A bound of this server; the peer has none."""
    job = json.dumps({"type": "t", "queue": queue, "payload": 1})
    for count, status in [(10_001, 413), (10_000, 201)]:
        body = ('{"jobs":[' + ",".join([job] * count) + "]}").encode()
        assert client.request("POST", "/jobs/bulk", body=body).status == status
    assert client.delete(f"/jobs?queue={queue}").data == {"deleted": 10_000}
