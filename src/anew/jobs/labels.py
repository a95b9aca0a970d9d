"""Queues as labels of metrics: a bounded number of them, whatever queues there are."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from typing import Final

from anew.jobs.state import State

MOST_QUEUES: Final = 500
"""Queues with a label of their own, those with most jobs; all others share the label `OTHER`."""

OTHER: Final = "other"


def labelled(counts: Mapping[str, Mapping[State, int]]) -> Mapping[tuple[str, str], int]:
    """Give jobs by queue label and state, from jobs by queue and state."""
    named = set(heapq.nlargest(MOST_QUEUES, counts, key=lambda queue: sum(counts[queue].values())))
    found: Counter[tuple[str, str]] = Counter()
    for queue, states in counts.items():
        label = queue if queue in named else OTHER
        for state, n in states.items():
            found[label, str(state)] += n
    return found
