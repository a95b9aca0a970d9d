"""How much a picture may be asked for, and the refusals of what is more."""

from __future__ import annotations

from typing import Final

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.units import refused

DEFAULT_RETRIES: Final = 25
"""Retries of a picture where neither the policy nor the caller sets an end."""

MOST_RETRIES: Final = 100
"""Retries of a picture where nobody says how many, and the policy has more."""

MAX_RETRIES: Final = 1_000
MAX_DOTS: Final = 100_000
MAX_INSTANTS: Final = 25_000_000


def shown_retries(policy: Policy, retries: int | None) -> int:
    """Give how many retries a picture shows: as many as asked for and the policy allows.

    Args:
        policy: The policy.
        retries: What was asked for; None: all that the policy allows, 100 at most, or 25 where there is no end.

    Raises:
        InvalidInput: ``retries`` is not in 1 to 1,000.
    """
    whole("retries", retries, 1, MAX_RETRIES, "the retries to show")
    if retries is None:
        return DEFAULT_RETRIES if policy.retries is None else min(policy.retries, MOST_RETRIES)
    return retries if policy.retries is None else min(retries, policy.retries)


def retries_of_herds(policy: Policy, jobs: int, retries: int | None, herds: int = 1) -> int:
    """Give the retries shown, one of some herds being within bounds."""
    count = shown_retries(policy, retries)
    if not count:
        raise InvalidInput("policy: allows no retry; expected one that has waits to draw", field="policy")
    whole("jobs", jobs, 1, MAX_INSTANTS, "the jobs of the herd")
    whole(
        "jobs",
        jobs,
        1,
        MAX_INSTANTS // max(count * herds, 1),
        f"no more than {MAX_INSTANTS:,} retries in all",
    )
    return count


def whole(field: str, value: int | None, low: int, high: int, what: str) -> None:
    """Refuse a number out of bounds; None passes.

    Raises:
        InvalidInput: Names field, value and expectation.
    """
    if value is not None and not low <= value <= high:
        raise refused(field, value, f"a whole number from {low:,} to {high:,}, {what}")
