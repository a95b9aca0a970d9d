"""Samples: drawn by the engine, the same for the same seed, each job by itself."""

import pytest

from anew.backoff import Policy, Previous, Wait, next_wait, preset
from anew.errors import InvalidInput
from anew.lab.chance import LabDraws
from anew.lab.laws.wait import law
from anew.lab.sample import sample

from ..backoff.helpers import make_policy
from .laws.draws import assert_agrees


@pytest.mark.parametrize(
    "policy",
    [
        preset("aws_decorrelated"),
        Policy.from_json({"curve": {"exponential": {"base": "1s"}}, "jitter": "slices"}),
    ],
    ids=["decorrelated", "slices"],
)
def test_jitter_that_remembers_is_walked_from_the_first_retry(policy: Policy) -> None:
    for job, wait_ms in enumerate(sample(policy, 4, 20, seed=3)):
        previous, wait = None, None
        for retry in (1, 2, 3, 4):
            wait = next_wait(policy, retry, LabDraws.of(3, job, retry), previous=previous)
            assert isinstance(wait, Wait)
            previous = Previous(wait.carry)
        assert wait is not None
        assert wait.wait_ms == wait_ms


@pytest.mark.parametrize(
    ("name", "phase"), [("zizq", "seq"), ("even", "hash"), ("zzz_jobs", "seq"), ("celery", "seq")]
)
def test_a_sample_has_the_law_of_its_retry(name: str, phase: str) -> None:
    policy = preset(name)
    found = law(policy, 2)
    assert found is not None
    assert_agrees(sorted(sample(policy, 2, 2_000, phase=phase)), found)  # type: ignore[arg-type]


def test_jobs_do_not_depend_on_how_many_there_are() -> None:
    assert sample(preset("zizq"), 2, 10)[:6] == sample(preset("zizq"), 2, 6)


def test_the_deadline_is_left_aside() -> None:
    assert sample(make_policy(deadline="1s"), 3, 2) == [10_000, 10_000]


def test_without_a_limit_any_retry_can_be_asked_for() -> None:
    assert sample(make_policy(limit=None), 100_000, 1) == [10_000]
    with pytest.raises(
        InvalidInput, match=r"^retry: 1000001 is not valid; expected a whole number from 1 to 1000000$"
    ):
        sample(make_policy(limit=None), 1_000_001, 1)
