"""What is left after SIGKILL, seen through the Faktory Work Protocol."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from .fwp_crash import run
from .test_crash import fresh_seed


def test_twelve_kills_lose_resurrect_and_strand_nothing(tmp_path: Path) -> None:
    report = asyncio.run(run(12, fresh_seed(), tmp_path / "data"))
    print(report)
    assert report.accepted > 12 * 20, f"too little load to mean anything: {report}"
    assert report.ok, report


@pytest.mark.nightly
@pytest.mark.parametrize("round_", range(5))
def test_a_hundred_kills(tmp_path: Path, round_: int) -> None:
    report = asyncio.run(run(100, fresh_seed(), tmp_path / "data"))
    print(report)
    assert report.ok, report
