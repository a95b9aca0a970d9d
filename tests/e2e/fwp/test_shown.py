"""What jobs that came by the protocol show over HTTP and in the commands: ties, expiry, ids of their producers."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from tests.e2e.client import Client
from tests.e2e.command import anew, anew_json
from tests.e2e.server import ServerProcess
from tests.faktory_wire import FaktoryWire

from .jobs import LATER, PAST, fetch, push


def only(server: ServerProcess, queue: str) -> dict[str, Any]:
    (job,) = anew_json(server.address, "jobs", "list", "--queue", queue)["jobs"]
    return dict(job)


def facts(server: ServerProcess, job_id: str) -> dict[str, str]:
    """The lines of ``anew jobs show`` by what they are about."""
    lines = anew(server.address, "jobs", "show", job_id).stdout.splitlines()
    pairs = (line.partition("  ") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs}


def test_an_expired_job_is_shown_as_expired_and_runs_when_it_is_brought_back(
    fwp_server: ServerProcess, wire: FaktoryWire, queue: str
) -> None:
    push(wire, queue, custom={"expires_at": PAST})
    assert wire.ask(f"FETCH {queue}") is None
    job = only(fwp_server, queue)
    assert (job["status"], job["expired"]) == ("dead", True)
    assert facts(fwp_server, job["id"])["status"] == "cancelled, expired"
    assert "expired" in anew(fwp_server.address, "dead", "list", "--queue", queue).stdout
    assert (
        anew(fwp_server.address, "dead", "retry", "--cancelled", "--queue", queue).stdout == "1 made ready\n"
    )
    assert "expired" not in only(fwp_server, queue)
    assert "expires" not in facts(fwp_server, job["id"])
    assert fetch(wire, queue)["jid"] == f"{queue}-job-1"


def test_a_job_shows_its_unique_key_its_batch_and_its_expiry(
    fwp_server: ServerProcess, wire: FaktoryWire, queue: str
) -> None:
    bid = wire.say('BATCH NEW {"success":{"jobtype":"done","args":[]}}').removeprefix("$")
    push(wire, queue, custom={"bid": bid, "unique_for": 600, "expires_at": LATER})
    job_id = only(fwp_server, queue)["id"]
    ties = anew_json(fwp_server.address, "jobs", "show", job_id)["job"]["ties"]
    assert (ties["batch"], ties["unique"]["scope"], ties["unique"]["held_by"]) == (bid, "succeeded", job_id)
    # 2099-01-02 is 47,118 days after the epoch.
    assert ties["expires_at"] == (47_118 * 86_400 + 3 * 3_600 + 4 * 60 + 5) * 1_000
    shown = facts(fwp_server, job_id)
    assert shown["unique key"].startswith("until the job completes; held by this job, until in ")
    assert (shown["batch"], "2099-01-02" in shown["expires"]) == (bid, True)


def test_a_plain_job_is_tied_to_nothing(fwp_server: ServerProcess, wire: FaktoryWire, queue: str) -> None:
    push(wire, queue)
    job_id = only(fwp_server, queue)["id"]
    assert "ties" not in anew_json(fwp_server.address, "jobs", "show", job_id)["job"]


def test_a_job_is_found_by_the_id_that_its_producer_gave_it(
    fwp_server: ServerProcess, wire: FaktoryWire, queue: str
) -> None:
    push(wire, queue, 1)
    push(wire, queue, 2)
    jid, other = f"{queue}-job-1", f"{queue}-job-2"
    (job,) = anew_json(fwp_server.address, "jobs", "list", "--jid", jid)["jobs"]
    assert (job["jid"], job["queue"]) == (jid, queue)
    assert facts(fwp_server, jid)["job"] == job["id"]
    assert anew_json(fwp_server.address, "jobs", "list", "--jid", f"{jid},{other}", "--count") == {"count": 2}
    assert anew(fwp_server.address, "jobs", "delete", "--jid", other, "--yes").stdout == "1 deleted\n"
    assert anew_json(fwp_server.address, "jobs", "list", "--queue", queue, "--count") == {"count": 1}


def test_an_id_that_nobody_or_several_have_is_not_found(
    fwp_server: ServerProcess, wire: FaktoryWire, queue: str
) -> None:
    done = anew(fwp_server.address, "jobs", "show", f"{queue}-none")
    assert (done.returncode, "anew jobs list --jid JID" in done.stderr) == (4, True)
    assert anew(fwp_server.address, "jobs", "show", "a,b").returncode == 4
    push(wire, queue, jid=f"{queue}-twice")
    push(wire, queue, jid=f"{queue}-twice")
    done = anew(fwp_server.address, "jobs", "show", f"{queue}-twice")
    assert (done.returncode, f"anew jobs list --jid {queue}-twice" in done.stderr) == (4, True)


BAD = b"caf\\ud800\xff"
"""Half of a surrogate pair, and a byte that is no UTF-8."""
READ = "caf\ufffd\ufffd"


def test_texts_that_are_none_spoil_no_page(fwp_server: ServerProcess, url: str, queue: str) -> None:
    """Wherever a worker or a producer may say them: the dashboard shows what can be read."""
    own = queue.encode()
    client = Client(fwp_server.address)
    with FaktoryWire(url) as worker:
        hello = b'HELLO {"v":2,"pid":7,"wid":"%b-%b","hostname":"%b","labels":["%b"]}' % (own, BAD, BAD, BAD)
        assert worker.say(hello) == "+OK"
        pushed = b'PUSH {"jid":"%b-job-1","jobtype":"%b","queue":"%b","args":["%b"]}' % (own, BAD, own, BAD)
        assert worker.say(pushed) == "+OK"
        assert (worker.ask(f"FETCH {queue}") or {})["jid"] == f"{queue}-job-1"
        failed = b'FAIL {"jid":"%b-job-1","errtype":"%b","message":"%b","backtrace":["%b"]}' % (
            own,
            BAD,
            BAD,
            BAD,
        )
        assert worker.say(failed) == "+OK"
        told = client.get(f"/ui/jobs?queue={queue}").body.decode()
        (job,) = re.findall(r'href="(/ui/jobs/[0-9a-z]{25})"', told)
        for target, least in (
            ("/ui", 1),
            (f"/ui/jobs?queue={queue}&type={quote(READ)}", 4),
            (job, 4),
            ("/ui/failures", 2),
            ("/ui/workers", 3),
            ("/ui/limits", 0),
        ):
            answer = client.get(target)
            assert answer.status == 200, target
            assert answer.body.decode().count(READ) >= least, target
    client.close()
