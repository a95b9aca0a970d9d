"""The plain counters behind the metrics page."""

import pytest

from anew.engine import Stats
from anew.engine.stats import MOST_ATTEMPTS, Histogram


@pytest.mark.parametrize(
    ("value", "bucket"), [(0, 0), (1, 0), (1.5, 1), (2, 1), (5, 2), (5.1, 3), (10**9, 3), (-1, 0)]
)
def test_a_value_counts_in_the_first_bucket_that_holds_it(value: float, bucket: int) -> None:
    histogram = Histogram((1, 2, 5))
    histogram.add(value)
    assert histogram.buckets == [int(at == bucket) for at in range(4)]
    assert histogram.total == value


def test_retries_count_by_attempt_up_to_the_last_counter() -> None:
    stats = Stats()
    for attempt in (1, 1, 25, 26, 27, 10**6):
        stats.count_retry(attempt)
    assert MOST_ATTEMPTS == 26
    assert (stats.retries[1], stats.retries[25], stats.retries[26], sum(stats.retries)) == (2, 1, 3, 6)


def test_what_did_not_last_is_forgotten_but_for_batches_and_commits() -> None:
    stats = Stats()
    names = [name for name in stats.__struct_fields__ if isinstance(getattr(stats, name), int)]
    assert len(names) == 12
    for at, name in enumerate(names, 1):
        setattr(stats, name, at)
    stats.count_retry(3)
    mark = stats.mark()
    for name in names:
        setattr(stats, name, 100)
    stats.count_retry(3)
    stats.count_retry(9)
    stats.batch_size.add(5)
    stats.reset(mark)
    assert [getattr(stats, name) for name in names] == list(range(1, 13))
    assert (stats.retries[3], sum(stats.retries)) == (1, 1)
    assert sum(stats.batch_size.buckets) == 1
