"""The seeds: the functions that the questions about backoff start from, and our own answer, ``even``."""

from __future__ import annotations

from functools import partial

from anew.backoff.kinds import Integer, Number
from anew.backoff.presets.registry import COUNT, FACTOR, FLAG, WAIT, Family, Form

_seed = Family("seeds")

_ZIZQ_COUNTS = "retries: 25, so 26 runs; the counter is raised before it is compared"
_N4_FROM_0 = "counts from 0: the first retry sees 0"
_SIDEKIQ = {
    "retry": "limit: true is 25, false is 0",
    "dead": 'on_exhausted: false is "discard"',
}
_sidekiqs = partial(_seed, origin=_N4_FROM_0, counts="retries: 25, so 26 runs")
_charted = partial(
    _seed,
    source='the chart of "Visualization of backoff functions" (Ananthakumaran)',
    counts="nothing; the chart shows 5 retries of 100 jobs",
)


@_seed(
    "even",
    source="Anew",
    origin="counts from 1, as k does",
    counts="retries: 25, so 26 runs",
    traps=("A cap below the largest wait is lowered by 1/18, so that no job comes back at one minute of the hour.",),
    takes={"spread": Number(0, 1), "dither": Number(0, 1), "detune": Number(0, 0.999)},
)  # fmt: skip
def _even(spread: float = 1, dither: float = 0, detune: float = 1 / 18) -> Form:
    """Evenly spread without dice: 15 + 15k + (k-1)^4 s, slid by the job's phase; 25 retries in 20.5 days."""
    curve = {"power": {"base": "30s", "exponent": 4, "slope": "15s"}}
    even = {"spread": spread, "dither": dither, "detune": detune}
    return {"curve": curve, "jitter": {"even": even}, "limit": 25}


@_seed(
    "zizq",
    "zizq_0_6_1",
    source='Zizq 0.6.1, "Backoff & Retry Policies"',
    origin="counts from 1: the failure that asks is counted already",
    counts=_ZIZQ_COUNTS,
    traps=(
        "There is no cap: with 25 retries the last wait is 4.5 days.",
        "The exponent is kept in 32 bits: 4.2 is 4.1999998.",
        "The manual's tip that 4.2 gives about 40 days does not fit the formula, which gives nearly 46.",
        "base, exponent and jitter replace the server's only as a set of three.",
    ),
    takes={"base": WAIT, "exponent": Number(0), "grow": WAIT},
    names={"retry_limit": "limit", "base_ms": "base: in milliseconds", "jitter_ms": "grow: in milliseconds"},
)
def _zizq(base: int = 15_000, exponent: float = 4, grow: int = 30_000) -> Form:
    """Zizq 0.6.1: 15 + k^4 s, plus up to 30k s; 25 retries in 25 days."""
    curve = {"power": {"base": base, "exponent": exponent, "origin": 1}}
    return {"curve": curve, "jitter": {"grow": grow}, "limit": 25}


@_seed(
    "zizq_from_zero",
    "zizq_as_written",
    source='"Backoff & Retry Policies" (Zizq) before 0.6.1, read to the letter: previous attempts',
    origin=_N4_FROM_0,
    counts=_ZIZQ_COUNTS,
    traps=(
        "No server ever ran this: the counter was raised before the wait was computed.",
        "The first wait has no jitter, so jobs that fail together come back together once.",
    ),
)
def _zizq_from_zero() -> Form:
    """Zizq's text before 0.6.1: 15 + (k-1)^4 s, plus up to 30(k-1) s; 25 retries in 20.4 days."""
    nominal = {"base": "15s", "exponent": 4, "origin": 0}
    return {
        "curve": {"power": nominal},
        "jitter": {"up_to": {"power": nominal | {"slope": "30s"}}},
        "limit": 25,
    }


@_seed(
    "zizq_before_0_6_1",
    "zizq_0_6_0",
    source="Zizq's release notes of 0.6.1 and the code before it",
    origin="counts from 1, and weighs the jitter from 2",
    counts=_ZIZQ_COUNTS,
    traps=("The power was added as milliseconds: a window meant to last 25 days closed within 3.62 hours.",),
)
def _zizq_before() -> Form:
    """What Zizq ran before 0.6.1: 15 s + k^4 ms, plus up to 30(k+1) s; 25 retries in 3.6 hours at most."""
    curve = {"power": {"base": "15s", "exponent": 4, "origin": 1, "scale": "1ms"}}
    high = {"times": 1, "grow": "30s", "add": "30s"}
    return {"curve": curve, "jitter": {"window": {"low": {"times": 1}, "high": high}}, "limit": 25}


