"""What job queues outside Python do: Ruby, Elixir, Go, .NET, Node, PHP, Java, PostgreSQL."""

from __future__ import annotations

import math
from typing import Any, Final

from anew.backoff.kinds import CEILING_MS, Integer
from anew.backoff.presets.registry import FACTOR, SHARE, WAIT, Family, Form
from anew.backoff.presets.seeds import sidekiq_form

_queue = Family("queues")

_FROM_0: Final = "counts from 0: the first retry sees 0"
_FROM_1: Final = "counts from 1: the first retry sees 1"


@_queue(
    "hangfire",
    source="Hangfire 1.4 to 1.8, AutomaticRetryAttribute",
    origin="passes 1 and subtracts 1: from 0 in effect",
    counts="retries: Attempts 10, so 11 runs",
    traps=("It is Sidekiq's older law, with ten retries in its place of 25: over in less than five hours.",),
    names={
        "Attempts": "limit: it counts retries, so the same number",
        "DelaysInSeconds": "curve: a table, in seconds",
        "OnAttemptsExceeded": 'on_exhausted: Delete is "discard"',
    },
)
def _hangfire() -> Form:
    """Hangfire: 15 + (k-1)^4 s, plus k times a die of 30 faces; 10 retries in 4.3 hours."""
    return sidekiq_form() | {"limit": 10}


@_queue(
    "asynq",
    source="asynq 0.26, DefaultRetryDelayFunc",
    origin=_FROM_0,
    counts="retries: 25, so 26 runs",
    traps=("The die has 30 faces and is multiplied afterwards, as in Faktory.",),
    names={"MaxRetry": "limit"},
)
def _asynq() -> Form:
    """asynq: Sidekiq's older law, 15 + (k-1)^4 s, plus k times a die of 30 faces; 25 retries in 20.4 days."""
    return sidekiq_form()


@_queue(
    "exq",
    source="Exq 0.10 to 0.23, Exq.Backoff.SidekiqDefault",
    origin="raises its counter first: from 1",
    counts="retries: 25, so 26 runs",
    traps=(
        "It is named after Sidekiq's law but counts from 1, which waits four and a half days longer in all.",
        "Its die goes from 0 to 30, both included: 31 faces, k + 1 seconds apart.",
    ),
    names={"max_retries": "limit"},
)
def _exq() -> Form:
    """Exq: 15 + k^4 s, plus k + 1 times a die of 31 faces; 25 retries in 25 days."""
    curve = {"power": {"base": "15s", "exponent": 4, "origin": 1}}
    high = {"times": 1, "grow": "31s", "add": "31s"}
    return {
        "curve": curve,
        "jitter": {"window": {"low": {"times": 1}, "high": high, "faces": 31}},
        "limit": 25,
    }


@_queue(
    "oban",
    source="Oban 2.15 to 2.23, Oban.Worker's backoff",
    origin=_FROM_1,
    counts="runs: max_attempts 20, so 19 retries",
    traps=(
        "With more than 20 attempts the curve is stretched: the last wait stays at 12 days, the window grows all the "
        "same; 40 attempts take 36 days.",
        "The 12 days end with the 19th retry, not with the first.",
        "Its internal retrier draws sign and size from one number: nothing ever lands in 0 to +5 %.",
        "A snooze takes no attempt.",
    ),
    takes={"max_attempts": Integer(1, 1_000_000)},
    names={"max_attempts": "max_attempts: or limit, which is one less"},
)
def _oban(max_attempts: int = 20) -> Form:
    """Oban: 15 + 2^k s, up to a tenth above in whole seconds; 19 retries in 12 days."""
    growing: dict[str, Any] = {"exponential": {"base": "2s"}}
    if max_attempts > 20:
        # The attempt's number is scaled to 20 before it becomes an exponent.
        growing = {
            "stretch": {"by": max_attempts / 20, "origin": 1, "curve": {"exponential": {"base": "1s"}}}
        }
    jitter = {"above": {"share": 0.1, "cut": "1s"}}
    return {"curve": {"sum": [{"constant": "15s"}, growing]}, "jitter": jitter, "limit": max_attempts - 1}


