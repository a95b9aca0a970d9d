"""From what somebody wants to policies: outlive so long an outage, with so many jobs, and no more calls a second when it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab.fit import fit
from anew.lab.lint import Context, lint
from anew.lab.simulation.outcome import Outcome
from anew.lab.simulation.scenario import Scenario
from anew.lab.simulation.simulate import simulate
from anew.units import MINUTE_MS, SECOND_MS, format_duration, refused

MOST_JOBS: Final = 100_000
_MOST_RETRIES: Final = 400
_ROUNDS: Final = 4
_WAITS: Final = (
    1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1_200, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400,
)  # fmt: skip
"""Seconds that people write."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants: so many jobs that fail together, and none that dies in an outage."""

    outlive_ms: int
    """The longest outage that no job may die in."""
    jobs: int
    calls: int | None = None
    """A second, at most, when the service is back; None: any number."""
    first_ms: int = 10 * SECOND_MS
    """The first retry comes within this time, about."""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A policy that does it, as far as one can, named after what it is good at, and one sentence why."""

    name: str
    policy: Policy
    why: str
    comments: tuple[str, ...]
    """What `anew.lab.lint` says of it."""
    outcome: Outcome
    """What comes of the wished-for jobs in the wished-for outage."""
    fits: bool
    """Whether no more calls come in any second after the outage than may."""


def propose(wish: Wish) -> list[Proposal]:
    """Propose policies: of few that differ in kind, those that are the best at something, named after it.

    Returns:
        One to three, each with every job alive at the end of the outage. Those that let more calls come than may are left out where
        another does not.

    Raises:
        InvalidInput: A number is out of bounds, or no policy of this kind outlives so long an outage from so short a wait on.
    """
    _check(wish)
    found = [_proposal(wish, policy) for policy in _spread(wish)]
    soon = _soon_done(wish)
    if soon is not None and all(soon.policy != one.policy for one in found):
        found.append(soon)
    fitting = [one for one in found if one.fits] or found
    names: dict[int, list[str]] = {}
    for name, measure in _GOALS.items():
        figures = [measure(one.outcome) for one in fitting]
        best = figures.index(min(figures))
        if all(
            figures[best] < figures[at] for at in names if at != best
        ):  # what is as good needs no policy more
            names.setdefault(best, []).append(name)
    return [msgspec.structs.replace(fitting[at], name=", ".join(each)) for at, each in names.items()]


_GOALS: Final[Mapping[str, Callable[[Outcome], int]]] = {
    "few calls": lambda outcome: outcome.herd_calls,
    "soon done": lambda outcome: outcome.success_ms.max if outcome.success_ms else 0,
    "low peak": lambda outcome: outcome.peak_second_after or 0,
}


def _check(wish: Wish) -> None:
    if not 1 <= wish.jobs <= MOST_JOBS:
        raise refused("jobs", wish.jobs, f"a whole number from 1 to {MOST_JOBS:,}")
    if wish.calls is not None and wish.calls < 1:
        raise refused("calls", wish.calls, "a whole number from 1 on")
    if wish.first_ms * 2 > wish.outlive_ms:
        first, outage = format_duration(wish.first_ms), format_duration(wish.outlive_ms)
        raise refused("outlive", outage, f"an outage of twice the first wait ({first}) at least")


def _spread(wish: Wish) -> Iterator[Policy]:
    """Give policies of few retries: of the kind of even, and with waits that grow to about a quarter of the outage."""
    yield fit(None, wish.first_ms, like="even", outlive_ms=wish.outlive_ms).policy
    cap_ms = max((s * SECOND_MS for s in _WAITS if s * SECOND_MS <= wish.outlive_ms / 4), default=0)
    with suppress(InvalidInput):  # the first wait is above such a cap
        yield fit(None, wish.first_ms, like="exponential", outlive_ms=wish.outlive_ms, cap_ms=cap_ms).policy


def _soon_done(wish: Wish) -> Proposal | None:
    """Find the shortest longest wait, of those that people write, that lets no more calls come than may."""
    best = None
    for _, cap_ms in zip(range(_ROUNDS), _caps(wish), strict=False):
        try:
            policy = fit(
                None, wish.first_ms, like="exponential", outlive_ms=wish.outlive_ms, cap_ms=cap_ms
            ).policy
        except InvalidInput:
            continue
        if (policy.retries or 0) > _MOST_RETRIES:
            continue
        best = _proposal(wish, policy)
        if best.fits:
            break
    return best


def _caps(wish: Wish) -> Iterator[int]:
    """Give longest waits to try, ms: even spreads the jobs over one, so that it says how many calls come a second."""
    least = max(wish.outlive_ms / 72, 2 * wish.first_ms, MINUTE_MS)
    if wish.calls is not None:
        least = max(least, 1.25 * SECOND_MS * wish.jobs / wish.calls)
    for seconds in _WAITS:
        if least <= seconds * SECOND_MS <= wish.outlive_ms / 4:
            yield seconds * SECOND_MS


def _proposal(wish: Wish, policy: Policy) -> Proposal:
    outcome = simulate(policy, Scenario(jobs=wish.jobs, outage_ms=wish.outlive_ms))
    peak = outcome.peak_second_after or 0
    found = lint(policy, Context(jobs=wish.jobs, outages_ms=(wish.outlive_ms,)))
    return Proposal(
        name="",
        policy=policy,
        why=_why(wish, policy, outcome),
        comments=tuple(finding.message for finding in found),
        outcome=outcome,
        fits=wish.calls is None or peak <= wish.calls,
    )


def _why(wish: Wish, policy: Policy, outcome: Outcome) -> str:
    longest = max(policy.nominal(retry) for retry in range(1, (policy.retries or 0) + 1))
    last = outcome.success_ms.max if outcome.success_ms else wish.outlive_ms
    return (
        f"{policy.retries} retries, the longest wait {format_duration(int(longest))}: every job outlives "
        f"{format_duration(wish.outlive_ms)}, and the last is done {format_duration(max(last - wish.outlive_ms, 0))} after it"
    )
