"""Deliveries, as every store keeps them: those of one subscription, the newest first."""

from __future__ import annotations

from anew.store.protocol import Store
from anew.store.topics import DeliveryRow

from .helpers import batch

LAST = (1 << 63) - 1


def test_the_newest_deliveries_of_a_subscription(store: Store) -> None:
    with batch(store):
        number = store.topics.policy_number(b"{}")
        rows = [
            DeliveryRow(key, message=key, subscription=1 + key % 2, job=key, policy=number)
            for key in range(9)
        ]
        store.topics.add_deliveries(rows)
    with batch(store):
        newest = store.topics.last_deliveries_of
        assert [row.id for row in newest(1, LAST, 3)] == [8, 6, 4]
        assert [row.id for row in newest(1, 4, 9)] == [4, 2, 0]
        assert [row.id for row in newest(2, LAST, 9)] == [7, 5, 3, 1]
        assert newest(1, -1, 9) == newest(3, LAST, 9) == []
        assert newest(2, 1, 1) == [rows[1]]
