"""A proposal with so many retries: that has a window, or that is the shortest to outlive an outage."""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab.families import Family
from anew.lab.fit_goal import TOLERANCE, Goal, counted, nominal_window
from anew.lab.fit_words import how_far_off, spread_of
from anew.lab.last_retry import last_retry
from anew.lab.laws.spans import spans
from anew.units import format_duration, format_duration_short, refused

_ROUNDS: Final = 12
_MARGIN: Final = 1.0003
_NEAR: Final = 1.002
_HARDLY: Final = 1_000
"""A jitter that lets a last retry come after a thousandth of the window can promise nothing."""


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal, and how it came about.

    Args:
        policy: The policy.
        like: Its family.
        solved: Name and value of each parameter that was solved for.
        how: Sentences: the curve, each equation with its solution, what remains off, what the jitter does, who dies.
        first_ms: The first nominal wait.
        window_ms: The sum of all nominal waits.
        off_ms: By how much that is longer than asked; negative: shorter.
        earliest_ms: The earliest time of the last retry after the first failure, jitter included.
        latest_ms: The least upper bound of that time.
        outlives: The share of jobs, 0 to 1, that outlive an outage as long as the window, or the one, that was asked for.
    """

    policy: Policy
    like: str
    solved: dict[str, str]
    how: tuple[str, ...]
    first_ms: int
    window_ms: int
    off_ms: int
    earliest_ms: int
    latest_ms: int
    outlives: float

    def to_json(self) -> dict[str, Any]:
        """Give all of it, the policy in its JSON form."""
        return {name: getattr(self, name) for name in self.__struct_fields__} | {
            "policy": self.policy.to_json()
        }


def with_window(family: Family, window_ms: int, first_ms: int, cap_ms: int | None, retries: int) -> Fit:
    """Propose a policy with a window."""
    goal = Goal(family, window_ms, first_ms, retries, cap_ms)
    goal.check()
    solved: dict[str, str] = {}
    how = [f"like {family.name}: {family.curve}, {family.manner}"]
    policy = goal.policy({"constant": first_ms})
    solutions = [*goal.solutions()]
    for number, (step, value) in enumerate(solutions, start=1):
        solved[step.unknown.name] = step.unknown.text(value)
        # At the lower end every wait is the first one, which the constant says better.
        policy = goal.policy(step.curve(value) if value > step.unknown.low else {"constant": first_ms})
        held = ", each wait held to the cap," if cap_ms is not None else ""
        coarse = "" if number == len(solutions) else ", and whole milliseconds are too coarse, so"
        how.append(
            f"{step.equation}{held} = {goal.asked}: {step.unknown.name} = {step.unknown.text(value)}{coarse}"
        )
    off = nominal_window(policy) - window_ms
    if abs(off) > TOLERANCE * window_ms:
        raise goal.beyond(nominal_window(policy))
    *_, last = spans(policy, retries)
    earliest, latest = last.window_earliest_ms or 0, last.window_latest_ms or 0
    how += [how_far_off(off, window_ms), spread_of(earliest, latest)]
    return Fit(
        policy=policy,
        like=family.name,
        solved=solved,
        how=tuple(how),
        first_ms=int(policy.nominal(1)),
        window_ms=window_ms + off,
        off_ms=off,
        earliest_ms=earliest,
        latest_ms=latest,
        outlives=1.0,
    )


def outliving(
    family: Family, outlive_ms: int, share: float, first_ms: int, cap_ms: int | None, retries: int
) -> Fit:
    """Propose the policy with the shortest window that ends at an outage's end or after it, for a share of the jobs.

    What the jitter takes off is about the same share of all windows, so that a few steps lead there.
    """
    least = retries * first_ms
    window_ms, best = max(outlive_ms, least), None
    for _ in range(_ROUNDS):
        try:
            found = with_window(family, window_ms, first_ms, cap_ms, retries)
        except InvalidInput as error:
            if best is not None or error.field != "window":
                break
            text = str(error).removeprefix("window: ")
            raise InvalidInput(f"outlive: {text}", field="outlive", value=outlive_ms) from None
        end_ms = _reached(found, share)
        if end_ms * _HARDLY < found.window_ms:
            raise refused(
                "outlive",
                format_duration_short(outlive_ms),
                f"an outage for a share of the jobs, such as 99 %: with this jitter {'some' if share == 1 else 'that many'} "
                f"may make their last retry {format_duration(end_ms)} after the first failure",
            )
        if end_ms >= outlive_ms:
            best = found if best is None or found.window_ms < best.window_ms else best
            if window_ms == least or end_ms <= outlive_ms * _NEAR:
                break
        window_ms = max(math.ceil(window_ms * outlive_ms / max(end_ms, 1) * _MARGIN), least)
    if best is None:
        raise refused(
            "outlive",
            format_duration_short(outlive_ms),
            f"an outage that {counted(retries)} from {format_duration(first_ms)} on can outlive: fewer or more retries, "
            "another first wait or another family",
        )
    asked, takes = format_duration_short(outlive_ms), format_duration(best.window_ms)
    who = "every job" if share == 1 else f"{100 * share:g} % of the jobs"
    words = f"an outage of {asked}, which {who} shall outlive, takes a window of {takes}"
    # How far that is from what the search asked for is nobody's concern.
    family_words, *equations, _, spread = best.how
    return msgspec.structs.replace(best, how=(family_words, words, *equations, spread))


def _reached(found: Fit, share: float) -> int:
    """Give the longest outage that a share of the jobs outlives."""
    if share == 1:
        return found.earliest_ms
    last = last_retry(found.policy)
    return found.earliest_ms if last is None else last.outlived_by(100 * share)