@_queue(
    "river",
    source="River 0.51, DefaultClientRetryPolicy",
    origin="counts errors + 1: from 1",
    counts="runs: max attempts 25, so 24 retries",
    traps=("The first wait is about 1 s.", "A snooze takes no attempt."),
    takes={"share": SHARE},
    names={"MaxAttempts": "limit: attempts - 1"},
)
def _river(share: float = 0.1) -> Form:
    """River: k^4 s, a tenth either way; 24 retries in 20.4 days."""
    return {"curve": {"power": {"exponent": 4, "origin": 1}}, "jitter": {"around": share}, "limit": 24}


@_queue(
    "rails",
    "active_job",
    "polynomially_longer",
    "exponentially_longer",
    "good_job",
    "solid_queue",
    source="Rails 6.1 to 8.2, ActiveJob retry_on with wait: :polynomially_longer",
    origin=_FROM_1,
    counts="runs: attempts 5, so 4 retries",
    traps=(
        "It was called exponentially_longer for years; it is a polynomial.",
        "Without wait: :polynomially_longer retry_on waits 3 s every time, and up to 15 % more.",
        "GoodJob and Solid Queue have no waits of their own, only these; GoodJob's manual asks for endless attempts.",
        "Each group of exceptions has a counter of its own.",
        "Four retries are over within seven minutes.",
        "Applications that keep the defaults of Rails 6.0 or older have no jitter.",
    ),
    takes={"share": SHARE},
    names={
        "attempts": "limit: attempts - 1",
        "jitter": "share",
        "wait": "curve: a number is a constant, in seconds",
    },
)
def _rails(share: float = 0.15) -> Form:
    """Rails' polynomially_longer: 2 + k^4 s, up to 15 % of k^4 above; 4 retries in 6 minutes."""
    nominal = {"base": "2s", "exponent": 4, "origin": 1}
    top = nominal | {"scale": 1_000 + round(1_000 * share)}
    return {"curve": {"power": nominal}, "jitter": {"up_to": {"power": top}}, "limit": 4}


@_queue(
    "delayed_job",
    source="delayed_job 4.2, reschedule_at",
    origin=_FROM_1,
    counts="runs: max_attempts 25, so 24 retries",
    traps=("No jitter.", "A job that is given up is deleted, unless destroy_failed_jobs is false."),
    names={"max_attempts": "limit: attempts - 1"},
)
def _delayed_job() -> Form:
    """delayed_job: 5 + k^4 s, the ancestor of that family; 24 retries in 20.4 days."""
    return {"curve": {"power": {"base": "5s", "exponent": 4, "origin": 1}}, "limit": 24}


@_queue(
    "que",
    source="Que 1.0 to 2.4, retry_interval",
    origin=_FROM_1,
    counts="retries: 15, so 16 runs",
    traps=("No jitter.", "Before 1.0 it retried for ever."),
    names={"maximum_retry_count": "limit"},
)
def _que() -> Form:
    """Que: 3 + k^4 s; 15 retries in 2 days."""
    return {"curve": {"power": {"base": "3s", "exponent": 4, "origin": 1}}, "limit": 15}


@_queue(
    "bullmq",
    source="BullMQ 6.7, the exponential backoff strategy",
    origin="counts attempts made from 1 and subtracts 1: from 0 in effect",
    counts="runs: attempts 1, so no retry unless asked for",
    traps=(
        "The jitter goes downwards only; some pages say both ways.",
        "No cap: 1 s becomes infinite at the attempt 1,016.",
        "attempts: 3 without a backoff retries at once.",
        "Bull, which it comes from, takes another power: bull.",
    ),
    takes={"base": WAIT, "share": SHARE},
    names={"attempts": "limit: attempts - 1", "delay": "base: in milliseconds", "jitter": "share"},
)
def _bullmq(base: int = 1_000, share: float = 0) -> Form:
    """BullMQ's exponential strategy: 1 s doubling, down by the share that is asked for."""
    return {"curve": {"exponential": {"base": base}}, "jitter": {"below": share} if share else "none"}


