"""What job queues in Python do."""

from __future__ import annotations

from typing import Any, Final

from anew.backoff.kinds import Integer, invalid_policy
from anew.backoff.presets.registry import FACTOR, FLAG, WAIT, WAITS, Family, Form
from anew.units import format_duration_short

_python = Family("python")

_FROM_0: Final = "counts from 0: the first retry sees 0"


@_python(
    "celery",
    "retry_backoff",
    source="Celery 5.7, autoretry_for with retry_backoff",
    origin=_FROM_0,
    counts="retries: max_retries 3, so 4 runs",
    traps=(
        "retry_backoff is off unless asked for: autoretry_for alone waits 3 minutes every time, as celery_retry does.",
        "The first wait is 0 or 1 s: three retries may be over at once, and are within 7 s.",
        "retry_backoff is cut to whole seconds, and is at least one: 0.5 and 1.9 are both 1.",
        "retry_backoff_max stays 10 minutes: a base of an hour gives three retries of at most 10 minutes.",
        "A wait that comes out negative is 0.",
    ),
    takes={"base": WAIT},
    names={
        "retry_backoff": 'base: in seconds, True is "1s"',
        "retry_backoff_max": "cap: in seconds",
        "retry_jitter": 'jitter: False is "none"',
        "max_retries": "limit: None is null",
    },
)
def _celery(base: int = 1_000) -> Form:
    """Celery's retry_backoff: whole seconds from 0 to 1 s doubling to 10 minutes; 3 retries within 7 s."""
    seconds = max(1, base // 1_000)
    # One second above the nominal wait, which the die never reaches: the nominal wait itself is drawn too.
    window = {"low": {}, "high": {"times": 1, "add": "1s"}, "step": "1s"}
    growing = {"exponential": {"base": 1_000 * seconds}}
    return {"curve": growing, "cap": "10m", "jitter": {"window": window}, "limit": 3}


@_python(
    "celery_retry",
    "default_retry_delay",
    "autoretry_for",
    source="Celery 5.7, Task.retry without a countdown, and autoretry_for without retry_backoff",
    origin="no counter",
    counts="retries: max_retries 3, so 4 runs",
    traps=("No backoff and no jitter unless asked for.",),
    takes={"wait": WAIT},
    names={
        "default_retry_delay": "wait: in seconds",
        "countdown": "wait: in seconds",
        "max_retries": "limit: None is null",
    },
)
def _celery_retry(wait: int = 180_000) -> Form:
    """Celery's plain retry(), autoretry_for too: 3 minutes, every time; 3 retries in 9 minutes."""
    return {"curve": {"constant": wait}, "limit": 3}


@_python(
    "dramatiq",
    source="Dramatiq 2.0 to 2.2, Retries",
    origin=_FROM_0,
    counts="retries: max_retries 20, so 21 runs",
    traps=(
        "A draw above the cap is drawn again from the upper half of the cap, so the mean wait falls once it binds: "
        "4.27, 5.50, then 5.25 days.",
        "Twenty retries take 23 to 46 days.",
        "Before 2.0 it drew from half the wait up to all of it, 7.5 to 15 s first: aws_equal with this base and cap.",
        "A message that is given up is kept for 7 days.",
    ),
    takes={"base": WAIT, "max_backoff": WAIT},
    names={
        "min_backoff": "base: in milliseconds",
        "max_backoff": "max_backoff: in milliseconds",
        "max_retries": "limit",
    },
)
def _dramatiq(base: int = 15_000, max_backoff: int = 604_800_000) -> Form:
    """Dramatiq: 15 s doubling, up to twice that, never above 7 days; 20 retries in 23 to 46 days."""
    jitter = {"above": {"share": 1, "redraw": max_backoff}}
    return {"curve": {"exponential": {"base": base}}, "cap": max_backoff, "jitter": jitter, "limit": 20}


@_python(
    "rq",
    source="RQ 1.5 to 3.0, Retry with the intervals of its manual",
    origin="no counter: it counts the retries that are left",
    counts="retries: Retry(max=3) is 3, so 4 runs",
    traps=(
        "Without an interval the retries come at once: three tries in the same second of an outage.",
        "It counts from the end of the list: with more retries than intervals the first one repeats, with fewer the "
        "first ones are left out.",
        "Where the job itself returns a Retry, the last interval repeats instead: that is table.",
        "No jitter.",
    ),
    takes={"waits": WAITS, "max_attempts": Integer(1, 1_000_000)},
    names={"max": "limit", "interval": "waits: in seconds"},
)
def _rq(waits: tuple[int, ...] = (10_000, 30_000, 60_000), max_attempts: int | None = None) -> Form:
    """RQ's list of intervals, by default that of its manual: 10, 30 and 60 s; 3 retries in 100 s."""
    retries = len(waits) if max_attempts is None else max_attempts - 1
    more = retries - len(waits)
    # So many of the last waits as there are retries; a policy of none has a curve all the same.
    listed = {"table": [*waits[-min(max(retries, 1), len(waits)) :]]}
    if more <= 0:
        return {"curve": listed, "limit": retries}
    return {
        "phases": [{"curve": {"constant": waits[0]}, "count": more}, {"curve": listed}],
        "limit": retries,
    }


@_python(
    "huey",
    source="Huey 3.5, task(retries=..., retry_delay=..., retry_backoff=...)",
    origin="no counter: the delay is multiplied after each retry, so from 0 in effect",
    counts="retries: 0 unless asked for",
    traps=(
        "Without a retry_delay the retries come at once.",
        "retry_backoff, the factor here, exists since Huey 3.3; there is no cap.",
        "No jitter.",
    ),
    takes={"wait": WAIT, "factor": FACTOR},
    names={"retries": "limit", "retry_delay": "wait: in seconds", "retry_backoff": "factor"},
)
def _huey(wait: int = 0, factor: float = 1) -> Form:
    """Huey: the same wait every time, none unless told otherwise, or one that is multiplied by a factor."""
    if factor == 1:
        return {"curve": {"constant": wait}}
    return {"curve": {"exponential": {"base": wait, "factor": factor}}}


@_python(
    "taskiq",
    "smart_retry",
    source="taskiq 0.13, SmartRetryMiddleware",
    origin="counts from 1",
    counts="runs: default_retry_count 3 with the run that fails counted, so 2 retries",
    traps=(
        "What it calls exponent multiplies the delay by the retry: a straight line, up to a minute.",
        "Its count of 3 retries lets the job run 3 times.",
        "The line needs a schedule source: without one each delay becomes the base of the next, and it waits 5, 10, 30, "
        "then 60 s.",
        "Its jitter, off by default, is up to 1 s however long the wait: add {\"add\": \"1s\"} for that.",
    ),
    takes={"wait": WAIT, "exponent": FLAG},
    names={
        "default_retry_count": "limit: count - 1", "default_delay": "wait: in seconds",
        "use_delay_exponent": "exponent", "max_delay_exponent": "cap: in seconds",
        "use_jitter": 'jitter: True is {"add": "1s"}',
    },
)  # fmt: skip
def _taskiq(wait: int = 5_000, exponent: bool = False) -> Form:
    """taskiq's SmartRetry: 5 s every time, or 5k s up to a minute with what it calls exponent; 2 retries in 10 s."""
    if exponent:
        return {"curve": {"linear": {"base": wait, "step": wait}}, "cap": "1m", "limit": 2}
    return {"curve": {"constant": wait}, "limit": 2}


@_python(
    "procrastinate",
    source="procrastinate 3.10, RetryStrategy",
    origin="counts from 0 in the linear term, from 1 in the exponential one",
    counts="max_attempts compares earlier runs: m is m retries; none by default",
    traps=(
        "Its own defaults are 0, 0 and 0: retry=3 retries at once. These are 3, 3 and 3.",
        "The exponential parameter is the base of the power, in whole seconds, and so is the first wait.",
        "No cap and no jitter: with 5 the tenth retry comes after 141 days.",
    ),
    takes={"wait": WAIT, "linear": WAIT, "exponential": Integer(0, 1_000)},
    names={
        "max_attempts": "limit: m is m retries, so the same number",
        "linear_wait": "linear: in seconds",
        "exponential_wait": "exponential",
    },
)
def _procrastinate(wait: int = 3_000, linear: int = 3_000, exponential: int = 3) -> Form:
    """procrastinate: a wait, plus so much a retry, plus a power; 3 + 3(k-1) + 3^k s unless told otherwise."""
    rising: dict[str, Any] = {"linear": {"base": wait, "step": linear}}
    if not exponential:
        return {"curve": rising}
    growing = {"exponential": {"base": 1_000 * exponential, "factor": exponential}}
    return {"curve": {"sum": [rising, growing]}}


@_python(
    "airflow",
    "retry_exponential_backoff",
    source="Apache Airflow 2.11 to 3.3, retry_exponential_backoff",
    origin="counts tries from 1 and subtracts 1: from 0 in effect",
    counts="retries: 0 unless asked for",
    traps=(
        "The jitter is a hash of task, run and try: fresh at each, and the same when computed again.",
        "The cap of a day comes after the jitter: at the cap all tasks coincide.",
        "The hash here is Anew's own, so the law is the same and the numbers are not.",
        "Since Airflow 3.2 the setting is the factor itself: True still means 2, but 1 means no backoff at all.",
        "A nominal wait that is no whole number of seconds is rounded up there, and kept here.",
    ),
    takes={"base": WAIT, "factor": FACTOR},
    names={
        "retries": "limit",
        "retry_delay": "base",
        "max_retry_delay": "ceil",
        "retry_exponential_backoff": "factor: True is 2",
    },
)
def _airflow(base: int = 300_000, factor: float = 2) -> Form:
    """Airflow's exponential backoff: 5 minutes doubling, up to twice that by a hash, never above a day."""
    if base % 1_000 or not base:
        raise invalid_policy("base", format_duration_short(base), "whole seconds above 0")
    jitter = {"above": {"share": 1, "step": "1s", "source": "hash"}}
    return {"curve": {"exponential": {"base": base, "factor": factor}}, "jitter": jitter, "ceil": "24h"}
