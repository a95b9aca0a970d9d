"""The presets against the libraries that they are named after.

The figures were taken from the libraries themselves, at the versions that are named: each one's own function was
asked 10,000 times for one wait, or the library was run against a service that always fails. urllib3 is at hand and
is asked here.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

import pytest
from urllib3.util.retry import RequestHistory, Retry

from anew.backoff import Policy

from .helpers import draw, reaches, told

JOBS = 2_000
# Five times the deviation of a share of 2,000 jobs, and what 10,000 draws leave open of a percentile.
SHARE = 0.065


class Drawn(NamedTuple):
    """What 10,000 waits of one library came to, in seconds.

    ``values`` counts the different waits where a library takes whole seconds or few faces; None: any real one.
    """

    library: str
    given: Any
    retry: int
    least: float
    tenth: float
    median: float
    ninetieth: float
    most: float
    values: int | None = None


def of(name: str, **given: Any) -> dict[str, Any]:
    """A preset with parameters; no limit, as the libraries' functions know none."""
    return {"preset": name, "limit": None} | given


DRAWN = [
    Drawn("tenacity 9.2.1 wait_random", "tenacity_random", 1, 0, 0.1023, 0.4914, 0.8971, 1),
    Drawn(
        "tenacity 9.2.1 wait_random_exponential", "tenacity_random_exponential", 4, 0, 0.847, 4.037, 7.195, 8
    ),
    Drawn(
        "tenacity 9.2.1 wait_random_exponential", "tenacity_random_exponential", 9, 0, 6.03, 30.09, 53.81, 60
    ),
    Drawn("tenacity 9.2.1 wait_exponential_jitter", "tenacity_jitter", 1, 1, 1.107, 1.493, 1.897, 2),
    Drawn("tenacity 9.2.1 wait_exponential_jitter", "tenacity_jitter", 5, 16, 16.1, 16.5, 16.9, 17),
    Drawn("stamina 26.1.0", "stamina", 1, 0.1, 0.203, 0.601, 1.0, 1.1),
    Drawn("stamina 26.1.0", "stamina", 6, 3.2, 3.296, 3.697, 4.098, 4.2),
    Drawn("Celery 5.7.0", of("celery"), 1, 0, 0, 0, 1, 1, 2),
    Drawn("Celery 5.7.0", of("celery"), 3, 0, 0, 2, 4, 4, 5),
    Drawn("Celery 5.7.0", of("celery"), 5, 0, 1, 8, 15, 16, 17),
    Drawn("Dramatiq 2.2.1", "dramatiq", 1, 15, 16.52, 22.46, 28.55, 30),
    Drawn("Dramatiq 2.2.1", "dramatiq", 15, 245_760, 270_360, 370_780, 466_770, 491_520),
    Drawn("Dramatiq 2.2.1", "dramatiq", 16, 302_400, 340_620, 494_180, 582_120, 604_800),
    Drawn("Dramatiq 2.2.1", "dramatiq", 17, 302_400, 332_420, 451_650, 573_250, 604_800),
    # The law before 2.0, as the preset's trap tells it.
    Drawn("Dramatiq 1.17.1", of("aws_equal", base="15s", cap="7d"), 1, 7.5, 8.25, 11.25, 14.25, 15),
    Drawn("google-api-core 2.44.0", "google_api_core", 1, 0, 0.0976, 0.4968, 0.8987, 1),
    Drawn("google-api-core 2.44.0", "google_api_core", 8, 0, 5.907, 30.37, 54.07, 60),
    Drawn("azure-storage-blob 12.31.1", "azure_storage", 1, 15, 15.6, 17.99, 20.38, 21),
    Drawn("azure-storage-blob 12.31.1", "azure_storage", 3, 39, 39.59, 41.96, 44.38, 45),
    Drawn("botocore 1.44.5, throttling", "aws_sdk", 1, 0, 0.1004, 0.4998, 0.8998, 1),
    Drawn("botocore 1.44.5, throttling", of("aws_sdk"), 6, 0, 2.031, 9.926, 17.96, 20),
    Drawn("botocore 1.44.5", "botocore", 1, 0, 0.00498, 0.0247, 0.0449, 0.05),
    Drawn("botocore 1.44.5", of("botocore"), 10, 0, 2.034, 10.06, 17.99, 20),
    Drawn("Airflow 2.11.0", "airflow", 1, 300, 330, 449, 569, 599, 300),
    Drawn("Airflow 3.3.2", "airflow", 2, 600, 660, 900, 1_140, 1_199, 600),
    Drawn("asynq 0.26.0", "asynq", 1, 15, 17, 29, 41, 44, 30),
    Drawn("asynq 0.26.0", "asynq", 10, 6_576, 6_606, 6_716, 6_836, 6_866, 30),
    Drawn("River 0.51.1", "river", 1, 0.9, 0.921, 1.0005, 1.0794, 1.1),
    Drawn("River 0.51.1", "river", 24, 298_598, 304_880, 332_040, 358_550, 364_954),
    Drawn("cenkalti/backoff 4.3.0", "cenkalti", 1, 0.25, 0.298, 0.4997, 0.6986, 0.75),
    Drawn("cenkalti/backoff 6.0.1", "cenkalti", 13, 30, 36.11, 59.7, 83.9, 90),
    Drawn("grpc-go 1.85.0", "grpc", 2, 1.28, 1.346, 1.606, 1.857, 1.92),
    Drawn("grpc-go 1.85.0", "grpc", 13, 96, 100.67, 119.73, 139.21, 144),
    Drawn("BullMQ 6.7.0", of("bullmq", share=0.2), 1, 0.8, 0.82, 0.9, 0.98, 1),
    Drawn("BullMQ 6.7.0", of("bullmq", share=1), 3, 0, 0.386, 1.988, 3.605, 4),
    Drawn("pg-boss 10.4.2", "pg_boss", 1, 1, 1.101, 1.491, 1.901, 2),
    Drawn("pg-boss 12.38.0", of("pg_boss"), 20, 32_768, 36_155, 49_162, 62_198, 65_536),
]