def sidekiq_form(base: int = 15_000, exponent: float = 4, grow: int = 30_000, faces: int = 30) -> Form:
    """Give the law of Faktory and the older Sidekiqs: a die whose faces are ``grow * k / faces`` apart."""
    curve = {"power": {"base": base, "exponent": exponent, "origin": 0}}
    return {"curve": curve, "jitter": {"grow": {"by": grow, "faces": faces}}, "limit": 25}


@_seed(
    "faktory",
    source='Faktory 1.10, "Job Errors" (Faktory wiki)',
    origin=_N4_FROM_0,
    counts="retries: 25, so 26 runs; 0 discards at the first failure, -1 keeps the job without a retry",
    traps=(
        "The die has 30 faces and is multiplied afterwards: a herd at its 25th retry meets on 30 instants, 25 s apart.",
        "The wiki says more than 21 days; the formula gives 20.41 to 20.52.",
        "The 20th retry waits 19^4 s (1.51 days), not 20^4.",
    ),
    takes={"base": WAIT, "exponent": Number(0), "grow": WAIT, "faces": COUNT},
    names={"retry": "limit: 0 discards there, -1 is 0 here"},
)  # fmt: skip
def _faktory(base: int = 15_000, exponent: float = 4, grow: int = 30_000, faces: int = 30) -> Form:
    """Faktory 1.10: 15 + (k-1)^4 s, plus k times a die of 30 faces; 25 retries in 20.4 days."""
    return sidekiq_form(base, exponent, grow, faces)


@_sidekiqs(
    "sidekiq",
    "sidekiq5",
    "sidekiq6",
    source="Sidekiq 2.6 to 6.2.1, job_retry.rb",
    traps=(
        "Thirty values a retry, k seconds apart: a thousand jobs share thirty seconds.",
        "From 6.2.2 on Sidekiq 6 has the smaller jitter of sidekiq7.",
        "Before 2.6 there was no jitter.",
    ),
    takes={"base": WAIT, "exponent": Number(0), "grow": WAIT, "faces": COUNT},
    names=_SIDEKIQ,
)
def _sidekiq(base: int = 15_000, exponent: float = 4, grow: int = 30_000, faces: int = 30) -> Form:
    """Sidekiq up to 6.2.1 (newer: sidekiq7, sidekiq8), the law that Faktory keeps; 25 retries in 20.4 days."""
    return sidekiq_form(base, exponent, grow, faces)


@_sidekiqs(
    "sidekiq7",
    "sidekiq_7",
    source="Sidekiq 6.2.2 to 7.3, after the change of 2021",
    traps=(
        "The jitter is a third of what it was, and has only ten values: jobs meet more often, not less.",
        "The jitter is also added to what a user's own function returns.",
    ),
    names={**_SIDEKIQ, "retry_for": "deadline: in seconds, since 7.1.3"},
)
def _sidekiq7() -> Form:
    """Sidekiq 6.2.2 to 7: 15 + (k-1)^4 s, plus k times a die of 10 faces; 25 retries in 20.4 days."""
    return sidekiq_form(grow=10_000, faces=10)


@_sidekiqs(
    "sidekiq8",
    "sidekiq_8",
    source="Sidekiq 8.0 and 8.1, after the change of 2024",
    traps=(
        "Draws are whole seconds, so at the first retry there are ten of them.",
        "A user's own function that raises is replaced by this formula.",
    ),
    names={**_SIDEKIQ, "retry_for": "deadline: in seconds"},
)
def _sidekiq8() -> Form:
    """Sidekiq 8: 15 + (k-1)^4 s, plus whole seconds below 10k; 25 retries in 20.4 days."""
    curve = {"power": {"base": "15s", "exponent": 4, "origin": 0}}
    return {"curve": curve, "jitter": {"grow": {"by": "10s", "step": "1s"}}, "limit": 25}


