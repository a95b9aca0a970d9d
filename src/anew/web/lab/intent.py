"""What somebody wants of retries, asked for at the head of the page, and the policies that do it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from anew.backoff.kinds import CEILING_MS, Duration, Integer, Kind
from anew.errors import AnewError
from anew.lab.propose import MOST_JOBS, Proposal, Wish, propose
from anew.web.lab.controls import Control, blame, control, for_a_box

FIRST_LETTER: Final = "want."
"""What the names of these fields in a query begin with."""

FIELDS: Final[dict[str, tuple[Kind, int | None, str, str]]] = {
    "outlive": (Duration(maximum_ms=CEILING_MS), 3 * 86_400_000, "outlive an outage of", "so that no job is dead when it ends"),
    "jobs": (Integer(1, MOST_JOBS), 10_000, "jobs failing together", "as many as are under way when it begins"),
    "calls": (Integer(1, 1_000_000, optional=True), 50, "calls a second afterwards", "at most, once it is back; empty: any number"),
    "first": (Duration(), 10_000, "first wait, about", "jitter makes it shorter or longer; later ones are longer"),
}  # fmt: skip
"""Kind, what stands there at first, label and hint."""

TODAY: Final = FIRST_LETTER + "today"


@dataclass(slots=True, kw_only=True)
class Intent:
    """What is asked for.

    Attributes:
        controls: Its fields.
        today: The policy that somebody has today, a preset's name or JSON; "" if it was not said.
        asked: Somebody has asked; else the fields hold what they begin with.
        wish: The same for `propose`; None where nothing was asked, or something does not fit.
        proposals: What does it.
        error: Why nothing does, if no field is to blame.
    """

    controls: list[Control] = field(default_factory=list)
    today: str = ""
    asked: bool = False
    wish: Wish | None = None
    proposals: tuple[Proposal, ...] = ()
    error: str = ""

    def link(self) -> list[tuple[str, str]]:
        """Give the pairs that bring it back."""
        if not self.asked:
            return []
        pairs = [(item.name, item.text) for item in self.controls]
        return [*pairs, *([(TODAY, self.today)] if self.today else [])]

    def policies(self) -> list[str]:
        """Give the policies that a page shows for it, as a card takes them: today's first."""
        proposed = [msgspec.json.encode(one.policy.to_json()).decode() for one in self.proposals]
        return [*([self.today] if self.today else []), *proposed]


def read_intent(given: Mapping[str, str]) -> Intent:
    """Read what is asked for out of a query; what does not fit is noted beside its field."""
    intent = Intent(today=given.get(TODAY, "").strip(), asked=FIRST_LETTER + "outlive" in given)
    values = {}
    for name, (kind, default, label, hint) in FIELDS.items():
        text = given.get(FIRST_LETTER + name)
        item, values[name] = control(kind, FIRST_LETTER + name, text, default, label=label, hint=hint)
        item.slider = None
        intent.controls.append(item)
    if not intent.asked or any(item.error for item in intent.controls):
        return intent
    intent.wish = Wish(
        outlive_ms=values["outlive"], jobs=values["jobs"], calls=values["calls"], first_ms=values["first"]
    )
    try:
        intent.proposals = _proposed(intent.wish)
    except AnewError as error:
        if not blame(intent.controls, FIRST_LETTER + getattr(error, "field", ""), error):
            intent.error = for_a_box(error)
    return intent


@functools.lru_cache(maxsize=16)
def _proposed(wish: Wish) -> tuple[Proposal, ...]:
    """A slider moves a policy, and what was asked for stays."""
    return tuple(propose(wish))
