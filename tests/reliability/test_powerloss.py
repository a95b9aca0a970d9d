"""Power cuts: no answered change is lost, every image opens; and the harness notices when commits are not synced."""

from __future__ import annotations

import os

from .powerloss import run

IMAGES = int(os.environ.get("ANEW_POWERLOSS_IMAGES", "500"))


def test_reliability_04_no_answered_change_is_lost_in_a_power_cut() -> None:
    """Zero findings in n images bound the rate at 3/n with 95 % confidence."""
    report = run(images=IMAGES, seed=20_261)
    print(
        f"{report.images} images, {report.answered} answers, {report.syncs} syncs, {report.late_syncs} of them late, "
        f"bound {3 / report.images:.4f}"
    )
    assert (report.unopenable, report.damaged, report.lost, report.resurrected) == (0, 0, 0, 0), (
        report.examples
    )
    assert report.syncs > IMAGES
    assert report.late_syncs > IMAGES // 5
    assert report.answered > 10 * IMAGES


def test_reliability_05_59_the_harness_sees_what_relaxed_commits_lose() -> None:
    """The control: without a sync before the answer, images must miss answered changes."""
    report = run(images=60, seed=4, relaxed=True)
    assert report.lost > 0
    assert report.unopenable == 0
