"""What a store's identity is for: two stores must not draw the same numbers, one store always the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anew.engine import verbs
from anew.jobs import IdText, Job
from anew.store.sqlite import open_sqlite

from .rig import Rig, call, fail, new_job

HASHED = [
    {"around": {"share": 0.5, "source": "hash"}},
    {"even": {"spread": 0, "dither": 1}},
]


def opened(folder: Path, jitter: Any) -> Rig:
    """An engine on a stored store that gives the public ids of the first one, so that its secret alone differs."""
    rig = Rig(open_sqlite(folder), policy={"curve": {"constant": "1h"}, "jitter": jitter})
    rig.engine.ids = IdText("0abcdefgh")
    return rig


def waits(rig: Rig, keys: list[int]) -> list[int]:
    """Fail each of the jobs once; give their waits."""
    rig.worker()
    found: list[Job] = rig.apply(*(fail(key) for key in keys))
    return [job.ready_at - rig.clock.now() for job in found]


@pytest.mark.parametrize("jitter", HASHED)
def test_a_hash_is_keyed_by_the_stores_secret(tmp_path: Path, jitter: Any) -> None:
    """Equal ids, equal retries: the numbers of two stores differ, and those of one are the same after a reopening."""
    first, second = opened(tmp_path / "a", jitter), opened(tmp_path / "b", jitter)
    assert first.store.identity.secret != second.store.identity.secret
    keys = first.put(*(new_job() for _ in range(5)))
    assert second.put(*(new_job() for _ in range(5))) == keys
    drawn = waits(first, keys)
    assert len(set(drawn)) == 5
    assert all(1_800_000 <= wait < 5_400_000 for wait in drawn)
    assert not set(drawn) & set(waits(second, keys))
    first.store.close()
    second.store.close()

    again = opened(tmp_path / "a", jitter)
    rows = again.store.load(keys)
    assert [row.ready_at - again.clock.now() for row in rows] == drawn
    _send_back(again, keys)
    assert waits(again, keys) == drawn
    again.store.close()


def test_the_nth_failures_of_two_stores_do_not_share_a_phase(tmp_path: Path) -> None:
    phases = []
    for name in ("a", "b"):
        rig = Rig(open_sqlite(tmp_path / name))
        keys = rig.put(*(new_job() for _ in range(10)))
        waits(rig, keys)
        phases.append({rig.job(key).phase for key in keys})
        rig.store.close()
    assert len(phases[0] | phases[1]) == 20


def _send_back(rig: Rig, keys: list[int]) -> None:
    """Make the jobs ready with no failure counted, so that the same retry is drawn once more."""
    for key in keys:
        rig.do(call(verbs.cancel_one(key)))
        rig.do(call(verbs.redrive_one(key, reset_attempts=True)))
