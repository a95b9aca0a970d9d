"""``anew enqueue``, ``jobs``, ``queues`` and ``dead`` against a running server."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .client import Client, now_ms
from .command import anew, anew_json, url_of
from .server import START_TIMEOUT_S, ServerProcess, environment

IMMEDIATE = {"exponent": 0, "base_ms": 0, "jitter_ms": 0}


def kill_one(client: Client, queue: str, message: str = "boom") -> str:
    """Enqueue a job, take it and let it die."""
    job_id: str = client.enqueue(queue)["id"]
    client.run_one(queue, lambda taken: client.fail(taken, message=message, error_type="IOError", kill=True))
    return job_id


def test_enqueue_says_what_it_stored(server: ServerProcess, client: Client, queue: str) -> None:
    done = anew(server.address, "enqueue", "greet", "-q", queue, '{"name": "Ada", "n": [1, 2.50, null]}')
    assert done.returncode == 0, done.stderr
    job_id, rest = done.stdout.split("  ", 1)
    assert rest == f"greet on {queue}, ready\n"
    job = client.job(job_id)
    assert (job["type"], job["priority"]) == ("greet", 32768)
    assert job["payload"] == {"name": "Ada", "n": [1, 2.5, None]}


def test_enqueue_with_every_option(server: ServerProcess, client: Client, queue: str, tmp_path: Path) -> None:
    (tmp_path / "payload.json").write_text(' {"from": "file"} \n')
    before = now_ms()
    answer = anew_json(
        server.address, "enqueue", "t", "-q", queue, f"@{tmp_path / 'payload.json'}", "--delay", "5m",
        "--priority", "7", "--retry-limit", "3", "--keep-completed", "1m", "--keep-dead", "2d",
    )  # fmt: skip
    job = client.job(answer["id"])
    assert job["payload"] == {"from": "file"}
    assert (job["status"], job["priority"], job["retry_limit"]) == ("scheduled", 7, 3)
    assert before + 300_000 <= job["ready_at"] <= now_ms() + 300_000
    assert job["retention"] == {"completed_ms": 60_000, "dead_ms": 172_800_000}


def test_enqueue_reads_stdin_and_a_moment(server: ServerProcess, client: Client, queue: str) -> None:
    answer = anew_json(
        server.address, "enqueue", "t", "-q", queue, "-", "--at", "2100-01-01T00:00:00Z", stdin='"text"'
    )
    job = client.job(answer["id"])
    # 2100-01-01 is 47,482 days after the epoch.
    assert (job["payload"], job["ready_at"]) == ("text", 47_482 * 86_400_000)


def test_enqueue_stores_as_many_as_are_asked_for(server: ServerProcess, client: Client, queue: str) -> None:
    answer = anew_json(server.address, "enqueue", "t", "-q", queue, "--count", "1500")
    assert answer["enqueued"] == len(set(answer["ids"])) == 1500
    assert client.count(queue=queue) == 1500


def test_enqueue_with_a_unique_key(server: ServerProcess, client: Client, queue: str) -> None:
    words = ("enqueue", "t", "-q", queue, "--unique-key", queue, "--unique-while", "active")
    first = anew_json(server.address, *words)
    assert (first["unique_key"], first["unique_while"], first["duplicate"]) == (queue, "active", False)
    again = anew(server.address, *words)
    assert again.stdout == f"not enqueued, as this job holds its key: {first['id']}  t on {queue}, ready\n"
    assert client.count(queue=queue) == 1
    shown = anew(server.address, "jobs", "show", first["id"]).stdout
    assert f"{queue}; until the job ends; held by this job" in shown
    refused = anew(server.address, *words, "--count", "2")
    assert (refused.returncode, "cannot be combined" in refused.stderr) == (2, True)


def test_enqueue_with_a_policy_of_ones_own(server: ServerProcess, client: Client, queue: str) -> None:
    policy = '{"curve": {"constant": "7s"}, "limit": 1}'
    job_id = anew_json(server.address, "enqueue", "t", "-q", queue, "--policy", policy)["id"]
    before = now_ms()
    after = client.run_one(queue, client.fail)
    assert (after["id"], after["status"]) == (job_id, "scheduled")
    assert before + 7_000 <= after["ready_at"] <= now_ms() + 7_000


def test_a_refusal_of_the_server_is_told(server: ServerProcess) -> None:
    done = anew(server.address, "enqueue", "a,b", "-q", "q")
    assert (done.returncode, done.stdout) == (2, "")
    assert "type must not contain ','" in done.stderr


def test_jobs_list_filters_sorts_and_limits(server: ServerProcess, client: Client, queue: str) -> None:
    ids = client.enqueue_many(queue, 5)
    later = client.enqueue(queue, type="later", ready_at=now_ms() + 3_600_000)["id"]
    listed = anew_json(server.address, "jobs", "list", "-q", queue)["jobs"]
    assert [job["id"] for job in listed] == [*ids, later]
    newest = anew_json(server.address, "jobs", "list", "-q", queue, "--newest", "--limit", "2")["jobs"]
    assert [job["id"] for job in newest] == [later, ids[4]]
    chosen = anew_json(server.address, "jobs", "list", "-q", queue, "--status", "scheduled,dead")["jobs"]
    assert [job["id"] for job in chosen] == [later]
    assert anew_json(server.address, "jobs", "list", "-q", queue, "-t", "work", "--count") == {"count": 5}


def test_jobs_list_for_people(server: ServerProcess, client: Client, queue: str) -> None:
    ids = client.enqueue_many(queue, 3)
    done = anew(server.address, "jobs", "list", "-q", queue, "--limit", "2")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["ID", "TYPE", "QUEUE", "STATUS", "FAILURES", "WHEN"]
    assert [line.split()[0] for line in lines[1:]] == ids[:2]
    assert "There are more" in done.stderr
    assert "\x1b" not in done.stdout
    assert anew(server.address, "jobs", "list", "-q", queue + "-none").stdout == "No jobs.\n"


def test_jobs_show_tells_the_failures(server: ServerProcess, client: Client, queue: str) -> None:
    job_id = client.enqueue(queue, payload={"a": 1}, backoff=IMMEDIATE, retry_limit=3)["id"]
    client.run_one(
        queue, lambda taken: client.fail(taken, message="first", error_type="IOError", backtrace="x:1")
    )
    done = anew(server.address, "jobs", "show", job_id, "--backtrace")
    assert done.returncode == 0, done.stderr
    assert "payload" in done.stdout
    assert '{"a": 1}' in done.stdout
    assert "IOError: first" in done.stdout
    assert "x:1" in done.stdout
    answer = anew_json(server.address, "jobs", "show", job_id)
    assert answer["job"]["id"] == job_id
    assert [(error["attempt"], error["message"]) for error in answer["errors"]] == [(1, "first")]


def test_jobs_show_tells_why_it_waits(server: ServerProcess, client: Client, queue: str) -> None:
    # 1^2 s and 100 ms, no jitter.
    job_id = client.enqueue(queue, backoff={"exponent": 2, "base_ms": 100, "jitter_ms": 0})["id"]
    client.run_one(queue, client.fail)
    decision = anew_json(server.address, "jobs", "show", job_id)["errors"][0]["decision"]
    assert (decision["nominal_ms"], decision["wait_ms"]) == (1_100, 1_100)
    assert "1.1 s" in anew(server.address, "jobs", "show", job_id).stdout


def test_what_a_terminal_would_obey_is_not_printed(server: ServerProcess, client: Client, queue: str) -> None:
    """Names may hold anything but NUL and a few reserved characters; U+009B begins a sequence as ESC [ does."""
    odd = queue + "\x1b)0;x\x07"
    job = client.enqueue(odd, type="a\x1bb", payload="c\x9b2J")
    commands = [
        ("jobs", "show", job["id"]),
        ("queues", "--names"),
        ("enqueue", "t\x1b", "--queue", odd),
        ("enqueue", "t\x1b,", "--queue", odd),
    ]
    for command in commands:
        done = anew(server.address, *command)
        printed = done.stdout + done.stderr
        assert printed
        assert all(char.isprintable() or char == "\n" for char in printed), printed


def test_an_unknown_job_is_exit_code_4(server: ServerProcess) -> None:
    for verb in ("show", "retry", "cancel"):
        done = anew(server.address, "jobs", verb, "nosuchjob")
        assert (done.returncode, done.stdout) == (4, ""), verb
        assert "job not found" in done.stderr
    assert anew(server.address, "jobs", "delete", "nosuchjob", "--yes").returncode == 4


def test_jobs_delete_by_id_and_by_filter(server: ServerProcess, client: Client, queue: str) -> None:
    first, *_ = client.enqueue_many(queue, 4)
    assert anew(server.address, "jobs", "delete", first).returncode == 2
    assert client.count(queue=queue) == 4
    assert anew(server.address, "jobs", "delete", first, "--yes").stdout == f"{first} is deleted\n"
    assert anew_json(server.address, "jobs", "delete", "-q", queue, "--yes") == {"deleted": 3}
    assert client.count(queue=queue) == 0


def test_one_refusal_does_not_stop_the_others(server: ServerProcess, client: Client, queue: str) -> None:
    job_id = client.enqueue(queue)["id"]
    done = anew(server.address, "jobs", "delete", "nosuchjob", job_id, "--yes", "--json")
    assert done.returncode == 4
    assert [item["ok"] for item in json.loads(done.stdout)["jobs"]] == [False, True]
    assert client.count(queue=queue) == 0


def test_jobs_retry_makes_a_dead_job_ready(server: ServerProcess, client: Client, queue: str) -> None:
    job_id = kill_one(client, queue)
    assert anew(server.address, "jobs", "retry", job_id).stdout == f"{job_id} is ready again\n"
    assert client.job(job_id)["status"] == "ready"
    again = anew(server.address, "jobs", "retry", job_id)
    assert (again.returncode, again.stdout) == (5, "")


def test_jobs_cancel_ends_a_job(server: ServerProcess, client: Client, queue: str) -> None:
    job_id = client.enqueue(queue)["id"]
    assert anew(server.address, "jobs", "cancel", job_id).stdout == f"{job_id} is cancelled\n"
    assert anew(server.address, "jobs", "cancel", job_id).returncode in (4, 5)
    assert client.count(queue=queue, status="ready") == 0


def test_queues_counts_by_status(server: ServerProcess, client: Client, queue: str) -> None:
    client.enqueue_many(queue, 2)
    client.enqueue(queue, ready_at=now_ms() + 3_600_000)
    kill_one(client, queue + "-dead")
    rows = {row["name"]: row for row in anew_json(server.address, "queues")["queues"]}
    assert (rows[queue]["ready"], rows[queue]["scheduled"], rows[queue]["dead"]) == (2, 1, 0)
    assert rows[queue + "-dead"]["dead"] == 1
    assert queue in anew(server.address, "queues", "--names").stdout.splitlines()
    assert anew(server.address, "queues").stdout.startswith("QUEUE")


def test_dead_list_shows_the_last_error(server: ServerProcess, client: Client, queue: str) -> None:
    job_id = kill_one(client, queue, "no route to host")
    answer = anew_json(server.address, "dead", "list", "-q", queue)["jobs"]
    assert [(item["id"], item["last_error"]["message"]) for item in answer] == [(job_id, "no route to host")]
    done = anew(server.address, "dead", "list", "-q", queue)
    assert "IOError: no route to host" in done.stdout
    assert done.stderr == ""
    assert anew(server.address, "dead", "list", "-q", queue + "-none").stdout == "No dead jobs.\n"


def test_dead_list_tells_the_cancelled_from_the_dead(
    server: ServerProcess, client: Client, queue: str
) -> None:
    died = kill_one(client, queue)
    failed = client.enqueue(queue)["id"]
    client.run_one(queue, lambda taken: client.fail(taken, message="boom"))
    fresh = client.enqueue(queue)["id"]
    for job_id in (failed, fresh):
        assert client.post(f"/v1/jobs/{job_id}/cancel").status == 200
    jobs = anew_json(server.address, "dead", "list", "-q", queue)["jobs"]
    states = {job["id"]: job["state"] for job in jobs}
    assert states == {died: "dead", failed: "cancelled", fresh: "cancelled"}
    lines = anew(server.address, "dead", "list", "-q", queue).stdout.splitlines()
    words = {line.split()[0]: ("cancelled" in line, "died" in line) for line in lines[1:]}
    assert words == {died: (False, True), failed: (True, False), fresh: (True, False)}


def requests_made(server: ServerProcess, client: Client, *words: str) -> int:
    """How many requests a command makes: the server counts them, and the one that asks for their number too."""

    def counted() -> int:
        shown = client.get("/metrics").body.decode()
        return int(float(re.findall(r"^anew_requests_total (.*)$", shown, re.MULTILINE)[0]))

    before = counted()
    assert anew(server.address, *words).returncode == 0
    return counted() - before - 1


def test_lists_ask_once_however_many_rows_they_have(
    fresh_server: Callable[..., ServerProcess], fresh: Callable[..., Client]
) -> None:
    server = fresh_server()
    client = fresh(server)
    for number in range(4):
        kill_one(client, f"q{number}")
    assert requests_made(server, client, "queues") == 1
    assert requests_made(server, client, "dead", "list") == 1
    assert requests_made(server, client, "health") == 1


def test_health_says_how_the_server_is(server: ServerProcess) -> None:
    done = anew(server.address, "health")
    assert (done.returncode, done.stdout) == (0, f"ok  {url_of(server.address)}  commit full\n")
    assert anew_json(server.address, "health") == {"status": "ok", "commit": "full"}


def test_jobs_patch_changes_one_job_and_takes_values_back(
    server: ServerProcess, client: Client, queue: str
) -> None:
    job_id = client.enqueue(queue)["id"]
    done = anew(
        server.address, "jobs", "patch", job_id, "--queue", queue + "-2", "--priority", "7", "--ready-at",
        "2100-01-01T00:00:00Z", "--retry-limit", "3", "--policy", "even", "--keep-dead", "2d",
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"{job_id} is changed\n"), done.stderr
    job = client.job(job_id)
    assert (job["queue"], job["priority"], job["retry_limit"]) == (queue + "-2", 7, 3)
    # 2100-01-01 is 47,482 days after the epoch.
    assert (job["status"], job["ready_at"]) == ("scheduled", 47_482 * 86_400_000)
    assert (job["policy"], job["retention"]) == ("even", {"dead_ms": 172_800_000})
    words = [
        word for name in ("ready-at", "retry-limit", "policy", "retention") for word in ("--clear", name)
    ]
    assert anew_json(server.address, "jobs", "patch", job_id, *words)["jobs"] == [{"id": job_id, "ok": True}]
    job = client.job(job_id)
    assert job["status"] == "ready"
    assert not job.keys() & {"retry_limit", "policy", "retention"}


def test_jobs_patch_changes_those_that_match(server: ServerProcess, client: Client, queue: str) -> None:
    client.enqueue_many(queue, 3)
    other = client.enqueue(queue, type="other")["id"]
    words = ("--where-queue", queue, "--where-type", "work", "--priority", "1")
    assert anew_json(server.address, "jobs", "patch", *words) == {"patched": 3}
    assert client.count(queue=queue, priority="1") == 3
    assert client.job(other)["priority"] == 32768


def test_jobs_patch_of_an_ended_job_is_a_conflict_with_its_code(
    server: ServerProcess, client: Client, queue: str
) -> None:
    job_id = kill_one(client, queue)
    done = anew(server.address, "jobs", "patch", job_id, "nosuchjob", "--priority", "1", "--json")
    assert done.returncode == 5
    refused = json.loads(done.stdout)["jobs"]
    assert [(item["ok"], item["code"]) for item in refused] == [
        (False, "illegal_transition"),
        (False, "not_found"),
    ]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(server: ServerProcess, shell: str) -> None:
    script = anew(server.address, "completion", shell)
    assert script.returncode == 0
    # The script calls `anew` again with a variable that names it.
    name = f"{shell}_complete"
    assert f"_ANEW_COMPLETE={name}" in script.stdout
    words = {
        "_ANEW_COMPLETE": name,
        "COMP_WORDS": "anew jobs pa",
        "COMP_CWORD": "pa" if shell == "fish" else "2",
    }
    assert "patch" in anew(server.address, **words).stdout


def test_dead_list_says_when_there_are_more(server: ServerProcess, client: Client, queue: str) -> None:
    newest = [kill_one(client, queue) for _ in range(3)][-1]
    done = anew(server.address, "dead", "list", "-q", queue, "--limit", "1")
    assert newest in done.stdout
    assert done.stderr == "There are more; --limit more than 1 shows them.\n"
    assert anew(server.address, "dead", "list", "-q", queue, "--limit", "3").stderr == ""


def test_dead_retry_tells_how_many_before_it_does_it(
    server: ServerProcess, client: Client, queue: str
) -> None:
    job_id = kill_one(client, queue)
    words = ["dead", "retry", "-q", queue, "--dry-run"]
    assert anew(server.address, *words).stdout == "1 would be made ready\n"
    assert anew_json(server.address, *words, "--error-type", "Nothing") == {"retried": 0, "meant": 0}
    assert client.job(job_id)["status"] == "dead"


def test_dead_retry_by_id_and_by_queue(server: ServerProcess, client: Client, queue: str) -> None:
    ids = [kill_one(client, queue) for _ in range(3)]
    assert anew(server.address, "dead", "retry", ids[0]).stdout == f"{ids[0]} is ready again\n"
    assert anew_json(server.address, "dead", "retry", "-q", queue) == {"retried": 2}
    assert client.count(queue=queue, status="ready") == 3


def test_cancelled_jobs_are_shown_as_such_and_left_alone_where_dead_ones_are_meant(
    fresh_server: Callable[..., ServerProcess], fresh: Callable[..., Client], queue: str
) -> None:
    server = fresh_server()
    client = fresh(server)
    died, called_off = kill_one(client, queue), client.enqueue(queue)["id"]
    anew(server.address, "jobs", "cancel", called_off)
    shown = anew(server.address, "jobs", "list").stdout.splitlines()[1:]
    assert [line.split()[3] for line in shown] == ["dead", "cancelled"]
    for status, ids in (
        ("cancelled", [called_off]),
        ("dead", [died, called_off]),
        ("cancelled,ready", [called_off]),
    ):
        listed = anew_json(server.address, "jobs", "list", "--status", status)["jobs"]
        assert [job["id"] for job in listed] == ids
        assert anew_json(server.address, "jobs", "list", "--status", status, "--count") == {"count": len(ids)}
    (status,) = [
        line.split()
        for line in anew(server.address, "jobs", "show", called_off).stdout.splitlines()
        if line.startswith("status")
    ]
    assert status == ["status", "cancelled"]
    assert anew_json(server.address, "dead", "retry", "--all") == {"retried": 1}
    assert (client.job(died)["status"], client.job(called_off)["status"]) == ("ready", "dead")
    assert anew_json(server.address, "dead", "retry", "-q", queue) == {"retried": 0}
    assert anew_json(server.address, "dead", "retry", "--all", "--cancelled") == {"retried": 1}
    assert client.job(called_off)["status"] == "ready"


def test_dead_retry_spreads(server: ServerProcess, client: Client, queue: str) -> None:
    for _ in range(4):
        kill_one(client, queue)
    before = now_ms()
    done = anew(server.address, "dead", "retry", "-q", queue, "--spread", "10m", "--reset-attempts")
    assert done.stdout == "4 made ready, spread over 10 min\n"
    due = sorted(job["ready_at"] for job in client.jobs(queue=queue))
    assert due[0] >= before
    assert due[-1] <= now_ms() + 600_000
    # Even: neighbours lie a quarter of the ten minutes apart.
    assert all(140_000 <= later - earlier <= 160_000 for earlier, later in itertools.pairwise(due))
    assert {job["attempts"] for job in client.jobs(queue=queue)} == {0}


@pytest.fixture
def locked(fresh_server: Callable[..., ServerProcess]) -> ServerProcess:
    """A server that asks for a token."""
    return fresh_server(token="s3cret")


def test_a_token_is_asked_for_and_sent(locked: ServerProcess) -> None:
    refused = anew(locked.address, "jobs", "list")
    assert (refused.returncode, refused.stdout) == (5, "")
    assert "ANEW_TOKEN" in refused.stderr
    assert anew(locked.address, "jobs", "list", "--token", "wrong").returncode == 5
    assert anew(locked.address, "jobs", "list", ANEW_TOKEN="s3cret").returncode == 0


def test_no_server_says_how_to_start_one(fresh_server: Callable[..., ServerProcess]) -> None:
    gone = fresh_server()
    gone.kill()
    done = anew(gone.address, "queues")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"no server at {url_of(gone.address)}" in done.stderr
    assert "anew serve" in done.stderr


def test_help_loads_nothing_of_the_server_or_its_libraries() -> None:
    """Those take most of the time in which a command starts."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "anew", "--help"],
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        env=environment(),
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "anew.cli.root" in loaded
    heavy = {"apsw", "asyncio", "h2", "msgspec", "prometheus_client", "uvloop"}
    assert not loaded & {*heavy, "anew.app", "anew.engine", "anew.http", "anew.store"}
