"""Payloads that are kept apart, in a file that has been damaged: half of one is never handed to anybody."""

from __future__ import annotations

import pytest

from anew.errors import StoreFailed
from anew.store.sqlite import SqliteStore

from ..engine.rig import Rig, new_job, plain

LONG = b'"' + b"x" * 600_000 + b'"'


@pytest.mark.parametrize(
    "damage", ["DELETE FROM payload", "DELETE FROM payload WHERE part = 1", "UPDATE payload SET data = x'22'"]
)
def test_a_payload_that_is_not_whole_is_a_failure_of_the_store(damage: str) -> None:
    store = SqliteStore()
    rig = Rig(store)
    (key,) = rig.put(new_job(payload=LONG))
    store._connection.execute(damage)
    with pytest.raises(StoreFailed, match="of a payload of 600002 bytes there are"):
        store.load([key], payload=True)


def test_nobody_is_handed_such_a_payload() -> None:
    store = SqliteStore()
    rig = Rig(store)
    rig.put(new_job(payload=LONG))
    store._connection.execute("DELETE FROM payload WHERE part = 2")
    worker = rig.worker()
    assert worker.rows == []
    assert rig.engine.failed is not None
    assert isinstance(rig.do(plain(1)), StoreFailed)
