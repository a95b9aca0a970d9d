"""Waves of a herd: the same with and without NumPy, deadlines and all."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from anew.backoff import Policy, preset
from anew.lab import waves as module
from anew.lab.waves import ABSENT, ends, instants, tally, waits_between, waves


def plain(wave: Any) -> list[int]:
    return [int(ms) for ms in wave]


def constant(**more: Any) -> Policy:
    return Policy.from_json({"curve": {"constant": "10s"}, "limit": 5} | more)


def test_a_job_without_jitter_comes_back_every_time_after_the_same_wait() -> None:
    assert instants(constant(), 0, 3, seed=1) == (10_000, 20_000, 30_000)


@pytest.mark.parametrize(
    ("form", "retries"),
    [
        ({"preset": "even"}, 6),
        ({"preset": "sidekiq"}, 6),
        ({"preset": "aws_decorrelated", "limit": 6}, 6),
        ({"preset": "zzz_jobs"}, 6),
        ({"curve": {"constant": "10s"}, "jitter": "full", "deadline": "30s"}, 8),
        ({"curve": {"constant": "10s"}, "jitter": "full", "deadline": "30s", "on_deadline": "clip"}, 8),
        ({"curve": {"constant": "10s"}, "deadline": "20s"}, 4),
        # A wait of nothing passes no deadline, not even one that is met already.
        ({"curve": {"table": ["10s", "0s", "3s"]}, "deadline": "5s", "on_deadline": "clip"}, 3),
        ({"curve": {"table": ["0s", "0s", "3s"]}, "deadline": "0s", "on_deadline": "clip"}, 3),
        ({"curve": {"table": ["3s", "10s", "0s", "3s"]}, "deadline": "5s"}, 4),
    ],
)
def test_large_herds_do_what_each_of_their_jobs_does(
    form: dict[str, Any], retries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numpy")
    policy = Policy.from_json(form)
    quick = [plain(wave) for wave in waves(policy, 40, retries, seed=3)]
    monkeypatch.setattr(module, "has_numpy", lambda: False)
    slow = [plain(wave) for wave in waves(policy, 40, retries, seed=3)]
    assert quick == slow
    by_hand = [instants(policy, job, retries, seed=3) for job in range(40)]
    assert [tuple(wave[job] for wave in quick if wave[job] != ABSENT) for job in range(40)] == by_hand


def test_a_deadline_ends_a_herd() -> None:
    # 10, 20 s; the third would come at 30 s.
    found = waves(constant(deadline="29s"), 3, 5, seed=1)
    assert [plain(wave) for wave in found] == [[10_000] * 3, [20_000] * 3, *[[ABSENT] * 3] * 3]
    clipped = waves(constant(deadline="29s", on_deadline="clip"), 2, 5, seed=1)
    assert [plain(wave) for wave in clipped] == [
        [10_000] * 2,
        [20_000] * 2,
        [29_000] * 2,
        *[[ABSENT] * 2] * 2,
    ]


def test_waits_lie_between_waves() -> None:
    found = waves(constant(deadline="25s"), 2, 3, seed=1)
    assert plain(waits_between(found[0], None)) == [10_000, 10_000]
    assert plain(waits_between(found[1], found[0])) == [10_000, 10_000]
    assert plain(waits_between(found[2], found[1])) == []


@pytest.mark.parametrize("numpy", [False, True])
def test_a_tally_counts_into_bins_and_its_ends_take_what_lies_outside(numpy: bool) -> None:
    wave: Any = [5, 10, 19, 20, 99, ABSENT]
    if numpy:
        wave = pytest.importorskip("numpy").array(wave)
    assert tally(wave, [10, 20, 30]) == [3, 2]


def test_an_axis_ends_at_the_last_retry_and_one_early_bird_does_not_stretch_it() -> None:
    early = [[1, *[1_000] * 199], [5_000] * 200]
    assert ends(early) == (1_000, 5_000)
    assert ends([[0, 0], [ABSENT, 7]]) == (7, 8)
    assert ends([]) == (1, 2)


def test_with_numpy_an_axis_is_the_same() -> None:
    numpy = pytest.importorskip("numpy")
    rng = random.Random(7)
    for _ in range(50):
        rows = [[rng.choice((ABSENT, 0, rng.randrange(10**9))) for _ in range(250)] for _ in range(3)]
        assert ends([numpy.array(row) for row in rows]) == ends(rows)


def test_evens_waves_touch_and_never_shrink() -> None:
    rows = [instants(preset("even"), job, 8, seed=1) for job in range(30)]
    for row in rows:
        waits = [after - before for before, after in pairwise((0, *row))]
        assert waits == sorted(waits)
