"""Queues as labels of metrics."""

from anew.jobs import State
from anew.jobs.labels import labelled


def test_the_500_largest_queues_keep_their_names() -> None:
    counts = {f"q{number:03}": {State.READY: number, State.DEAD: 1} for number in range(503)}
    found = labelled(counts)
    assert found["q502", "ready"] == 502
    assert found["q003", "ready"] == 3
    assert ("q002", "ready") not in found
    # The three smallest: 0 + 1 + 2 ready, one dead each.
    assert (found["other", "ready"], found["other", "dead"]) == (3, 3)
