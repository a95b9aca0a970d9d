"""Libraries that retry a call inside a process: Polly, tenacity, stamina, backoff, cenkalti/backoff."""

from __future__ import annotations

from functools import partial
from typing import Final

from anew.backoff.presets.registry import FACTOR, SHARE, WAIT, Family, Form

_retrier = Family("retriers")

_POLLY: Final = "Polly 8.7, RetryStrategyOptions"
_POLLY_JITTER: Final = (
    'Jitter is off by default; switched on, it is a quarter either way: add {"around": 0.25}.'
)
_POLLY_NAMES: Final = {
    "Delay": "base",
    "MaxRetryAttempts": "limit",
    "MaxDelay": "ceil",
}
_polly = partial(
    _retrier,
    origin="counts attempts from 0",
    counts="retries: MaxRetryAttempts 3, so 4 runs",
    takes={"base": WAIT},
)

_TENACITY_ORIGIN: Final = "numbers attempts from 1 and subtracts 1: from 0 in effect"
_tenacity = partial(_retrier, counts="runs, by stop_after_attempt; nothing stops it by default")
_TENACITY_NAMES: Final = {
    "stop_after_attempt": "limit: attempts - 1",
    "stop_after_delay": "deadline: in seconds",
}


@_polly(
    "polly_constant",
    source=_POLLY,
    traps=(_POLLY_JITTER,),
    names={**_POLLY_NAMES, "UseJitter": 'jitter: true is {"around": 0.25}'},
)
def _polly_constant(base: int = 2_000) -> Form:
    """Polly 8, constant: 2 s every time; 3 retries in 6 s."""
    return {"curve": {"constant": base}, "limit": 3}


@_polly(
    "polly_linear",
    source=_POLLY,
    traps=(_POLLY_JITTER,),
    names={**_POLLY_NAMES, "UseJitter": 'jitter: true is {"around": 0.25}'},
)
def _polly_linear(base: int = 2_000) -> Form:
    """Polly 8, linear: 2k s; 3 retries in 12 s."""
    return {"curve": {"linear": {"base": base, "step": base}}, "limit": 3}


@_polly(
    "polly_exponential",
    "polly",
    source=_POLLY,
    traps=(
        "Polly's own default is polly_constant.",
        "Jitter is off by default; switched on, it is another law: polly_v2.",
    ),
    names={**_POLLY_NAMES, "UseJitter": "preset: true is polly_v2"},
)
def _polly_exponential(base: int = 2_000) -> Form:
    """Polly 8, exponential: 2 s doubling; 3 retries in 14 s."""
    return {"curve": {"exponential": {"base": base}}, "limit": 3}


@_polly(
    "polly_v2",
    "polly_jitter",
    "decorrelated_jitter_v2",
    source="Polly 8.7 with jitter; Polly.Contrib.WaitAndRetry, DecorrelatedJitterBackoffV2",
    traps=(
        "Each retry's instant is drawn in its own slice of time, so the number before must be stored with the job.",
        "Any wait may be next to nothing, not only the first.",
        "A maximum delay (a ceil) cuts the slices: jobs that meet it coincide again.",
    ),
    names={**_POLLY_NAMES, "UseJitter": "preset: false is polly_exponential"},
)
def _polly_v2(base: int = 2_000) -> Form:
    """Polly 8, exponential with jitter: each instant drawn in its slice of time, by median at 2 s doubling; 3 retries."""
    return {"curve": {"exponential": {"base": base}}, "jitter": "slices", "limit": 3}


@_tenacity(
    "tenacity_fixed",
    "wait_fixed",
    source="tenacity, wait_fixed",
    origin="no counter",
    traps=("tenacity's own default is no wait at all.",),
    takes={"wait": WAIT},
    names={"wait": "wait: in seconds", **_TENACITY_NAMES},
)
def _tenacity_fixed(wait: int = 1_000) -> Form:
    """tenacity's wait_fixed: the same wait every time."""
    return {"curve": {"constant": wait}}


@_tenacity(
    "tenacity_random",
    "wait_random",
    source="tenacity, wait_random",
    origin="no counter",
    traps=("It does not back off.",),
    takes={"low": WAIT, "high": WAIT},
    names={"min": "low: in seconds", "max": "high: in seconds", **_TENACITY_NAMES},
)
def _tenacity_random(low: int = 0, high: int = 1_000) -> Form:
    """tenacity's wait_random: anything from 0 to 1 s, every time."""
    return {"curve": {"constant": low}, "jitter": {"up_to": {"constant": high}}}


@_tenacity(
    "tenacity_incrementing",
    "wait_incrementing",
    source="tenacity, wait_incrementing",
    origin=_TENACITY_ORIGIN,
    traps=("The first retry comes at once.", "No jitter."),
    takes={"start": WAIT, "increment": WAIT},
    names={
        "start": "start: in seconds",
        "increment": "increment: in seconds",
        "max": "cap: in seconds",
        **_TENACITY_NAMES,
    },
)
def _tenacity_incrementing(start: int = 0, increment: int = 100_000) -> Form:
    """tenacity's wait_incrementing: at once, then 100 s more each time."""
    return {"curve": {"linear": {"base": start, "step": increment}}}


@_tenacity(
    "tenacity_exponential",
    "wait_exponential",
    source="tenacity, wait_exponential",
    origin=_TENACITY_ORIGIN,
    traps=("No jitter.", "Its min and max are a floor and a cap here."),
    takes={"base": WAIT, "factor": FACTOR},
    names={
        "multiplier": "base: in seconds",
        "exp_base": "factor",
        "min": "floor: in seconds",
        "max": "cap: in seconds",
        **_TENACITY_NAMES,
    },
)
def _tenacity_exponential(base: int = 1_000, factor: float = 2) -> Form:
    """tenacity's wait_exponential: 1 s doubling."""
    return {"curve": {"exponential": {"base": base, "factor": factor}}}


