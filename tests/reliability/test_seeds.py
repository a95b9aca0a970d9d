"""A seed is printed with each finding: the same one does the same again."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from . import plans
from .failing import _plans
from .powerloss import run
from .test_crash import fresh_seed


def test_reliability_60_a_seed_cuts_the_power_at_the_same_instants() -> None:
    first, again, other = (vars(run(images=15, seed=seed)) for seed in (5, 5, 6))
    assert first == again
    assert first != other


def test_reliability_60_a_seed_fails_the_same_calls_and_sends_the_same_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plans, "now_ms", lambda: 0)
    first, again, other = (plans.Plans(Random(seed)) for seed in (5, 5, 6))
    assert [first.batch() for _ in range(50)] == [again.batch() for _ in range(50)]
    assert first.batch() != other.batch()
    kinds = Counter({("w", "wal", "main"): 40, ("s", "wal", "main"): 20, ("w", "db", "other"): 7})
    assert _plans(kinds, 30, Random(5)) == _plans(kinds, 30, Random(5)) != _plans(kinds, 30, Random(6))


def test_reliability_60_a_seed_is_taken_from_whoever_repeats_a_finding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANEW_TEST_SEED", "77")
    assert fresh_seed() == 77
    monkeypatch.delenv("ANEW_TEST_SEED")
    assert fresh_seed() != fresh_seed()
