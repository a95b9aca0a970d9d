"""A disk that fails: the server ends at once, and neither disk that may be left has lost, resurrected or stranded a job."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .failing import Report, run
from .test_crash import fresh_seed

RUNS = 30

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the failing disk is compiled")


def check(report: Report) -> None:
    print(f"seed {report.seed}: {report.reached} failures in {report.runs} runs, {report.answered} answers")
    print("\n".join(f"  {n} x {kind}" for kind, n in report.kinds.items()))
    assert report.findings == []
    assert report.reached > report.runs // 2
    assert report.answered > 20 * report.runs


def test_after_a_failed_write_or_sync_every_answer_holds(tmp_path: Path) -> None:
    """Each kind of call at its first, last and some other time."""
    check(run(runs=RUNS, seed=fresh_seed(), folder=tmp_path))


@pytest.mark.nightly
@pytest.mark.parametrize("round_", range(10))
def test_after_hundreds_of_failures_every_answer_holds(tmp_path: Path, round_: int) -> None:
    check(run(runs=100, seed=fresh_seed(), folder=tmp_path))


def test_the_rig_finds_what_a_server_loses_that_does_not_sync(tmp_path: Path) -> None:
    """The control: the disk after a power cut must miss what was answered, and the other one nothing."""
    report = run(runs=0, seed=1, folder=tmp_path, flags=("--commit", "relaxed"))
    assert any(finding.startswith("None: shadow:") and "is lost" in finding for finding in report.findings)
    assert not any("None: data:" in finding for finding in report.findings)
