"""``make demo``: it ends by itself, adds up, fails where it does not, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec import Raw

from anew.client import ErrorView, JobView
from demo.report import Standing, policy_rows, retries_of, show_sums

from .server import environment

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 90.0


def start(folder: Path) -> subprocess.Popen[str]:
    """Start the demo with a temporary directory and a mark of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "demo"],
        cwd=ROOT,
        env=environment() | {"TMPDIR": str(folder), "DEMO_TEST_MARK": str(folder), "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def left_behind(folder: Path) -> list[str]:
    """Files in its directory, and processes that carry its mark."""
    mark = f"DEMO_TEST_MARK={folder}\0".encode()
    found = [str(path) for path in folder.iterdir()]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            # A killed process that nobody has waited for yet has an empty environment.
            if mark in (process / "environ").read_bytes() + b"\0":
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_the_demo_ends_by_itself_and_adds_up(tmp_path: Path) -> None:
    demo = start(tmp_path)
    told, complaints = demo.communicate(timeout=LIMIT_S)
    assert (demo.returncode, complaints) == (0, ""), told
    assert "enqueued 200 = delivered 193 + dead 7;  lost 0" in told
    assert "kill -9" in told
    assert "really ran after" in told
    assert told.endswith("Everything adds up.\n")
    assert "\033" not in told
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_an_ended_demo_leaves_nothing_behind(tmp_path: Path, number: signal.Signals, status: int) -> None:
    demo = start(tmp_path)
    assert demo.stdout is not None
    while "delivered" not in (line := demo.stdout.readline()):
        assert line, "the demo ended before its timeline began"
    demo.send_signal(number)
    assert demo.wait(LIMIT_S) == status
    demo.communicate()
    deadline = time.monotonic() + 10
    while left_behind(tmp_path) and time.monotonic() < deadline:
        os.sched_yield()
    assert left_behind(tmp_path) == []


def job(invoice: str, status: str, **fields: object) -> JobView:
    """A job as the server would show it."""
    document = f'{{"invoice": "{invoice}"}}'.encode()
    values = {"id": invoice, "type": "t", "queue": "q", "priority": 0, "ready_at": 0, "attempts": 0} | fields
    return JobView(status=status, payload=Raw(document), **values)  # type: ignore[arg-type]


ROWS = [{"invoice": "A"}, {"invoice": "B"}]


@pytest.mark.parametrize(
    ("jobs", "booked", "right"),
    [
        ([job("A", "completed"), job("B", "dead")], {"A": 1}, True),
        ([job("A", "completed"), job("B", "dead")], {"A": 3}, True),
        ([job("A", "completed")], {"A": 1}, False),
        ([job("A", "completed"), job("B", "ready")], {"A": 1}, False),
        ([job("A", "completed"), job("B", "completed")], {"A": 1}, False),
        ([job("A", "completed"), job("B", "dead")], {"A": 1, "B": 1}, False),
        ([job("A", "completed"), job("B", "dead"), job("B", "dead")], {"A": 1}, False),
    ],
    ids=["right", "delivered again", "lost", "not at its end", "not delivered", "dead and booked", "twice"],
)
def test_sums_that_do_not_add_up_are_noticed(
    jobs: list[JobView], booked: dict[str, int], right: bool
) -> None:
    assert show_sums(ROWS, jobs, booked) is right


@pytest.mark.parametrize(
    ("planned_ms", "ran_at", "kept"),
    [(200, 1_200, True), (800, 1_801, True), (199, 1_199, False), (801, 1_801, False), (500, 1_499, False)],
)
def test_a_retry_outside_its_window_or_too_early_is_noticed(planned_ms: int, ran_at: int, kept: bool) -> None:
    """400 ms with ``even``: the first retry comes 200 to 800 ms after the failure."""
    rows = policy_rows({"curve": {"exponential": {"base": "400ms"}}, "jitter": "even", "limit": 5})
    decision = {"verdict": "retry", "wait_ms": planned_ms, "due_at": 1_000 + planned_ms}
    failure = ErrorView(attempt=1, message="down", dequeued_at=990, failed_at=1_000, decision=decision)
    (retry,) = retries_of(job("A", "completed", attempts=1, dequeued_at=ran_at), [failure], rows)
    assert retry.kept is kept


def test_the_bar_has_one_width() -> None:
    for delivered in range(194):
        standing = Standing(delivered=delivered, retrying=(200 - delivered) // 2, open=3, dead=7)
        assert standing.line(200).index("  delivered") == 40
