"""The dashboard of a running server: what it shows, what its forms do, whom it lets in."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from anew.web.dashboard.actions import MOST_BYTES
from anew.web.dashboard.limits import QUEUES as QUEUES_OF_LIMITS
from anew.web.dashboard.pages import QUEUES

from .client import Client
from .server import ServerProcess
from .wire import Response

FORM = "application/x-www-form-urlencoded"
NASTY = "<img src=x onerror=alert(1)>\"'&"
"""A name that runs as a script wherever it is not escaped."""


def page(client: Client, target: str, status: int = 200) -> str:
    """A page's text."""
    response = client.get(target)
    assert response.status == status
    assert response.header("content-type") == "text/html; charset=utf-8"
    assert (response.header("content-security-policy") or "").startswith("default-src 'none'")
    assert response.header("cache-control") == "no-store"
    return response.body.decode()


def send(client: Client, target: str, headers: Any = (), **fields: str) -> Response:
    """Send a form."""
    body = urlencode(fields).encode()
    return client.request("POST", target, body=body, headers=[("content-type", FORM), *headers])


def text_of(markup: str) -> str:
    """What people read of it, white space folded."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


def dead_job(client: Client, queue: str, **fields: Any) -> str:
    """A job that has failed for good."""
    job = client.enqueue(queue, retry_limit=0, **fields)
    client.run_one(queue, lambda taken: client.fail(taken, message="no luck", error_type="Oops"))
    return str(client.when_status(job["id"], "dead")["id"])


def test_a_browser_comes_to_the_overview(client: Client) -> None:
    for target in ("/", "/ui/"):
        response = client.get(target, accept="text/html")
        assert (response.status, response.header("location")) == (303, "/ui")
    assert client.get("/").status == 404


def test_the_overview_tells_all_in_one_look(fresh: Callable[..., Client]) -> None:
    client = fresh()
    assert "There are no jobs yet." in text_of(page(client, "/ui"))
    dead_job(client, "mail", type="send")
    client.enqueue("mail", type="send")
    client.enqueue("mail", type="send", ready_at=4_000_000_000_000)
    told = text_of(page(client, "/ui"))
    assert "1 scheduled 0 retrying 1 ready 0 in flight 0 completed 1 dead 0 cancelled" in told
    assert "1 job" in told.partition("When waiting jobs come back")[2]
    assert "today: 0 succeeded, 1 failed" in told
    assert "send Oops 1 0" in told.partition("What fails")[2]


def test_a_list_keeps_to_its_filters_and_goes_on_behind_its_page(client: Client, queue: str) -> None:
    ids = client.enqueue_many(queue, 3)
    assert "All 3 jobs that match" in page(client, f"/ui/jobs?queue={queue}")
    told = page(client, f"/ui/jobs?queue={queue}&limit=2")
    assert "not only those on this page" in told
    assert re.findall(r"/ui/jobs/([0-9a-z]{25})", told) == [ids[2], ids[1]]
    (following,) = re.findall(r'href="([^"]+)">Next page', told)
    told = page(client, html.unescape(following))
    assert re.findall(r"/ui/jobs/([0-9a-z]{25})", told) == [ids[0]]
    assert "Next page" not in told
    assert "not only those on this page" in told
    assert ids[0] not in page(client, f"/ui/jobs?queue={queue}&state=dead")


def test_a_list_is_searched_by_payload(client: Client, queue: str) -> None:
    wanted = client.enqueue(queue, payload={"user": 7})["id"]
    client.enqueue(queue, payload={"user": 8})
    told = page(client, f"/ui/jobs?queue={queue}&filter={quote('.user == 7')}")
    assert re.findall(r"/ui/jobs/([0-9a-z]{25})", told) == [wanted]


def test_a_job_shows_what_happened_to_it_and_why(client: Client, queue: str) -> None:
    job = client.enqueue(
        queue, payload={"user": 7}, backoff={"base_ms": 60_000, "exponent": 0, "jitter_ms": 0}
    )
    client.run_one(
        queue, lambda taken: client.fail(taken, message="no luck", error_type="Oops", backtrace="line 3")
    )
    client.when_status(job["id"], "scheduled")
    told = text_of(page(client, f"/ui/jobs/{job['id']}"))
    assert "1. error" in told
    assert "Oops: no luck" in told
    assert "line 3" in told
    assert "retry after 1 min" in told
    assert '"user": 7' in told
    assert "retries are left" in told


def test_a_payload_that_is_too_long_for_a_page_is_named(client: Client, queue: str) -> None:
    """Its JSON is no page, which a password of the dashboard would not open: a command shows it."""
    job = client.enqueue(queue, payload="x" * 70_000)
    told = text_of(page(client, f"/ui/jobs/{job['id']}"))
    assert f"70,002 bytes, too many for a page. anew jobs show {job['id']} prints it." in told


def test_what_is_not_there_gets_a_page_that_says_so(client: Client) -> None:
    told = text_of(page(client, "/ui/jobs/" + "0" * 25, status=404))
    assert "Not found" in told
    assert "at most 200 on a page" in text_of(page(client, "/ui/jobs?limit=201", status=400))
    assert 'state: "bogus" is not valid' in text_of(page(client, "/ui/jobs?state=bogus", status=400))


@pytest.mark.parametrize(
    ("action", "status"), [("run", "ready"), ("cancel", "dead")], ids=["run now", "cancel"]
)
def test_a_waiting_job_is_run_or_cancelled(client: Client, queue: str, action: str, status: str) -> None:
    job = client.enqueue(queue, ready_at=4_000_000_000_000)
    response = send(client, f"/ui/jobs/{job['id']}/{action}")
    assert (response.status, response.header("location")) == (303, f"/ui/jobs/{job['id']}?done={action}")
    assert client.job(job["id"])["status"] == status


def test_a_dead_job_is_tried_again_with_its_policy_from_the_beginning(client: Client, queue: str) -> None:
    job_id = dead_job(client, queue)
    assert send(client, f"/ui/jobs/{job_id}/retry", reset="1").status == 303
    job = client.job(job_id)
    assert (job["status"], job["attempts"]) == ("ready", 0)
    assert "The job is ready again." in page(client, f"/ui/jobs/{job_id}?done=retry")


def test_a_job_is_deleted(client: Client, queue: str) -> None:
    job = client.enqueue(queue)
    response = send(client, f"/ui/jobs/{job['id']}/delete")
    assert response.header("location") == "/ui/jobs?done=delete"
    assert client.get(f"/jobs/{job['id']}").status == 404


def test_what_cannot_be_done_now_is_refused_and_changes_nothing(client: Client, queue: str) -> None:
    job = client.enqueue(queue)
    assert send(client, f"/ui/jobs/{job['id']}/retry").status == 409
    assert send(client, f"/ui/jobs/{job['id']}/explode").status == 404
    assert send(client, f"/ui/jobs/{job['id']}/cancel", surprise="1").status == 400
    assert client.job(job["id"])["status"] == "ready"


def test_all_dead_jobs_that_match_are_tried_again_over_a_period(client: Client, queue: str) -> None:
    first, second = dead_job(client, queue), dead_job(client, queue)
    response = send(client, f"/ui/jobs?queue={queue}&state=dead", action="retry", spread="1h")
    assert response.status == 303
    location = response.header("location") or ""
    assert "2 jobs are tried again." in page(client, location)
    assert client.job(first)["status"] == "ready"
    later = client.job(second)
    assert later["status"] == "scheduled"
    # The second of two runs half an hour after the first.
    assert 1_799_000 < later["ready_at"] - client.job(first)["ready_at"] < 1_801_000


def test_all_that_match_an_expression_are_deleted(client: Client, queue: str) -> None:
    gone = client.enqueue(queue, payload={"user": 7})["id"]
    stays = client.enqueue(queue, payload={"user": 8})["id"]
    target = f"/ui/jobs?queue={queue}&filter={quote('.user == 7')}"
    assert send(client, target, action="delete").status == 303
    assert client.get(f"/jobs/{gone}").status == 404
    assert client.get(f"/jobs/{stays}").status == 200


def test_a_kind_of_failure_leads_to_its_jobs_and_no_others(fresh: Callable[..., Client]) -> None:
    client = fresh()
    for error_type in ("Refused & gone", "Timeout"):
        job = client.enqueue("q", type="pay/x", retry_limit=0)
        client.run_one("q", lambda taken, name=error_type: client.fail(taken, error_type=name))
        client.when_status(job["id"], "dead")
    links = re.findall(r'href="(/ui/jobs[^"]*error_type[^"]*)"', page(client, "/ui/failures"))
    assert len(links) == 4
    for link in links:
        assert page(client, html.unescape(link)).count('<td><a href="/ui/jobs/') == 1
    gone = next(html.unescape(link) for link in links if "gone" in link)
    query = gone.partition("?")[2].replace("dead,retrying", "dead")
    assert send(client, f"/ui/jobs?{query}", action="retry").status == 303
    statuses = [job["status"] for job in client.get("/jobs").data["jobs"]]
    assert statuses == ["ready", "dead"]


def test_all_jobs_are_never_meant(client: Client, queue: str) -> None:
    job = client.enqueue(queue)
    response = send(client, "/ui/jobs", action="delete")
    assert response.status == 400
    assert "at least one condition" in response.body.decode()
    assert client.job(job["id"])["status"] == "ready"


def test_a_queue_is_paused_and_resumed_whatever_its_name(client: Client, queue: str) -> None:
    name = f"{queue}/ü"
    client.enqueue(name)
    for action, paused in (("pause", True), ("resume", False)):
        response = send(client, f"/ui/queues/{quote(name, safe='')}/{action}", **{"from": "a b"})
        # The page that the button stood on.
        assert (response.status, response.header("location")) == (303, f"/ui/queues?from=a%20b&done={action}")
        rows = {row["name"]: row for row in client.get("/v1/queues").data["queues"]}
        assert rows[name]["paused"] is paused
    told = page(client, f"/ui/queues?from={quote(name, safe='')}")
    assert f"/ui/queues/{quote(name, safe='')}/pause" in told


def test_many_queues_come_page_by_page(fresh: Callable[..., Client]) -> None:
    client = fresh()
    jobs = [{"type": "t", "queue": f"q{n:04}", "payload": None} for n in range(QUEUES + 1)]
    assert client.post("/jobs/bulk", {"jobs": jobs}).status == 201
    told = page(client, "/ui/queues")
    assert f"q{QUEUES - 1:04}" in told
    (following,) = re.findall(r'href="([^"]+)">Next page', told)
    assert re.findall(r"queue=(q\d+)\"", page(client, following)) == [f"q{QUEUES:04}"]


def test_cron_entries_are_paused_resumed_and_fired(client: Client, queue: str) -> None:
    entry = {"name": "a/b", "schedule": "0 3 * * *", "job": {"type": "t", "queue": queue, "payload": None}}
    assert client.put(f"/v1/crons/{queue}", {"entries": [entry]}).status == 200
    path = f"/ui/crons/{queue}/a%2Fb"
    assert path in page(client, "/ui/crons")
    for action, paused in (("pause", True), ("resume", False)):
        assert send(client, f"{path}/{action}").status == 303
        (shown,) = [one for one in client.get("/v1/crons").data["crons"] if one["group"] == queue]
        assert shown["paused"] is paused
    assert send(client, f"{path}/fire").status == 303
    assert client.count(queue=queue) == 1


def test_workers_are_shown_and_told(client: Client, queue: str) -> None:
    worker = f"{queue}/w"
    path = f"/ui/workers/{quote(worker, safe='')}"
    with client.take(queue, headers=[("worker-id", worker)]):
        told = page(client, f"/ui/workers?from={quote(worker, safe='')}")
        assert f"{path}/quiet" in told
        assert f"{path}/terminate" not in told
        assert send(client, f"{path}/terminate").status == 404
        assert send(client, f"{path}/quiet").header("location") == "/ui/workers?done=quiet"
        assert f"{path}/quiet" not in page(client, "/ui/workers?done=quiet")
    client.eventually(
        lambda: send(client, f"{path}/quiet").status == 404, "the server knows that it has gone"
    )


BREAKER = {
    "failures": 0.5,
    "least": 2,
    "window_ms": 60_000,
    "cooldown": {"curve": {"constant": "10m"}},
    "spacing_ms": 100,
}


def broken(client: Client, queue: str, *services: str) -> None:
    """Have two runs of each service fail, which opens its breaker, and hold two jobs of the first."""
    client.enqueue_many(queue, 4)
    with client.take(queue, prefetch=4) as stream:
        jobs = stream.next_jobs(4)
        asked = {
            "settings": dict.fromkeys(services, BREAKER),
            "ended": [
                {"breaker": name, "id": job["id"], "ok": False} for name in services for job in jobs[:2]
            ],
            "waiting": [
                {"breaker": services[0], "id": job["id"], "taken_at": job["dequeued_at"]} for job in jobs[2:]
            ],
        }
        answer = client.post("/v1/breakers", asked)
        assert (answer.status, len(answer.data["held"])) == (200, 2)


def test_breakers_are_shown_and_closed(fresh: Callable[..., Client], queue: str) -> None:
    client = fresh()
    assert "No service has a breaker." in page(client, "/ui/limits")
    broken(client, queue, "a/b", NASTY)
    told = page(client, "/ui/limits")
    assert "<img" not in told
    assert NASTY in html.unescape(told)
    # Open for ten minutes from just now; the second of the held jobs comes after the first.
    row = text_of(told[told.index("a/b") :].partition("</tr>")[0])
    assert re.match(
        r"a/b open \S+ m?s ago in (10 min|9 min \d+ s) one by one, the last in (10 min|9 min \d+ s) 2.0 2.0 0.0",
        row,
    )
    response = send(client, f"/ui/breakers/{quote('a/b', safe='')}/close")
    assert (response.status, response.header("location")) == (303, "/ui/limits?done=close")
    told = text_of(page(client, "/ui/limits?done=close"))
    assert "The breaker is closed." in told
    # Those that are not closed stand first.
    assert told.index("open") < told.index("a/b closed")
    assert send(client, f"/ui/breakers/{quote(NASTY, safe='')}/close", surprise="1").status == 400


def test_limits_of_queues_say_how_much_waits_for_them(fresh: Callable[..., Client]) -> None:
    client = fresh()
    assert "No queue has a limit." in page(client, "/ui/limits")
    for n in range(QUEUES_OF_LIMITS + 1):
        assert client.put(f"/v1/queues/q{n:03}/limit", {"concurrency": 2}).status == 200
    client.enqueue_many("q000", 5)
    with client.take("q000", prefetch=5) as stream:
        stream.next_jobs(2)
        told = page(client, "/ui/limits")
        assert "q000 3 none 2 2 at one time a program" in text_of(told)
    (following,) = re.findall(r'href="([^"]+)">Next page', told)
    told = text_of(page(client, following.partition("#")[0]))
    assert f"q{QUEUES_OF_LIMITS:03} 0 – 0 2 at one time a program" in told
    assert f"q{QUEUES_OF_LIMITS - 1:03}" not in told


def test_limits_of_keys_say_how_much_waits_for_them(fresh: Callable[..., Client]) -> None:
    client = fresh()
    jobs = [
        {"type": "t", "queue": "q", "payload": None, "ties": {"limit": {"key": name, "concurrency": 1}}}
        for name in (NASTY, NASTY, NASTY, "idle")
    ]
    assert client.post("/v1/jobs/bulk", {"jobs": jobs}).status == 201
    told = page(client, "/ui/limits")
    assert "<img" not in told
    assert f"{NASTY} 2 0 1 at one time" in text_of(told)
    assert "idle" not in told
    told = text_of(page(client, "/ui/limits?every=1"))
    assert "idle 0 0 1 at one time" in told
    told = text_of(page(client, f"/ui/limits?every=1&key={quote(NASTY)}"))
    assert "idle 0 0 1 at one time" in told
    assert NASTY not in told


def test_the_server_tells_what_it_is(fresh: Callable[..., Client], tmp_path: Any) -> None:
    root_dir, login = tmp_path / "data", "me:s3cret@"
    client = fresh(
        root_dir=root_dir, token="open-sesame-1234", webhook_proxy=f"http://{login}proxy.corp:3128"
    )
    bearer = ("authorization", "Bearer open-sesame-1234")
    job = {"type": "t", "queue": "mail", "payload": None}
    assert client.request("POST", "/jobs", data=job, headers=[bearer]).status == 201
    markup = client.get("/ui/server", headers=[bearer]).body.decode()
    told = text_of(markup)
    assert re.search(r"Version Anew \d+\.\d+", told)
    assert re.search(r"Started (\S+ m?s ago|now) \d{4}-", told)
    assert re.search(r"Engine (SQLite 3\.\d+|PostgreSQL \d+)", told)
    assert re.search(r"Schema [0-9]+", told)
    assert re.search(r"Commits [0-9,]+, [0-9.]+ ms on average, 99 % within", told)
    assert "Jobs taken in 1" in told
    assert "Open 1" in told
    assert "server.token *** --token" in told
    assert "server.webhook-proxy http://proxy.corp:3128 --webhook-proxy" in told
    assert "server.max-job 32MiB default" in told
    assert "open-sesame" not in markup
    assert "s3cret" not in markup
    if "PostgreSQL" not in told:
        assert str(root_dir / "anew.db") in told
        assert re.search(r"Free [0-9.]+ [KMGTP]iB; below 512 MiB new jobs are refused", told)


def test_processes_on_the_store_are_listed_with_the_jobs_that_they_hold(
    server: ServerProcess, client: Client, queue: str
) -> None:
    client.enqueue(queue)
    with client.take(queue) as stream:
        stream.next_job()
        told = text_of(page(client, "/ui/workers"))
    (jobs,) = re.findall(rf"{server.pid} \(this server\) .* ago (\d+)", told)
    assert int(jobs) >= 1


def test_reliability_53_names_and_texts_are_shown_and_never_run(fresh: Callable[..., Client]) -> None:
    """In every place where a producer's or a worker's text stands."""
    client = fresh()
    job_id = dead_job(client, NASTY, type=NASTY, payload={NASTY: NASTY})
    retried = client.enqueue(NASTY, type=NASTY)["id"]
    client.run_one(NASTY, lambda taken: client.fail(taken, message=NASTY, error_type=NASTY, backtrace=NASTY))
    job = {"type": NASTY, "queue": NASTY, "payload": None}
    entry = {"name": NASTY, "schedule": "0 3 * * *", "job": job}
    assert client.put(f"/v1/crons/{quote(NASTY, safe='')}", {"entries": [entry]}).status == 200
    asked = quote(NASTY, safe="")
    targets = [
        f"/ui/jobs?queue={asked}",
        f"/ui/jobs/{job_id}",
        f"/ui/jobs/{retried}",
        "/ui/failures",
        "/ui/queues",
    ]
    with client.take("none", headers=[("worker-id", NASTY)]):
        assert NASTY in html.unescape(page(client, "/ui/workers"))
    for target in ["/ui", *targets, "/ui/crons", f"/ui/jobs?queue={asked}&done={asked}&n={asked}"]:
        told = page(client, target)
        assert "<img" not in told
        assert NASTY in html.unescape(told), target


def test_an_address_cannot_put_words_into_a_page(client: Client) -> None:
    told = page(client, "/ui/jobs?done=Your+password+has+expired&n=1")
    assert "password" not in told


def test_a_form_is_small(client: Client) -> None:
    response = send(client, "/ui/jobs?state=dead", action="retry", spread="1" * MOST_BYTES)
    assert response.status == 413


def test_forms_of_other_sites_are_refused(client: Client, queue: str) -> None:
    job = client.enqueue(queue)
    for headers in (
        [("origin", "https://evil.example")],
        [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")],
        [("origin", "null")],
    ):
        assert send(client, f"/ui/jobs/{job['id']}/delete", headers).status == 403
    assert client.job(job["id"])["status"] == "ready"


def test_fwp_91_behind_a_proxy_links_and_redirects_have_its_path(client: Client, queue: str) -> None:
    """Of a name that could lead elsewhere nothing is believed."""
    job = client.enqueue(queue, type='href="/lab"')
    prefix = ("x-script-name", "/ops/queue.1")
    told = client.get(f"/ui/jobs?queue={queue}&limit=1", headers=[prefix]).body.decode()
    links = re.findall(r'\b(?:href|src|action)="([^"]*)"', told)
    assert len(links) > 8
    assert [link for link in links if not link.startswith(("/ops/queue.1/", "#"))] == []
    assert "href=&#34;/lab&#34;" in told
    response = send(client, f"/ui/jobs/{job['id']}/cancel", [prefix])
    assert response.header("location") == f"/ops/queue.1/ui/jobs/{job['id']}?done=cancel"
    for bad in ("//evil.example", "https://evil.example", '/a/../b"', "/" + "x" * 101):
        told = client.get("/ui", headers=[("x-script-name", bad)]).body.decode()
        assert 'href="/ui/queues"' in told


def test_pages_ask_for_the_token_as_a_password(fresh: Callable[..., Client], tmp_path: Any) -> None:
    token = tmp_path / "token"
    token.write_text("open-sesame-1234")
    client = fresh(token=f"@{token}")
    response = client.get("/ui")
    assert response.status == 401
    assert (response.header("www-authenticate") or "").startswith("Basic ")
    basic = ("authorization", "Basic " + base64.b64encode(b"me:open-sesame-1234").decode())
    assert client.get("/ui", headers=[basic]).status == 200
    # A form counts only where the browser says that it is a page of this server's.
    path = "/ui/queues/mail/pause"
    assert send(client, path, [basic]).status == 401
    own = ("origin", "http://localhost")  # the host that the tests' client names
    assert send(client, path, [basic, own]).status == 303
    assert send(client, path, [basic, ("sec-fetch-site", "same-origin")]).status == 303
    assert client.get("/jobs", headers=[basic]).status == 401


def test_reliability_53_in_a_browser(browser: Any, fresh: Callable[..., Client]) -> None:
    """Pages load nothing from elsewhere and break no rule of their own; a form does what it says; a phone sees all of it."""
    from .browser import LabPage

    client = fresh()
    job_id = dead_job(client, "mail", type="send", payload={"text": NASTY})
    client.enqueue("mail", type="send", ready_at=4_000_000_000_000)
    tab = LabPage(browser, client.address)
    for path in (
        "/",
        "/ui/jobs",
        "/ui/queues",
        "/ui/failures",
        "/ui/workers",
        "/ui/crons",
        "/ui/webhooks",
        "/ui/limits",
        "/ui/server",
        "/ui/jobs?state=dead",
    ):
        tab.page.goto(tab.base + path)
    tab.page.get_by_role("link", name=job_id).click()
    tab.page.get_by_role("button", name="Try again", exact=True).click()
    assert tab.page.get_by_role("status").inner_text() == "The job is ready again."
    assert client.job(job_id)["status"] == "ready"
    tab.page.get_by_text("Delete…").click()
    tab.page.get_by_role("button", name="Delete").click()
    assert tab.page.get_by_role("status").inner_text() == "The job is deleted."
    assert client.get(f"/jobs/{job_id}").status == 404
    tab.close()
    phone = LabPage(browser, client.address, is_mobile=True)
    phone.page.set_viewport_size({"width": 390, "height": 800})
    for path in ("/ui", "/ui/jobs", "/ui/queues", "/ui/workers", "/ui/crons", "/ui/limits", "/ui/server"):
        phone.page.goto(phone.base + path)
        wide, _ = phone.width()  # a phone makes its window as wide as what is in it
        assert wide <= 390, path
    phone.close()


def test_the_overview_follows(browser: Any, fresh: Callable[..., Client]) -> None:
    """An open overview shows what comes, without being loaded again."""
    from .browser import LabPage

    client = fresh()
    tab = LabPage(browser, client.address)
    tab.page.goto(tab.base + "/ui")
    client.enqueue("mail")
    tab.page.get_by_role("link", name="1 ready").wait_for()
    tab.close()


def test_a_refresh_keeps_the_keyboards_place(browser: Any, fresh: Callable[..., Client]) -> None:
    from .browser import LabPage

    client = fresh()
    tab = LabPage(browser, client.address)
    tab.page.goto(tab.base + "/ui")
    tab.page.get_by_role("link", name="0 dead").focus()
    client.enqueue("mail")
    tab.page.get_by_role("link", name="1 ready").wait_for()
    assert tab.page.evaluate("document.activeElement.textContent.trim()") == "0 dead"
    tab.close()


def test_an_overview_goes_on_after_an_answer_that_is_none(browser: Any, fresh: Callable[..., Client]) -> None:
    """A server that is busy or away for a moment leaves what it showed last, says so, and is asked again."""
    from .browser import LabPage

    client = fresh()
    tab = LabPage(browser, client.address)
    tab.page.goto(tab.base + "/ui")
    refusal = {"status": 503, "body": "<main id=main>Not now</main>", "content_type": "text/html"}
    tab.page.route("**/ui", lambda route: route.fulfill(**refusal))
    tab.page.get_by_text("The server does not answer").wait_for()
    assert tab.page.get_by_role("link", name="0 ready").is_visible()
    tab.page.unroute("**/ui")
    client.enqueue("mail")
    tab.page.get_by_role("link", name="1 ready").wait_for()
    assert tab.page.locator("#told").inner_text() == ""
    tab.wrong.clear()  # the browser tells of the 503
    tab.close()


def test_the_refresh_can_be_switched_off(browser: Any, fresh: Callable[..., Client]) -> None:
    from .browser import LabPage

    tab = LabPage(browser, fresh().address)
    tab.page.clock.install()
    tab.page.goto(tab.base + "/ui")
    tab.page.wait_for_load_state("networkidle")
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.page.get_by_label("Refresh every 5 s").uncheck()
    tab.page.clock.run_for(60_000)
    assert asked == []
    tab.page.get_by_label("Refresh every 5 s").check()
    with tab.page.expect_request("**/ui"):
        tab.page.clock.run_for(6_000)
    tab.close()