@pytest.mark.parametrize("drawn", DRAWN, ids=lambda drawn: f"{drawn.library} {drawn.retry}")
def test_waits_lie_as_the_librarys_own_do(drawn: Drawn) -> None:
    waits = draw(drawn.given, drawn.retry, JOBS, seed=drawn.retry)
    width = drawn.most - drawn.least
    # Waits are cut to whole milliseconds.
    assert drawn.least - 0.001 <= min(waits) <= drawn.least + 0.02 * width
    assert drawn.most - 0.02 * width <= max(waits) <= drawn.most
    if drawn.values is None:
        for share, place in ((0.1, drawn.tenth), (0.5, drawn.median), (0.9, drawn.ninetieth)):
            assert sum(wait < place for wait in waits) / JOBS == pytest.approx(share, abs=SHARE)
        return
    assert all(wait.is_integer() for wait in waits)
    assert len(set(waits)) == drawn.values or drawn.values > 100
    for share, place in ((0.1, drawn.tenth), (0.5, drawn.median), (0.9, drawn.ninetieth)):
        # A percentile of few values is one of them: fewer than the share lie below, no fewer up to it.
        assert sum(wait < place for wait in waits) / JOBS <= share + SHARE
        assert sum(wait <= place for wait in waits) / JOBS >= share - SHARE


def seconds(given: Any, retries: int) -> list[float]:
    """The waits of a policy that draws nothing."""
    rows = [*islice(reaches(Policy.from_json(given)), retries)]
    assert all(low == high for low, high, *_ in rows)
    return [low for low, *_ in rows]


