"""What is logged of jobs: one record an event, with fields, and never a payload."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anew import Anew, Cancel, Discard, Downstream, Snooze
from anew.logs import fields_of

from . import processing

SECRET = "hunter2"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Anew]:
    with Anew(tmp_path / "jobs.db", policy=["1h"]) as made:
        yield made


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    """The level and the fields of each record of an event, but for the message and the traceback."""
    found = [
        (record.levelname, fields_of(record)) for record in caplog.records if record.name == "anew.tasks"
    ]
    assert SECRET not in str(found)
    return [
        (level, {name: value for name, value in fields.items() if name not in ("message", "exception")})
        for level, fields in found
        if "event" in fields
    ]


def test_every_event_of_a_job_is_logged_with_its_fields(app: Anew, caplog: pytest.LogCaptureFixture) -> None:
    raised: dict[str, Exception | None] = {
        "well": None, "fails": ValueError("no"), "dies": Discard("gone"), "snoozes": Snooze("1h", "soon"), "leaves": Cancel("left"),
    }  # fmt: skip

    @app.task(name="t", queue="mail")
    def handle(kind: str, secret: str) -> None:
        if (error := raised[kind]) is not None:
            raise error

    caplog.set_level(logging.DEBUG, "anew.tasks")
    ends = {
        "well": ("INFO", {"event": "succeeded"}),
        "fails": (
            "WARNING",
            {"event": "failed", "error_type": "ValueError", "reason": "no", "outcome": "error"},
        ),
        "dies": (
            "ERROR",
            {"event": "discarded", "error_type": "Discard", "reason": "gone", "outcome": "error"},
        ),
        "snoozes": ("INFO", {"event": "snoozed", "reason": "soon", "outcome": "snoozed"}),
        "leaves": ("INFO", {"event": "cancelled", "reason": "left"}),
    }
    for kind, (level, facts) in ends.items():
        caplog.clear()
        job = handle.enqueue(kind, secret=SECRET)
        app.run_worker(burst=True)
        info = job.info()
        about = {"job_id": job.id, "task": "t", "queue": "mail"}
        enqueued, started, (end, fields) = logged(caplog)
        assert enqueued == ("DEBUG", {"event": "enqueued"} | about)
        assert started == ("DEBUG", {"event": "started", "attempt": 1} | about)
        assert fields.pop("took_ms") >= 0
        if kind in ("fails", "snoozes"):
            assert info is not None
            facts = facts | {"next_at": info.ready_at}
        assert (end, fields) == (level, facts | {"attempt": 1} | about)


def test_a_duplicate_is_logged_as_one(app: Anew, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "anew.tasks")
    task = app.task(lambda: None, name="t", unique=True)
    task.using(delay="1h").enqueue()
    task.enqueue()
    first, second = (fields for _, fields in logged(caplog))
    assert (first["event"], second["event"]) == ("enqueued", "duplicate")
    assert first["job_id"] == second["job_id"]
    assert first["ready_at"] > 0


def test_a_job_that_comes_back_from_a_process_that_died_is_logged(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    app = processing.app
    with caplog.at_level(logging.INFO, "anew.tasks"):
        processing.vanish.using(max_attempts=1).enqueue(str(tmp_path / SECRET))
        app.run_worker(burst=True)
        app.close()
    ends = [(level, fields) for level, fields in logged(caplog) if "outcome" in fields]
    assert {(level, one["event"], one["outcome"], one["reason"]) for level, one in ends} >= {
        ("WARNING", "rescued", "interrupted", "its process has ended with exit code 3")
    }


def test_what_a_handler_raises_is_logged_with_its_traceback(
    app: Anew, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(name="t")
    def fails() -> None:
        raise ValueError("no")

    fails.enqueue()
    app.run_worker(burst=True)
    (record,) = [one for one in caplog.records if getattr(one, "event", "") == "failed"]
    printed = logging.Formatter("%(message)s").format(record)  # as any program prints it
    assert "in fails" in printed
    assert printed.rstrip().endswith("ValueError: no")
    assert fields_of(record)["exception"].endswith("ValueError: no")


def test_a_breaker_that_turns_is_logged(app: Anew, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "anew.tasks")

    @app.task(name="t", downstream=Downstream("stripe", failures=0.5, least=1))
    def call(secret: str) -> None:
        raise ConnectionError("down")

    call.enqueue(SECRET)
    app.run_worker(burst=True)
    level, fields = logged(caplog)[-1]
    assert (level, fields["event"], fields["downstream"]) == ("WARNING", "breaker_opened", "stripe")
    assert fields["next_at"] > app.now()


def test_a_job_that_was_called_off_while_it_ran_is_logged(
    app: Anew, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "anew.tasks")
    job = app.task(lambda secret: app.job(holder[0]).cancel(), name="t").enqueue(SECRET)
    holder = [job.id]
    app.run_worker(burst=True)
    assert logged(caplog) == [
        ("INFO", {"event": "lost", "job_id": job.id, "task": "t", "queue": "default", "attempt": 1})
    ]


def test_nothing_is_built_for_nobody(app: Anew, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "anew.tasks")
    app.task(lambda: None, name="t").enqueue()
    app.run_worker(burst=True)
    assert logged(caplog) == []