@_queue(
    "bull",
    source="Bull 3 and 4, the exponential backoff strategy",
    origin="counts attempts made: from 1",
    counts="runs: attempts 1, so no retry unless asked for",
    traps=(
        "It takes 1 off the power, not off the exponent: 1, 3, 7 and 15 s where BullMQ waits 1, 2, 4 and 8.",
        "A move to BullMQ with the same options nearly halves the window.",
        "No cap and no jitter.",
    ),
    takes={"base": WAIT},
    names={"attempts": "limit: attempts - 1", "delay": "base: in milliseconds"},
)
def _bull(base: int = 1_000) -> Form:
    """Bull's exponential strategy: 2^k - 1 s, so 1, 3, 7, 15 s."""
    waits = [base]
    while 0 < waits[-1] < CEILING_MS:
        waits.append(min(2 * waits[-1] + base, CEILING_MS))
    return {"curve": {"table": waits}}


@_queue(
    "graphile",
    "graphile_worker",
    source="Graphile Worker 0.17",
    origin=_FROM_1,
    counts="runs: max attempts 25, so 24 retries",
    traps=(
        "The base is e, not 2; the exponent stops at 10, so waits stop at 6.1 hours.",
        "The wait is added to the time for which the job was planned if that is still to come.",
        "No jitter.",
    ),
    names={"maxAttempts": "limit: attempts - 1"},
)
def _graphile() -> Form:
    """Graphile Worker: e^k s up to e^10 s, 6.1 hours; 24 retries in 4 days."""
    growing = {"exponential": {"base": "1s", "factor": math.e}}
    cap = int(1_000 * math.exp(10))
    return {"curve": {"scale": {"by": math.e, "curve": growing}}, "cap": cap, "limit": 24}


@_queue(
    "pg_boss",
    "pgboss",
    source="pg-boss 10 and 12, retryBackoff",
    origin="counts retry_count + 1: from 1",
    counts="retries: retryLimit 2, so 3 runs",
    traps=(
        "Backoff is off by default, and the delay 0: the retries come at once.",
        "Its own cap, retryDelayMax, comes after the jitter: add a ceil for that.",
    ),
    takes={"base": WAIT},
    names={"retryLimit": "limit", "retryDelay": "base: in seconds", "retryDelayMax": "ceil: in seconds"},
)
def _pg_boss(base: int = 1_000) -> Form:
    """pg-boss with backoff: 1 s doubling, up to twice that; 2 retries in 3 to 6 s."""
    base = max(base, 1_000)
    cap = min(base << 15, CEILING_MS)
    return {"curve": {"exponential": {"base": base}}, "cap": cap, "jitter": {"above": 1}, "limit": 2}


@_queue(
    "symfony",
    "symfony_messenger",
    "messenger",
    source="Symfony 7.1, Messenger's MultiplierRetryStrategy as FrameworkBundle sets it",
    origin=_FROM_0,
    counts="retries: max_retries 3, so 4 runs",
    traps=(
        "The class alone multiplies by 1; it is the bundle's configuration that doubles.",
        "The jitter exists since 7.1.",
        "max_delay, off by default, comes after the jitter: add a ceil for that.",
        "After the third retry a message is gone unless there is a failure transport.",
    ),
    takes={"base": WAIT, "factor": FACTOR, "share": SHARE},
    names={
        "max_retries": "limit",
        "delay": "base: in milliseconds",
        "multiplier": "factor",
        "max_delay": "ceil: in milliseconds, 0 is null",
        "jitter": "share",
    },
)
def _symfony(base: int = 1_000, factor: float = 2, share: float = 0.1) -> Form:
    """Symfony Messenger: 1 s doubling, a tenth either way; 3 retries in 7 s."""
    around = {"around": share} if share else "none"
    return {"curve": {"exponential": {"base": base, "factor": factor}}, "jitter": around, "limit": 3}


@_queue(
    "jobrunr",
    source="JobRunr 5 to 8.7, RetryFilter",
    origin="counts failures, the one that asks included: from 1",
    counts="retries: 10, so 11 runs",
    traps=(
        "No cap and no jitter: the tenth wait is 16.4 hours.",
        "Its server looks every 15 s for what falls due in the next 15 s, so the waits of 3 s and 9 s are lost in that.",
    ),
    takes={"seed": Integer(2, 1_000)},
    names={"retries": "limit", "default-number-of-retries": "limit", "retry-back-off-time-seed": "seed"},
)
def _jobrunr(seed: int = 3) -> Form:
    """JobRunr: 3^k s; 10 retries in 24.6 hours."""
    return {"curve": {"exponential": {"base": 1_000 * seed, "factor": seed}}, "limit": 10}