# What a library answered or waited, one retry after the other.
EXACT: list[tuple[str, Any, list[float]]] = [
    # A client whose transport answers 503 or cannot connect calls four times. Nothing is slept before the first retry.
    ("azure-core 1.41.0", "azure_core", [0, 1.6, 3.2]),
    (
        "azure-core 1.41.0, errors of three kinds",
        of("azure_core"),
        [0, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 120],
    ),
    ("RQ 3.0.0, Retry(max=3)", "rq", [10, 30, 60]),
    ("RQ 3.0.0, Retry(max=5)", {"preset": "rq", "limit": 5}, [10, 10, 10, 30, 60]),
    ("RQ 3.0.0, Retry(max=2)", {"preset": "rq", "limit": 2}, [30, 60]),
    ("RQ 3.0.0, Retry(max=1)", {"preset": "rq", "max_attempts": 2}, [60]),
    (
        "RQ 3.0.0, a Retry that the job returns",
        {"preset": "table", "waits": ["10s", "30s", "1m"]},
        [10, 30, 60, 60],
    ),
    ("Huey 3.5.4, retry_backoff=0", of("huey", wait="3s"), [3, 3, 3, 3]),
    ("Huey 3.5.4, retry_backoff=2", of("huey", wait="3s", factor=2), [3, 6, 12, 24]),
    ("Huey 3.5.4, retry_backoff=1.5", of("huey", wait="3s", factor=1.5), [3, 4.5, 6.75, 10.125]),
    ("taskiq 0.13.0, with a schedule source", of("taskiq", exponent=True), [5, 10, 15, 20, 25, 30, 35]),
    ("taskiq 0.13.0", "taskiq", [5, 5]),
    ("procrastinate 3.10.0", of("procrastinate"), [6, 15, 36, 93, 258, 747, 2_208, 6_585]),
    ("PostgreSQL 15, Graphile Worker 0.17.3", of("graphile"), [2.718281, 7.389056, 20.085536]),
    ("Temporal 1.31.0", "temporal", [1, 2, 4, 8, 16, 32, 64, 100, 100]),
    ("faktory-worker 4.7.1 for Node", "faktory_worker_node", [0.2 * k for k in range(1, 21)] + [4, 4]),
    ("tenacity 9.2.1 wait_incrementing", "tenacity_incrementing", [0, 100, 200, 300]),
]


@pytest.mark.parametrize(
    ("library", "given", "waits"), EXACT, ids=lambda value: value if isinstance(value, str) else ""
)
def test_waits_are_the_librarys_own(library: str, given: Any, waits: list[float]) -> None:
    assert seconds(given, len(waits)) == pytest.approx(waits, abs=2e-3)


@pytest.mark.parametrize(
    ("name", "retries"),
    [
        # Their defaults; azure's and taskiq's were run against something that always fails in the same way.
        ("azure_core", 3), ("azure_storage", 3), ("taskiq", 2), ("celery", 3), ("dramatiq", 20), ("stamina", 9),
        ("river", 24), ("asynq", 25), ("botocore", 2),
    ],
)  # fmt: skip
def test_as_many_retries_as_the_library_makes(name: str, retries: int) -> None:
    assert Policy.from_json(name).retries == retries


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dramatiq", ("Before 2.0", "7.5 to 15 s")),
        ("google_api_core", ("Before 2.11", "twice the delay")),
        ("cenkalti", ("Up to 4.0.0", "would pass the 15 minutes")),
        ("airflow", ("Since Airflow 3.2", "factor")),
        ("huey", ("since Huey 3.3",)),
        ("taskiq", ("schedule source", "5, 10, 30, then 60 s")),
        ("rq", ("the first one repeats",)),
        ("aws_sdk", ("botocore 1.44", "legacy")),
        ("azure_core", ("retry_total is 10", "nine are the most")),
        ("exq", ("counts from 1", "31 faces")),
        ("stamina", ("not at the wait to come",)),
    ],
)
def test_what_differs_between_versions_is_told(name: str, words: Iterable[str]) -> None:
    for each in words:
        assert each in told(name)


def urllib3_wait(errors: int, factor: float, jitter: float = 0) -> float:
    """What urllib3 sleeps after so many errors in a row."""
    history = tuple(RequestHistory("GET", "/", None, 503, None) for _ in range(errors))
    return Retry(total=20, backoff_factor=factor, backoff_jitter=jitter, history=history).get_backoff_time()


@pytest.mark.parametrize("factor", [0, 0.1, 0.5, 1, 3])
def test_urllib3_itself_waits_as_long(factor: float) -> None:
    given = of("urllib3", factor=round(factor * 1_000))
    assert seconds(given, 15) == pytest.approx([urllib3_wait(k, factor) for k in range(1, 16)], abs=1e-3)


def test_urllib3_itself_makes_as_many_retries() -> None:
    assert Policy.from_json("urllib3").retries == Retry().total


@pytest.mark.parametrize("errors", [1, 2, 5, 8])
def test_urllib3s_jitter_lies_where_ours_does(errors: int) -> None:
    theirs = [urllib3_wait(errors, 1, 1) for _ in range(JOBS)]
    low, high, *_ = [*islice(reaches(Policy.from_json(of("urllib3", jitter_by="1s"))), errors)][-1]
    assert low <= min(theirs) <= low + 0.02
    assert high - 0.02 <= max(theirs) <= high
    ours = draw(of("urllib3", jitter_by="1s"), errors, JOBS)
    assert sum(ours) / JOBS == pytest.approx(sum(theirs) / JOBS, abs=0.06)
