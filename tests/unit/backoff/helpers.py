"""Small makers shared by the backoff tests."""

from collections.abc import Callable
from typing import Any

from anew.backoff import Draws, Policy, Wait, next_wait
from anew.lab import explain


def no_chance() -> float:
    """A generator that must not be asked."""
    raise AssertionError("a number was drawn where none is needed")


def make_draws(rng: Callable[[], float] | float = no_chance, **overrides: Any) -> Draws:
    """Draws whose generator gives one number for ever, or is the given one."""
    source = (lambda: rng) if isinstance(rng, float) else rng
    given: dict[str, Any] = {"rng": source, "job_id": b"job-1", "phase": None} | overrides
    return Draws(**given)


def make_policy(**overrides: Any) -> Policy:
    """A policy of 10 s, twenty-five times, with some fields changed; given in JSON form."""
    body: dict[str, Any] = {"curve": {"constant": "10s"}} | overrides
    return Policy.from_json({name: value for name, value in body.items() if value is not ...})


def wait_ms(policy: Policy, retry: int, draws: Draws | None = None, **given: Any) -> int:
    """The wait of one retry, which must not be exhausted."""
    wait = next_wait(policy, retry, draws or make_draws(), **given)
    assert isinstance(wait, Wait)
    return wait.wait_ms


def spans(policy: Policy, count: int = 10) -> list[str]:
    """Each retry's earliest and latest wait in seconds, as the tables of the field print them."""
    rows = explain(policy.with_limit(None), count).rows
    return [_span(row.earliest_ms, row.latest_ms) for row in rows]


def _span(earliest_ms: int | None, latest_ms: int | None) -> str:
    assert earliest_ms is not None
    assert latest_ms is not None
    low, high = f"{earliest_ms / 1000:.12g}", f"{latest_ms / 1000:.12g}"
    return low if low == high else f"{low}-{high}"


def window_ms(policy: Policy) -> tuple[int | None, int | None]:
    """Earliest and latest time of the last retry after the first failure."""
    last = explain(policy, 10_000).rows[-1]
    return last.window_earliest_ms, last.window_latest_ms
