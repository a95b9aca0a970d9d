"""What is due by itself among topics: rows whose time is over are removed, a few at a time, by whichever dispatcher comes first."""

from __future__ import annotations

from typing import Final

from anew.engine.batch import Batch
from anew.topics.registry import open_again
from anew.topics.terms import TopicTerms

CHUNK: Final = 500
"""Rows of each kind that one look removes."""

EVERY_MS: Final = 1_000


def look_after(batch: Batch, terms: TopicTerms) -> None:
    """Remove subscriptions, messages and deliveries whose time is over."""
    rows = batch.store.topics
    if not batch.store.is_due("topics", batch.now, EVERY_MS):
        return
    ending = rows.ending_subscriptions(batch.now, CHUNK)
    for row in ending:
        rows.drop_subscription(row.id)
    if ending:
        open_again(batch, ending)
    rows.purge(batch.now, CHUNK)