@_charted(
    "sidekiq_chart",
    "ananthakumaran",
    origin="counts from 1: its loop runs 1 to 5",
    traps=(
        "Its first wait is 16 to 76 s, not Sidekiq's 15 to 44 s: the chart counts from 1 and draws real numbers.",
    ),
)
def _sidekiq_chart() -> Form:
    """Sidekiq as a well-known chart draws it: 15 + k^4 s, plus up to 30(k+1) s."""
    curve = {"power": {"base": "15s", "exponent": 4, "origin": 1}}
    high = {"times": 1, "grow": "30s", "add": "30s"}
    return {"curve": curve, "jitter": {"window": {"low": {"times": 1}, "high": high}}}


@_charted(
    "constant",
    "fixed",
    origin="no counter",
    traps=("Jobs that failed together come back together, every time.",),
    takes={"wait": WAIT},
)
def _constant(wait: int = 300_000) -> Form:
    """The same wait every time, 5 minutes unless told otherwise."""
    return {"curve": {"constant": wait}}


@_charted(
    "exponential",
    "exponential_backoff",
    origin="counts from 1: the first wait is 180 + 60 * 2 s",
    traps=("No jitter and no cap: the waves stay sharp, and the 15th wait passes 22 days.",),
    takes={"offset": WAIT, "base": WAIT, "factor": FACTOR},
)
def _exponential(offset: int = 180_000, base: int = 120_000, factor: float = 2) -> Form:
    """180 + 60 * 2^k s: an offset plus a doubling wait."""
    growing = {"exponential": {"base": base, "factor": factor}}
    return {"curve": {"sum": [{"constant": offset}, growing]} if offset else growing}


@_seed(
    "linear",
    source="zzz_jobs 0.1 to 0.3 (now pidgn_jobs), its README",
    origin="counts from 0 by its README; its code counts from 1",
    counts="runs: max_attempts 20, so 19 retries, whatever the strategy",
    traps=(
        "No cap and no jitter.",
        "Its code raises the counter first: there the first wait is 120 s, and a minute more each time all the same.",
    ),
    takes={"base": WAIT, "step": WAIT},
)
def _linear(base: int = 60_000, step: int | None = None) -> Form:
    """60k s: the linear strategy of zzz_jobs."""
    return {"curve": {"linear": {"base": base, "step": base if step is None else step}}}


@_charted(
    "buckets",
    origin="counts from 1; with origin 0 from 0",
    traps=(
        "One wait in eight is shorter than the one before it.",
        "From 0 the first retry may come at once.",
        "The text has the power 3; the script that draws its chart has 3.5.",
        "The jitter's share falls as the retries go on: 53 % at the first, 6.7 % at the 25th.",
    ),
    takes={"origin": Integer(0, 1)},
)
def _buckets(origin: int = 1) -> Form:
    """Anything between k^3 and (k+2)^3 s, so that neighbouring windows overlap."""
    curve = {"power": {"exponent": 3, "origin": origin}}
    return {"curve": curve, "jitter": {"up_to": {"power": {"exponent": 3, "origin": origin + 2}}}}


@_seed(
    "zzz_jobs",
    source='"Retry Strategies" (zzz_jobs); zzz_jobs 0.1 to 0.3 (now pidgn_jobs), src/retry.zig',
    origin="counts from 0 by its delay table; read to the letter (literal), and in its code, from 1",
    counts="runs: max_attempts 20, so 19 retries",
    traps=(
        "The jitter is added after the cap: the longest wait is 4,500 s although the cap is 3,600 s.",
        "The steps say that the counter is raised first, the table says that it is not: twice the wait hangs on it. "
        "The code does what the steps say: literal.",
        "In the code the jitter comes from the second of the failure, not from the job: jobs that fail in one second "
        "come back in one second. Here each job has its own.",
        "Discarded jobs are kept, with their error.",
    ),
    takes={"base": WAIT, "literal": FLAG},
)
def _zzz_jobs(base: int = 15_000, literal: bool = False) -> Form:
    """15 s doubling to an hour, up to a quarter above by a hash of id and retry; 19 retries in 12 hours.

    ``literal`` starts at twice the base, as the documented steps say when read to the letter.
    """
    curve = {"exponential": {"base": base * (2 if literal else 1)}}
    return {
        "curve": curve,
        "cap": "1h",
        "jitter": {"above": {"share": 0.25, "source": "hash"}},
        "limit": 19,
        "on_exhausted": "dead",
    }
