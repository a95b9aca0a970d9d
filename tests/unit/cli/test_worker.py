"""``anew worker``: its options, its status line, and what it watches to start again."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from anew import Anew
from anew.cli.reloading import changed, stamps
from anew.cli.status_line import Rate, StatusLine, status_text
from anew.cli.worker import drain_of, queues_of, store_text, warn_of_policies
from anew.errors import InvalidInput

NOTHING = dict.fromkeys(
    ("succeeded", "failed", "discarded", "snoozed", "cancelled", "interrupted", "lost"), 0
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((), []),
        (("mail",), ["mail"]),
        (("mail,default", "web"), ["mail", "default", "web"]),
        (("mail:4,default",), {"mail": 4, "default": 8}),
        (("mail:4", "web:2"), {"mail": 4, "web": 2}),
        (("shop:mail",), ["shop:mail"]),
        (("shop:mail:3",), {"shop:mail": 3}),
    ],
)
def test_queues_are_names_or_names_with_numbers(
    given: tuple[str, ...], expected: list[str] | Mapping[str, int]
) -> None:
    assert queues_of(given, 8) == expected


@pytest.mark.parametrize("given", ["", "mail,", "mail,mail", "mail:4,mail", "mail:0", "mail:1001", ":4"])
def test_queues_that_do_not_fit_are_refused(given: str) -> None:
    with pytest.raises(InvalidInput, match=r"--queue: .* is not valid"):
        queues_of((given,), 8)


def test_the_drain_is_25_seconds_and_needs_a_unit() -> None:
    assert (drain_of(None), drain_of("1m"), drain_of("0s")) == (25.0, 60.0, 0.0)
    with pytest.raises(InvalidInput, match="--drain-timeout"):
        drain_of("5")


def test_where_jobs_are_is_said_without_secrets() -> None:
    assert store_text("jobs.db") == "jobs.db"
    assert (
        store_text("https://:secret@queue.example.org:7890/x?token=secret")
        == "https://queue.example.org:7890"
    )


# -- the status line


def test_the_line_says_what_runs_and_what_has_ended() -> None:
    assert status_text(0, NOTHING, 0.0, colour=False) == "0 running, 0 done, 0/s"
    done = NOTHING | {"succeeded": 1_204, "failed": 3, "discarded": 1}
    assert status_text(2, done, 350.4, colour=False) == "2 running, 1,204 done, 3 failed, 1 dead, 350/s"
    assert status_text(2, done, 0.25, "stopping", colour=False).startswith("stopping: 2 running, ")


def test_the_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate()
    assert rate.note(100.0, 0) == 0.0
    assert rate.note(101.0, 10) == 10.0
    assert rate.note(105.0, 10) == 2.0
    assert rate.note(106.0, 10) == 0.0


class Terminal(io.StringIO):
    """A terminal that notes what is written to it."""

    def isatty(self) -> bool:
        return True


def test_lines_that_are_printed_come_whole_and_above_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setattr("sys.stderr", terminal)
    with StatusLine(lambda: "1 running", lambda: "stopped"):
        print("hello", "Ada")
        print("no end", end="", flush=True)
    lines = terminal.getvalue().replace("\r1 running\x1b[K", "").replace("\r\x1b[K", "")
    assert lines == "hello Ada\nno endstopped\n"


# -- reloading


def test_the_projects_python_files_are_watched(tmp_path: Path) -> None:
    names = ["jobs.py", "shop/mail.py", "notes.txt", ".hidden/x.py", "env/pyvenv.cfg", "env/lib/y.py"]
    for name in [*names, "shop/__pycache__/mail.py"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    before = stamps(tmp_path)
    assert {os.path.relpath(path, tmp_path) for path in before} == {"jobs.py", "shop/mail.py"}


def test_new_changed_and_removed_files_are_changes() -> None:
    before = {"a.py": 1, "b.py": 1, "c.py": 1}
    assert changed(before, before) == []
    assert changed(before, {"a.py": 2, "c.py": 1, "d.py": 1}) == ["a.py", "b.py", "d.py"]


# -- the policies of tasks


def warned(app: Anew, caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    warn_of_policies(app, "orders:app")
    return [record.getMessage() for record in caplog.records]


def test_policies_that_may_not_be_meant_are_told_at_the_start_alike_ones_together(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = Anew("jobs.db")
    for name in ("fine", "a", "b"):
        policy = "even" if name == "fine" else {"curve": {"exponential": {"base": "1s"}}, "limit": 12}
        app.task(policy=policy, name=name)(lambda: None)
    alike, last = warned(app, caplog)
    assert alike.startswith(
        "a policy: a and 1 more: no-jitter: 1,000 jobs that fail together come back in the same instant"
    )
    assert last == "what to do about policies: anew policy lint orders:app"


def test_no_more_than_a_few_are_told(caplog: pytest.LogCaptureFixture) -> None:
    app = Anew("jobs.db")
    for minutes in range(2, 9):  # each cuts another number of retries
        policy = {"curve": {"constant": "10s"}, "jitter": "even", "deadline": f"{minutes}m", "limit": 99}
        app.task(policy=policy, name=f"t{minutes}")(lambda: None)
    *told, last = warned(app, caplog)
    assert len(told) == 5
    assert last == "2 more; what to do about policies: anew policy lint orders:app"


def test_policies_with_which_nothing_is_wrong_are_not_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    app = Anew("jobs.db")
    app.task(name="default")(lambda: None)
    app.task(policy="sidekiq", name="what is only worth knowing")(lambda: None)
    assert warned(app, caplog) == []
