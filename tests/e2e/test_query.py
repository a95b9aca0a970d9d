"""``GET /jobs``, ``/jobs/count`` and the error list: filters, ranges, cursors, links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from .client import MSGPACK, Client

PAST = 1_600_000_000_000
FAR_MS = 4_102_444_800_000


def ids(client: Client, target: str) -> list[str]:
    response = client.get(target)
    assert response.status == 200, response.body
    return [job["id"] for job in response.data["jobs"]]


def follow(client: Client, target: str | None, link: str) -> list[list[str]]:
    """The ids page by page, from a page along its links to the end."""
    pages = []
    while target is not None:
        page = client.get(target).data
        pages.append([job["id"] for job in page["jobs"]])
        target = page["pages"][link]
    return pages


def test_zizq_66_the_list_has_50_jobs_by_id_with_payloads(client: Client, queue: str) -> None:
    sent = client.enqueue_many(queue, 60, payload={"a": 1})
    page = client.get(f"/jobs?queue={queue}").data
    assert [job["id"] for job in page["jobs"]] == sent[:50]
    assert all(job["payload"] == {"a": 1} for job in page["jobs"])
    assert page["jobs"][0] == client.job(sent[0])


@pytest.mark.parametrize("limit", ["0", "2001", "-1", "x", "", "1.0", "65536"])
def test_zizq_66_limits_out_of_range_are_400(client: Client, limit: str) -> None:
    response = client.get(f"/jobs?limit={limit}")
    assert response.status == 400
    if limit in ("0", "2001"):
        assert response.error == "limit must be between 1 and 2000"


def test_zizq_66_limits_in_range(client: Client, queue: str) -> None:
    sent = client.enqueue_many(queue, 3)
    assert ids(client, f"/jobs?queue={queue}&limit=1") == sent[:1]
    assert ids(client, f"/jobs?queue={queue}&limit=2000") == sent


def test_zizq_67_following_next_visits_each_job_once(client: Client, queue: str) -> None:
    sent = client.enqueue_many(queue, 10)
    first = client.get(f"/jobs?queue={queue}&limit=3").data["pages"]
    assert first["prev"] is None
    pages = follow(client, first["self"], "next")
    assert [len(page) for page in pages] == [3, 3, 3, 1]
    assert [job_id for page in pages for job_id in page] == sent


def test_zizq_67_links_are_present_as_null(client: Client, queue: str) -> None:
    client.enqueue_many(queue, 2)
    for target in (f"/jobs?queue={queue}", f"/jobs?queue={queue}&limit=2", f"/jobs?queue={queue}none"):
        assert client.get(target).data["pages"].keys() == {"self", "next", "prev"}
        assert client.get(target, accept=MSGPACK).data["pages"] | {"self": ""} == {
            "self": "",
            "next": None,
            "prev": None,
        }


def test_zizq_67_pages_stay_whole_while_jobs_come_and_go(client: Client, queue: str) -> None:
    sent = client.enqueue_many(queue, 6)
    page = client.get(f"/jobs?queue={queue}&limit=2").data
    client.delete(f"/jobs/{sent[1]}")
    client.delete(f"/jobs/{sent[2]}")
    late = client.enqueue(queue)["id"]
    rest = follow(client, page["pages"]["next"], "next")
    assert [job_id for part in rest for job_id in part] == [*sent[3:], late]


def test_zizq_68_prev_reverses_the_order(client: Client, queue: str) -> None:
    sent = client.enqueue_many(queue, 6)
    second = client.get(client.get(f"/jobs?queue={queue}&limit=2").data["pages"]["next"]).data
    prev = second["pages"]["prev"]
    assert prev == f"/jobs?from={sent[2]}&order=desc&limit=2&queue={queue}"
    assert ids(client, prev) == [sent[1], sent[0]]
    assert ids(client, f"/jobs?queue={queue}&order=desc") == sent[::-1]
    assert ids(client, f"/jobs?queue={queue}&from={sent[0]}&order=desc") == []
    assert client.get(f"/jobs?queue={queue}&from={sent[0]}&order=desc").data["pages"]["prev"] is None


@pytest.mark.parametrize(
    ("query", "rendered"),
    [
        ("", "order=asc&limit=50"),
        ("limit=7&order=desc", "order=desc&limit=7"),
        ("status=dead,ready,scheduled,,ready", "order=asc&limit=50&status=scheduled,ready,dead"),
        ("status=completed%2Cin_flight", "order=asc&limit=50&status=in_flight,completed"),
        ("queue=b,a&type=z,y", "order=asc&limit=50&queue=a,b&type=y,z"),
        ("status=&queue=&priority=", "order=asc&limit=50"),
        ("priority=7..7", "order=asc&limit=50&priority=7"),
        ("priority=10..20&attempts=..3", "order=asc&limit=50&priority=10..20&attempts=..3"),
        ("attempts=1..&ready_at=5..", "order=asc&limit=50&ready_at=5..&attempts=1.."),
        ("priority=..", "order=asc&limit=50&priority=..65535"),
        ("from=zzz&id=0123456789012345678901234", "from=zzz&order=asc&limit=50&id=0123456789012345678901234"),
    ],
)
def test_zizq_68_links_repeat_all_filters(client: Client, query: str, rendered: str) -> None:
    assert client.get(f"/jobs?{query}").data["pages"]["self"] == f"/jobs?{rendered}"


def test_links_are_percent_encoded(client: Client, queue: str) -> None:
    """The peer writes names as they are, so that these break its links."""
    name, kind = f"{queue} a&b=c#d%41+é", "t&y p#e%"
    sent = client.enqueue_many(name, 3, type=kind)
    first = client.get(f"/jobs?limit=1&queue={quote(name)},other&type={quote(kind)}").data["pages"]
    assert set(first["self"]) <= set(
        quote(name + kind, safe="") + "abcdefghijklmnopqrstuvwxyz0123456789/?&=,._-~%"
    )
    assert dict(parse_qsl(urlsplit(first["self"]).query))["queue"] == ",".join(sorted(["other", name]))
    assert "," in first["self"]
    assert follow(client, first["self"], "next") == [[job_id] for job_id in sent]


PRIORITIES = [0, 5, 7, 9, 10, 15, 20, 21, 65535]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("10..20", 10, 20),
        ("..5", 0, 5),
        ("7", 7, 7),
        ("9..", 9, 65535),
        ("..", 0, 65535),
        ("", 0, 65535),
        ("7..7", 7, 7),
        ("0", 0, 0),
        ("22..65534", 22, 65534),
    ],
)
def test_zizq_69_ranges_of_priorities(client: Client, queue: str, text: str, low: int, high: int) -> None:
    for priority in PRIORITIES:
        client.enqueue(queue, priority=priority)
    expected = [priority for priority in PRIORITIES if low <= priority <= high]
    page = client.get(f"/jobs?queue={queue}&priority={text}").data
    assert [job["priority"] for job in page["jobs"]] == expected
    assert client.count(queue=queue, priority=text) == len(expected)


@pytest.mark.parametrize("name", ["priority", "attempts", "ready_at"])
@pytest.mark.parametrize(
    "text", ["5..1", "x", "-1", "1..x", "1...3", "1-3", "99999999999999999999999", "1.5"]
)
def test_zizq_69_bad_ranges_are_400(client: Client, name: str, text: str) -> None:
    for method, path in [("GET", "/jobs"), ("GET", "/jobs/count"), ("DELETE", "/jobs"), ("PATCH", "/jobs")]:
        response = client.request(method, f"{path}?{name}={text}", data={} if method == "PATCH" else None)
        assert response.status == 400
        assert response.error


def test_zizq_69_ranges_of_attempts_and_times(client: Client, queue: str) -> None:
    early = client.enqueue(queue, ready_at=PAST)["id"]
    client.run_one(queue, lambda job_id: client.fail(job_id, retry_at=FAR_MS))
    late = client.enqueue(queue, ready_at=PAST + 5)["id"]
    assert ids(client, f"/jobs?queue={queue}&attempts=1..") == [early]
    assert ids(client, f"/jobs?queue={queue}&attempts=0") == [late]
    assert ids(client, f"/jobs?queue={queue}&ready_at=..{PAST + 5}") == [late]
    assert ids(client, f"/jobs?queue={queue}&ready_at={FAR_MS}") == [early]
    assert ids(client, f"/jobs?queue={queue}&ready_at={PAST + 6}..") == [early]


@pytest.mark.parametrize("method", ["GET", "COUNT", "DELETE", "PATCH"])
@pytest.mark.parametrize("job_id", ["x", "A" * 25, "a" * 24, "a" * 24 + "-"])
def test_zizq_71_a_malformed_id_in_a_filter_is_400(client: Client, method: str, job_id: str) -> None:
    path = "/jobs/count" if method == "COUNT" else "/jobs"
    verb = "GET" if method == "COUNT" else method
    response = client.request(verb, f"{path}?id={job_id}", data={} if verb == "PATCH" else None)
    assert (response.status, response.error) == (400, f'invalid job ID: "{job_id}"')


def test_zizq_71_ids_select_jobs(client: Client, queue: str) -> None:
    sent = client.enqueue_many(queue, 3)
    unknown = "0" * 25
    assert ids(client, f"/jobs?id={sent[2]},{unknown},{sent[0]}") == [sent[0], sent[2]]
    assert client.count(id=",".join(sent)) == 3


@pytest.mark.parametrize("target", ["/jobs", "/jobs/count"])
@pytest.mark.parametrize(
    "query", ["status=bogus", "status=ready,bogus", "status=Ready", "order=up", "limit=x"]
)
def test_zizq_72_bad_values_are_400(client: Client, target: str, query: str) -> None:
    assert client.get(f"{target}?{query}").status == 400


def test_zizq_72_filters_are_anded_and_values_ored(client: Client, queue: str) -> None:
    a, b = queue + "a", queue + "b"
    rows = [(a, "x", None), (a, "y", FAR_MS), (b, "x", FAR_MS), (b, "z", None)]
    sent = [
        client.enqueue(name, type=kind, **({} if at is None else {"ready_at": at}))["id"]
        for name, kind, at in rows
    ]
    both = f"queue={a},{b}"
    for query, expected in {
        both: [0, 1, 2, 3],
        f"{both}&status=": [0, 1, 2, 3],
        f"{both}&status=scheduled": [1, 2],
        f"{both}&status=ready,scheduled&type=x": [0, 2],
        f"queue={a}&type=x,z": [0],
        f"{both}&type=,x,": [0, 2],
        f"{both}&type=no": [],
        f"{both}&status=in_flight,completed,dead": [],
    }.items():
        assert ids(client, f"/jobs?{query}") == [sent[at] for at in expected], query
        assert client.get(f"/jobs/count?{query}").data == {"count": len(expected)}


@pytest.mark.parametrize("parameter", ["from=x", "order=asc", "limit=1"])
def test_counts_take_no_cursor(client: Client, parameter: str) -> None:
    assert client.get(f"/jobs/count?{parameter}").status == 400


@pytest.fixture
def failed_job(client: Client, queue: str) -> str:
    """A job with seven error records."""
    job_id = client.enqueue(queue, retry_limit=100)["id"]
    with client.take(queue) as stream:
        for _ in range(7):
            stream.next_job()
            client.fail(job_id, retry_at=PAST)
    return job_id


def attempts(client: Client, job_id: str, query: str) -> list[int]:
    return [record["attempt"] for record in client.get(f"/jobs/{job_id}/errors?{query}").data["errors"]]


def test_zizq_73_errors_descend_from_a_cursor(client: Client, failed_job: str) -> None:
    """The peer gives the attempts above the cursor instead, so that its second page repeats or skips."""
    assert attempts(client, failed_job, "order=desc&from=4") == [3, 2, 1]
    page: dict[str, Any] = client.get(f"/jobs/{failed_job}/errors?order=desc&limit=3").data
    seen = [record["attempt"] for record in page["errors"]]
    while page["pages"]["next"]:
        page = client.get(page["pages"]["next"]).data
        seen += [record["attempt"] for record in page["errors"]]
    assert seen == [7, 6, 5, 4, 3, 2, 1]


def test_zizq_73_errors_ascend_from_a_cursor(client: Client, failed_job: str) -> None:
    assert attempts(client, failed_job, "") == [1, 2, 3, 4, 5, 6, 7]
    assert attempts(client, failed_job, "order=desc") == [7, 6, 5, 4, 3, 2, 1]
    assert attempts(client, failed_job, "from=3&limit=2") == [4, 5]
    pages = client.get(f"/jobs/{failed_job}/errors?from=3&limit=2").data["pages"]
    base = f"/jobs/{failed_job}/errors?"
    assert pages == {
        "self": base + "from=3&order=asc&limit=2",
        "next": base + "from=5&order=asc&limit=2",
        "prev": base + "from=4&order=desc&limit=2",
    }
    assert client.get(f"{base}limit=7").data["pages"] == {
        "self": base + "order=asc&limit=7",
        "next": None,
        "prev": None,
    }


@pytest.mark.parametrize("query", ["limit=0", "limit=2001", "from=x", "from=-1", "order=up", "a=b"])
def test_zizq_73_bad_queries_of_the_error_list_are_400(client: Client, failed_job: str, query: str) -> None:
    assert client.get(f"/jobs/{failed_job}/errors?{query}").status == 400


@pytest.mark.parametrize(
    ("attempt", "status"), [("8", 404), ("0", 404), ("x", 400), ("-1", 400), ("4294967296", 400)]
)
def test_one_error_record(client: Client, failed_job: str, attempt: str, status: int) -> None:
    """A number that is none is 400 in JSON; the peer answers ``text/plain``."""
    response = client.get(f"/jobs/{failed_job}/errors/{attempt}")
    assert response.status == status
    words = "error record not found" if status == 404 else f'attempt: "{attempt}" is not valid'
    assert response.error.startswith(words)
    assert client.get("/jobs/none/errors/1").error == "job not found"


def test_lists_see_jobs_in_every_state(fresh: Callable[..., Client]) -> None:
    client = fresh()
    made = {
        "scheduled": client.enqueue("a", ready_at=FAR_MS)["id"],
        "ready": client.enqueue("b")["id"],
        "in_flight": client.enqueue("c")["id"],
        "completed": client.enqueue("d", retention={"completed_ms": 600_000})["id"],
        "dead": client.enqueue("e", retry_limit=0)["id"],
    }
    client.run_one("d", client.succeed)
    client.run_one("e", client.fail)
    with client.take("c") as stream:
        stream.next_job()
        assert ids(client, "/jobs") == list(made.values())
        for status, job_id in made.items():
            assert ids(client, f"/jobs?status={status}") == [job_id]
            assert client.count(status=status) == 1


def test_jobs_are_found_by_the_class_of_their_latest_failure(client: Client, queue: str) -> None:
    sent = client.enqueue_many(queue, 3)
    with client.take(queue, prefetch=3) as stream:
        stream.next_jobs(3)
        for job_id, error_type in zip(sent, ("Refused", "Timeout", None), strict=True):
            client.fail(job_id, kill=True, **({} if error_type is None else {"error_type": error_type}))
    assert ids(client, f"/jobs?queue={queue}&error_type=Timeout") == [sent[1]]
    assert ids(client, f"/jobs?queue={queue}&error_type=Timeout,Refused") == sent[:2]
    assert client.get(f"/jobs/count?queue={queue}&error_type=timeout").data == {"count": 0}
    assert client.post(f"/v1/jobs/retry?queue={queue}&error_type=Refused").data == {"retried": 1}
    assert [client.job(job_id)["status"] for job_id in sent] == ["ready", "dead", "dead"]