@_tenacity(
    "tenacity_random_exponential",
    "wait_random_exponential",
    "random_exponential",
    source="tenacity, wait_random_exponential",
    origin=_TENACITY_ORIGIN,
    traps=("A wait may be next to nothing: it is full jitter.", "Its own max is endless; 60 s is its manual's example."),
    takes={"base": WAIT, "factor": FACTOR},
    names={"multiplier": "base: in seconds", "exp_base": "factor", "max": "cap: in seconds", **_TENACITY_NAMES},
)  # fmt: skip
def _tenacity_random_exponential(base: int = 1_000, factor: float = 2) -> Form:
    """tenacity's wait_random_exponential: anything below 1 s doubling to a minute."""
    return {"curve": {"exponential": {"base": base, "factor": factor}}, "cap": "1m", "jitter": "full"}


@_tenacity(
    "tenacity_jitter",
    "wait_exponential_jitter",
    "exponential_jitter",
    source="tenacity, wait_exponential_jitter",
    origin=_TENACITY_ORIGIN,
    traps=(
        "The jitter is up to 1 s however long the wait.",
        "Its max holds the sum (a ceil here): at the maximum the jitter vanishes and jobs come back together.",
    ),
    takes={"base": WAIT, "factor": FACTOR, "jitter_by": WAIT},
    names={
        "initial": "base: in seconds",
        "exp_base": "factor",
        "jitter": "jitter_by: in seconds",
        "max": "ceil: in seconds",
        **_TENACITY_NAMES,
    },
)
def _tenacity_jitter(base: int = 1_000, factor: float = 2, jitter_by: int = 1_000) -> Form:
    """tenacity's wait_exponential_jitter: 1 s doubling, plus up to 1 s."""
    return {"curve": {"exponential": {"base": base, "factor": factor}}, "jitter": {"add": jitter_by}}


@_retrier(
    "stamina",
    source="stamina 26.1, retry",
    origin="numbers attempts from 1 and subtracts 1: from 0 in effect",
    counts="runs: attempts 10, so 9 retries, or 45 s, whichever comes first",
    traps=(
        "The jitter is inside the cap: from the 7th retry all waits are exactly 5 s.",
        "Its 45 s look at the time that has passed, not at the wait to come: a last run may start up to 5 s late.",
    ),
    takes={"base": WAIT, "factor": FACTOR, "jitter_by": WAIT},
    names={
        "attempts": "limit: attempts - 1",
        "timeout": "deadline: in seconds",
        "wait_initial": "base: in seconds",
        "wait_exp_base": "factor",
        "wait_jitter": "jitter_by: in seconds",
        "wait_max": "ceil: in seconds",
    },
)
def _stamina(base: int = 100, factor: float = 2, jitter_by: int = 1_000) -> Form:
    """stamina: 0.1 s doubling, plus up to 1 s, at most 5 s; 9 retries within 45 s."""
    return {
        "curve": {"exponential": {"base": base, "factor": factor}},
        "jitter": {"add": jitter_by},
        "ceil": "5s",
        "limit": 9,
        "deadline": "45s",
    }


@_retrier(
    "backoff_expo",
    "backoff",
    "on_exception",
    source="backoff 2.2 for Python, on_exception with expo",
    origin="counts from 0",
    counts="runs, by max_tries; nothing stops it by default",
    traps=(
        "A wait may be next to nothing: it is full jitter.",
        "No cap unless max_value is given: add a cap for that.",
        "What it calls factor is the base here, and what it calls base is the factor.",
    ),
    takes={"base": WAIT, "factor": FACTOR},
    names={
        "max_tries": "limit: tries - 1",
        "max_time": "deadline: in seconds",
        "max_value": "cap: in seconds",
        "factor": "base: in seconds",
        "base": "factor",
        "jitter": 'jitter: None is "none"',
    },
)
def _backoff_expo(base: int = 1_000, factor: float = 2) -> Form:
    """backoff.expo of Python's backoff: anything below 1 s doubling."""
    return {"curve": {"exponential": {"base": base, "factor": factor}}, "jitter": "full"}


@_retrier(
    "cenkalti",
    "go_backoff",
    "backoff_go",
    source="cenkalti/backoff 4, 5 and 6, ExponentialBackOff",
    origin="no counter: the interval grows after each wait, so from 0 in effect",
    counts="nothing; it stops after 15 minutes",
    traps=(
        "The cap of 60 s holds the interval, not the wait: waits go up to 90 s.",
        "Up to 4.0.0 it looked at the time that had passed; since then a wait that would pass the 15 minutes ends it.",
        "Since 5 the 15 minutes are Retry's, and an ExponentialBackOff of its own has no end.",
    ),
    takes={"base": WAIT, "factor": FACTOR, "share": SHARE},
    names={
        "InitialInterval": "base",
        "Multiplier": "factor",
        "RandomizationFactor": "share",
        "MaxInterval": "cap",
        "MaxElapsedTime": "deadline",
    },
)
def _cenkalti(base: int = 500, factor: float = 1.5, share: float = 0.5) -> Form:
    """cenkalti/backoff for Go: 0.5 s times 1.5 up to a minute, half of it either way, for 15 minutes."""
    return {
        "curve": {"exponential": {"base": base, "factor": factor}},
        "cap": "1m",
        "jitter": {"around": share},
        "limit": None,
        "deadline": "15m",
    }
