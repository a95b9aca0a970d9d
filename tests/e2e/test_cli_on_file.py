"""The command line on the file of a Python program: no server runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from anew import Anew

from .server import START_TIMEOUT_S, environment


def anew(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ``anew`` in a folder, with a home where nothing says where a server is."""
    known = {name: value for name, value in environment().items() if not name.startswith("ANEW_")}
    return subprocess.run(
        [sys.executable, "-m", "anew", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        env=known | variables,
        check=False,
    )


@pytest.fixture
def app(tmp_path: Path) -> Anew:
    app = Anew(tmp_path / "jobs.db")

    @app.task(name="greet", queue="mail", policy=[])
    def greet(name: str) -> None:
        raise ValueError(name)

    for name in ("Ada", "Grace"):
        greet.enqueue(name)
    return app


def test_jobs_of_a_file_are_listed_by_flag_and_by_variable(app: Anew, tmp_path: Path) -> None:
    by_flag = anew(tmp_path, "jobs", "list", "--url", "jobs.db", "--json")
    by_variable = anew(tmp_path, "jobs", "list", "--json", ANEW_URL="jobs.db", ANEW_TOKEN="another")
    assert (by_flag.returncode, by_flag.stderr) == (0, "")
    assert [job["payload"] for job in json.loads(by_flag.stdout)["jobs"]] == [
        {"name": "Ada"},
        {"name": "Grace"},
    ]
    assert by_variable.stdout == by_flag.stdout


def test_queues_and_jobs_of_a_file_are_steered_while_a_program_has_it_open(app: Anew, tmp_path: Path) -> None:
    assert anew(tmp_path, "queues", "pause", "mail", "--url", "jobs.db").stdout == "mail is paused\n"
    app.run_worker(burst=True)
    assert app.counts("mail")["ready"] == 2
    assert anew(tmp_path, "queues", "resume", "mail", "--url", "jobs.db").returncode == 0
    app.run_worker(burst=True)
    assert app.counts("mail")["dead"] == 2
    assert anew(tmp_path, "dead", "retry", "--all", "--url", "jobs.db").returncode == 0
    assert app.counts("mail")["ready"] == 2


def test_a_job_is_enqueued_into_a_file(app: Anew, tmp_path: Path) -> None:
    done = anew(tmp_path, "enqueue", "other", "-q", "web", "--json", "--url", "jobs.db")
    info = app.job(json.loads(done.stdout)["id"]).info()
    assert info is not None
    assert (info.task, info.queue, info.state) == ("other", "web", "ready")


def test_a_program_run_for_jobs_of_a_file_has_the_retries_of_its_tasks(app: Anew, tmp_path: Path) -> None:
    job_id = json.loads(anew(tmp_path, "enqueue", "x", "-q", "web", "--json", "--url", "jobs.db").stdout)[
        "id"
    ]
    anew(tmp_path, "work", "--queue", "web", "--url", "jobs.db", "--once", "--", "false")
    info = app.job(job_id).info()
    assert info is not None
    (error,) = info.errors
    assert error.reason.startswith("retry 1: 30 s "), "even's first; a server's usual one has 16 s"


def test_nothing_is_left_behind(app: Anew, tmp_path: Path) -> None:
    app.close()
    before = sorted(os.listdir(tmp_path))
    assert anew(tmp_path, "queues", "--url", "jobs.db").returncode == 0
    assert sorted(os.listdir(tmp_path)) == before
    assert "All is well." in anew(tmp_path, "doctor", "jobs.db").stdout


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    done = anew(tmp_path, "jobs", "list", "--url", "nope.db")
    assert done.returncode == 4
    assert 'Error: "nope.db" holds no store' in done.stderr
    assert os.listdir(tmp_path) == []


def test_whoever_has_a_file_and_asks_a_server_is_told_of_it(app: Anew, tmp_path: Path) -> None:
    asked = anew(tmp_path, "queues", ANEW_PORT="1")
    assert asked.returncode == 3
    assert "--url jobs.db, or serve them: anew serve --root-dir jobs.db" in asked.stderr
    looked = anew(tmp_path, "doctor")
    assert looked.returncode == 4
    assert "jobs.db" in looked.stderr


def test_doctor_takes_a_store_once(tmp_path: Path) -> None:
    done = anew(tmp_path, "doctor", "a.db", "--root-dir", "b.db")
    assert (done.returncode, "expected one of them" in done.stderr) == (2, True)
