"""Job queues whose law is a list of waits."""

from __future__ import annotations

from typing import Final

from anew.backoff.presets.registry import WAITS, Family, Form

_queue = Family("queues")

_INNGEST: Final = ("15s", "30s", "1m", "2m", "5m", "10m", "20m", "40m", "1h", "2h")


@_queue(
    "table",
    "intervals",
    "delays",
    "wait_chain",
    source="Laravel, Hangfire, Resque, tenacity's wait_chain: a list of waits",
    origin="no counter: the first wait of the list comes first",
    counts="nothing: the list says no more than the waits",
    traps=("The last wait repeats for further retries; in RQ the first one does: rq.", "No jitter."),
    takes={"waits": WAITS},
)
def _table(waits: tuple[int, ...] = (10_000, 60_000, 300_000)) -> Form:
    """A list of waits whose last one repeats; 10 s, 1 minute and 5 minutes unless told otherwise."""
    return {"curve": {"table": [*waits]}}


@_queue(
    "laravel",
    "illuminate",
    source="Laravel 13.26, a job's backoff: the list of its manual",
    origin="counts attempts from 1 and subtracts 1: the first wait of the list comes first",
    counts="runs: tries 1, so no retry unless asked for",
    traps=("Without a backoff the retries come at once.", "The last wait repeats for further retries.", "No jitter."),
    takes={"waits": WAITS},
    names={"tries": "limit: tries - 1", "backoff": "waits: in seconds"},
)  # fmt: skip
def _laravel(waits: tuple[int, ...] = (1_000, 5_000, 10_000)) -> Form:
    """Laravel's list of waits, by default that of its manual: 1, 5 and 10 s."""
    return {"curve": {"table": [*waits]}}


@_queue(
    "resque",
    "resque_retry",
    source="resque-retry 1.8, ExponentialBackoff",
    origin="no counter: the first wait of the list comes first",
    counts="retries: as many as the list is long, 6",
    traps=(
        "Named exponential, it is a list.",
        "The first retry comes at once.",
        "Without ExponentialBackoff resque-retry makes a single retry, at once.",
        "No jitter unless its two multiplicands differ; then a wait is multiplied and cut to whole seconds.",
    ),
    takes={"waits": WAITS},
    names={"backoff_strategy": "waits: in seconds"},
)
def _resque(waits: tuple[int, ...] = (0, 60_000, 600_000, 3_600_000, 10_800_000, 21_600_000)) -> Form:
    """resque-retry's list of waits: at once, 1 min, 10 min, 1 h, 3 h, 6 h; 6 retries in 10.2 hours."""
    return {"curve": {"table": [*waits]}, "limit": len(waits)}


@_queue(
    "inngest",
    source="Inngest 1.43, pkg/backoff: the table that its queue uses",
    origin="counts from 0: the first retry sees 0",
    counts="retries: 4, so 5 runs; 20 at most",
    traps=(
        "Each step of a function has retries of its own.",
        "The jitter is up to 30 s however long the wait: it triples the first one and hardly shows in the last.",
        "A time that the error itself names replaces the wait, jitter and all.",
    ),
    names={"retries": "limit"},
)
def _inngest() -> Form:
    """Inngest: 15 s, 30 s, 1, 2, 5, 10, 20, 40 min, 1, 2 h, plus up to 30 s; 4 retries in 3.8 to 5.8 minutes."""
    return {"curve": {"table": [*_INNGEST]}, "jitter": {"add": "30s"}, "limit": 4}
