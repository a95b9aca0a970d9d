"""Hooks that raise, and hooks that are slower than what happens."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from anew import Anew
from anew.errors import InvalidInput
from anew.tasks import events
from anew.tasks.events import Event, Events, names_of


def event(number: int) -> Event:
    """Make one."""
    return Event(name="enqueued", job_id=str(number), task="t", queue="default")


@pytest.mark.parametrize("hook", [lambda one: 1 // 0, lambda one: sys.exit(1)])
def test_a_hook_that_raises_is_logged_and_the_others_are_called(
    caplog: pytest.LogCaptureFixture, hook: Callable[[Event], object]
) -> None:
    heard: list[str] = []
    hooks = Events()
    hooks.add(hook, ["enqueued"])
    hooks.add(lambda one: heard.append(one.job_id), ["enqueued"])
    hooks.emit(event(1))
    hooks.emit(event(2))
    hooks.close()
    assert heard == ["1", "2"]
    assert [record.message for record in caplog.records] == ["a hook failed"] * 2


def at_work(heard: list[str]) -> tuple[Events, threading.Event]:
    """Give hooks that have begun to hear of event 1, and what lets them go on."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(one: Event) -> None:
        begun.set()
        assert go_on.wait(20)
        heard.append(one.job_id)

    hooks = Events()
    hooks.add(slow, ["enqueued"])
    hooks.emit(event(1))
    assert begun.wait(20)
    return hooks, go_on


def test_events_are_dropped_and_logged_once_where_hooks_are_too_slow(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(events, "MOST_WAITING", 2)
    heard: list[str] = []
    hooks, go_on = at_work(heard)
    for number in range(2, 7):
        hooks.emit(event(number))
    go_on.set()
    hooks.close()
    assert heard == ["1", "2", "3"]
    assert [record.message for record in caplog.records] == ["hooks are too slow: events are dropped"]


def test_an_event_for_which_no_thread_can_be_started_is_dropped_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    heard: list[str] = []
    hooks = Events()
    hooks.add(lambda one: heard.append(one.job_id), ["enqueued"])
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        hooks.emit(event(1))
    hooks.emit(event(2))
    hooks.close()
    assert heard == ["2"]
    assert [record.message for record in caplog.records] == ["hooks cannot be called: an event is dropped"]


def test_the_thread_ends_and_the_next_event_starts_another() -> None:
    heard: list[str] = []
    hooks = Events()
    hooks.add(lambda one: heard.append(one.job_id), ["enqueued"])
    for number in (1, 2):
        hooks.emit(event(number))
        hooks.close()
        assert "anew-events" not in [thread.name for thread in threading.enumerate()]
    assert heard == ["1", "2"]


def test_an_event_that_comes_while_the_thread_ends_is_heard_after_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ending = threading.Event()
    join = threading.Thread.join

    def joined(thread: threading.Thread, timeout: float | None = None) -> None:
        if threading.current_thread() is closing:
            ending.set()
        join(thread, timeout)

    heard: list[str] = []
    hooks, go_on = at_work(heard)
    closing = threading.Thread(target=hooks.close, daemon=True)
    monkeypatch.setattr(threading.Thread, "join", joined)
    closing.start()
    assert ending.wait(20)
    hooks.emit(event(2))
    go_on.set()
    join(closing, 20)
    assert not closing.is_alive()
    hooks.close()
    assert heard == ["1", "2"]


def test_a_hook_may_close_its_application() -> None:
    heard: list[str] = []
    hooks = Events()

    def close(one: Event) -> None:
        hooks.close()
        heard.append(one.job_id)

    hooks.add(close, ["enqueued"])
    for number in (1, 2):
        hooks.emit(event(number))
    hooks.close()
    assert heard == ["1", "2"]
    assert "anew-events" not in [thread.name for thread in threading.enumerate()]


def test_an_event_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(
        InvalidInput, match=r"on: 'done' is no event; expected one of enqueued, folded, started"
    ) as caught:
        names_of(["started", "done"])
    assert caught.value.field == "name"


KILLED = """
import os, signal
from anew import Anew

app = Anew("jobs.db")

@app.task(name="kills")
def kills() -> None:
    os.kill(os.getpid(), signal.SIGKILL)

app.run_worker()
"""


def test_a_job_whose_worker_was_killed_is_rescued_or_in_the_end_discarded_by_whoever_sees_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Event] = []
    came = threading.Semaphore(0)

    with Anew(tmp_path / "jobs.db") as app:

        @app.on("rescued", "discarded")
        def note(one: Event) -> None:
            heard.append(one)
            came.release()

        job = app.task(lambda: None, name="kills").enqueue()
        for _ in range(3):
            killed = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, timeout=60, check=False)
            assert killed.returncode == -signal.SIGKILL
            while not came.acquire(timeout=0.05):  # each call looks after what is due
                app.counts()
        info = job.info()
    assert info is not None
    assert info.state == "dead"
    assert [(one.name, one.attempt, one.outcome, one.job_id) for one in heard] == [
        ("rescued", 1, "interrupted", job.id),
        ("rescued", 1, "interrupted", job.id),
        ("discarded", 1, "interrupted", job.id),
    ]
    assert heard[1].next_at is not None
    assert [record.levelname for record in caplog.records if "its process died" in record.message] == [
        "WARNING", "WARNING", "ERROR",
    ]  # fmt: skip
