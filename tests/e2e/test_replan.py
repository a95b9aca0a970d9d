"""Jobs that wait for a retry get the times of another policy: over HTTP, by the client, on the command line, in the dashboard."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from anew.client import Client as AnewClient
from anew.client import Filters
from anew.errors import InvalidInput

from .client import Client, now_ms
from .command import anew, anew_json
from .server import ServerProcess
from .test_dashboard import page, send, text_of

HOUR_MS = 3_600_000
CONSTANT = {"curve": {"constant": "2h"}}
ROWS = ["now", "1 min", "10 min", "1 h", "6 h", "1 d", "3 d", "7 d", "30 d", "later"]


def failed(client: Client, queue: str, count: int = 1, **report: Any) -> list[str]:
    """Jobs that have failed once and wait a day for their retry."""
    policy = {"curve": {"constant": "1d"}}
    ids = [client.enqueue(queue, policy=policy, payload={"n": n})["id"] for n in range(count)]
    with client.take(queue, prefetch=count) as stream:
        stream.next_jobs(count)
        for job_id in ids:
            client.fail(job_id, message="no luck", **report)
    return ids


def due(answer: dict[str, Any]) -> dict[str, tuple[int, int]]:
    rows = zip(ROWS, answer["due"], strict=True)
    return {name: (row["before"], row["after"]) for name, row in rows if row["before"] or row["after"]}


def test_the_new_times_are_told_first_and_then_given(client: Client, queue: str) -> None:
    (job_id,) = failed(client, queue)
    (named,) = failed(client, queue, retry_at=now_ms() + 9 * HOUR_MS)
    before = client.job(job_id)
    body = {"policy": CONSTANT, "dry_run": True}
    told = client.post(f"/v1/jobs/replan?queue={queue}", body)
    assert told.status == 200
    assert told.data == {
        "replanned": 1,
        "sooner": 1,
        "later": 0,
        "unchanged": 0,
        "kept": {"named": 1, "spent": 0},
        "due": told.data["due"],
        "dry_run": True,
    }
    assert due(told.data) == {"6 h": (0, 1), "1 d": (1, 0)}
    assert client.job(job_id) == before
    done = client.post(f"/v1/jobs/replan?queue={queue}", body | {"dry_run": False})
    assert done.data == told.data | {"dry_run": False}
    job = client.job(job_id)
    assert (job["status"], job["attempts"]) == ("scheduled", 1)
    assert job["ready_at"] == job["failed_at"] + 2 * HOUR_MS
    assert job["policy"] == CONSTANT
    (record,) = client.get(f"/jobs/{job_id}/errors").data["errors"]
    assert record["decision"]["reason"] == "planned again: retry 1: 2 h"
    assert record["decision"]["due_at"] == job["ready_at"]
    assert client.job(named)["policy"] != CONSTANT


def test_a_dry_run_tells_what_chance_will_say(client: Client, queue: str) -> None:
    ids = failed(client, queue, 5)
    body = {"policy": {"curve": {"constant": "20d"}, "jitter": "full"}, "dry_run": True}
    told = client.post(f"/v1/jobs/replan?queue={queue}", body).data
    assert client.post(f"/v1/jobs/replan?queue={queue}", body).data == told
    assert client.post(f"/v1/jobs/replan?queue={queue}", body | {"dry_run": False}).data == told | {
        "dry_run": False
    }
    assert len({client.job(job_id)["ready_at"] for job_id in ids}) == 5


def test_what_is_overdue_is_ready_or_spread(client: Client, queue: str) -> None:
    ids = failed(client, queue, 4)
    body = {"policy": {"curve": {"constant": "1ms"}}, "spread": "4h"}
    before = now_ms()
    done = client.post(f"/v1/jobs/replan?queue={queue}", body).data
    assert (done["sooner"], due(done)) == (4, {"now": (0, 1), "1 h": (0, 1), "6 h": (0, 2), "1 d": (4, 0)})
    jobs = [client.job(job_id) for job_id in ids]
    assert [job["status"] for job in jobs] == ["ready", "scheduled", "scheduled", "scheduled"]
    times = [job["ready_at"] for job in jobs]
    assert before <= times[0] <= now_ms()
    assert [at - times[0] for at in times] == [0, HOUR_MS, 2 * HOUR_MS, 3 * HOUR_MS]
    with client.take(queue) as stream:
        assert stream.next_job()["id"] == ids[0]


def test_only_jobs_that_wait_for_a_retry_are_meant(client: Client, queue: str) -> None:
    (job_id,) = failed(client, queue)
    others = [client.enqueue(queue)["id"], client.enqueue(queue, ready_at=now_ms() + 9 * HOUR_MS)["id"]]
    were = [client.job(each) for each in others]
    done = client.post(f"/v1/jobs/replan?queue={queue}", {"policy": "even"}).data
    assert (done["replanned"], done["kept"]) == (1, {"named": 0, "spent": 0})
    assert client.job(job_id)["policy"] == "even"
    assert [client.job(each) for each in others] == were


def test_payloads_choose_too(client: Client, queue: str) -> None:
    ids = failed(client, queue, 3)
    zizq = {"base_ms": 1, "exponent": 0, "jitter_ms": 0}
    target = f"/v1/jobs/replan?queue={queue}&filter=.n%20%3E%200"
    done = client.post(target, {"policy": zizq, "spread": "1h"}).data
    assert done["replanned"] == 2
    assert [client.job(job_id)["policy"] == zizq for job_id in ids] == [False, True, True]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "policy"),
        ({"policy": None}, "policy"),
        ({"policy": {"curve": "nope"}}, "curve"),
        ({"policy": "even", "spread": "soon"}, "spread"),
    ],
)
def test_what_is_wrong_is_named_and_changes_nothing(
    client: Client, queue: str, body: dict[str, Any], field: str
) -> None:
    (job_id,) = failed(client, queue)
    before = client.job(job_id)
    response = client.post(f"/v1/jobs/replan?queue={queue}", body)
    assert (response.status, field in response.error) == (400, True)
    assert client.job(job_id) == before


def test_the_client_asks_for_it(server: ServerProcess, client: Client, queue: str) -> None:
    failed(client, queue, 2)
    with AnewClient(f"http://{server.address[0]}:{server.address[1]}") as anew_client:
        plan = anew_client.replan(Filters(queue=queue), CONSTANT, spread=timedelta(hours=3), dry_run=True)
        assert (plan.replanned, plan.sooner, plan.dry_run, plan.kept["named"]) == (2, 2, True, 0)
        assert [(row.within_ms, row.after) for row in plan.due if row.after] == [(6 * HOUR_MS, 2)]
        with pytest.raises(InvalidInput):
            anew_client.replan(Filters(), CONSTANT)


def test_the_command_shows_the_times_before_it_asks(
    server: ServerProcess, client: Client, queue: str
) -> None:
    (job_id,) = failed(client, queue)
    words = ["jobs", "replan", "--queue", queue, "--policy", json.dumps(CONSTANT)]
    shown = anew(server.address, *words, "--dry-run")
    assert shown.stdout.splitlines() == [
        "1 would be planned again: 1 sooner, 0 later",
        "DUE         BEFORE  AFTER",
        "within 6 h  0       1",
        "within 1 d  1       0",
    ]
    asked = anew(server.address, *words)
    assert (asked.returncode, asked.stdout == shown.stdout, "add --yes" in asked.stderr) == (2, True, True)
    assert client.job(job_id)["policy"] != CONSTANT
    assert anew_json(server.address, *words, "--yes")["replanned"] == 1
    assert client.job(job_id)["policy"] == CONSTANT
    none = anew(server.address, "jobs", "replan", "--policy", "even")
    assert (none.returncode, "which jobs?" in none.stderr) == (2, True)


def test_the_dashboard_shows_the_times_before_it_gives_them(client: Client, queue: str) -> None:
    (job_id,) = failed(client, queue)
    assert f'href="/ui/replan?id={job_id}"' in page(client, f"/ui/jobs/{job_id}")
    assert f'href="/ui/replan?queue={queue}"' in page(client, f"/ui/jobs?queue={queue}")
    target = f"/ui/replan?queue={queue}"
    assert "Give them these times" not in page(client, target)
    shown = send(client, target, policy=json.dumps(CONSTANT), spread="")
    text = text_of(shown.body.decode())
    assert "1 would be planned again: 1 sooner, 0 later" in text
    assert "within 6 h 0 1 within 1 d 1 0" in text
    assert client.job(job_id)["policy"] != CONSTANT
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', shown.body.decode()))
    assert fields.keys() == {"policy", "spread", "apply"}
    done = send(client, target, policy=json.dumps(CONSTANT), spread="", apply="1")
    assert (done.status, done.header("location")) == (303, f"/ui/jobs?queue={queue}&done=replan&n=1")
    assert client.job(job_id)["policy"] == CONSTANT
    assert "1 jobs are planned again." in page(client, f"/ui/jobs?queue={queue}&done=replan&n=1")


def test_the_dashboards_form_takes_a_presets_name_and_refuses_what_is_none(
    client: Client, queue: str
) -> None:
    failed(client, queue)
    assert send(client, f"/ui/replan?queue={queue}", policy=" even ", spread="10m").status == 200
    refused = send(client, f"/ui/replan?queue={queue}", policy="<b>")
    assert (refused.status, b'<b>"' in refused.body) == (400, False)
    assert send(client, "/ui/replan", policy="even").status == 400
