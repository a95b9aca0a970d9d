"""The colours of every picture, in the terminal, on paper and in the browser: one retry number, one colour.

The ramps run from violet over blue, teal and green to amber while they get lighter all the way, so that order stays
visible without any colour vision; the same retry has the same hue by day and by night. Every colour stands out from
the grounds of pictures and page by a contrast of 3 or more, as WCAG 2.2 (1.4.11) wants it of graphics, and from its
neighbours and rivals under protanopia, deuteranopia and tritanopia, too.

Source of the policies' colours: M. Okabe, K. Ito, "Color Universal Design", 2008. Three of theirs are too pale on a light
ground; darker ones stand in for them there, the last three of `POLICY_COLOURS`.
"""

from __future__ import annotations

from typing import Final

RETRY_COLOURS_LIGHT: Final[tuple[str, ...]] = (
    "#2c0a3e", "#340074", "#270897", "#04397a", "#034c6b", "#165a67",
    "#106860", "#02774e", "#1c8618", "#6b8700", "#988706", "#c08504",
)  # fmt: skip
"""Twelve steps for a light ground, the first retry first."""

RETRY_COLOURS_DARK: Final[tuple[str, ...]] = (
    "#a344b8", "#915dde", "#7377f9", "#4593fe", "#03abf0", "#0fbedd",
    "#1acece", "#18dfb8", "#4dee8d", "#a8f060", "#e9ed31", "#feeec0",
)  # fmt: skip
"""The same twelve steps for a dark ground."""

POLICY_COLOURS: Final[tuple[str, ...]] = ("#0072b2", "#d55e00", "#009e73", "#b03078", "#705008", "#3028d0")
"""One colour a policy where several share a picture: the first is blue."""

POLICY_COLOURS_DARK: Final[tuple[str, ...]] = (
    "#3aa0e0", "#f0803c", "#2cc295", "#dd9cc3", "#f0b740", "#86cbf2",
)  # fmt: skip
"""The same hues, lighter: thin lines and text on a dark ground."""


def retry_colours(retries: int, *, dark: bool = False) -> tuple[str, ...]:
    """Give one colour for each retry of a picture, spread over the whole ramp so that neighbours differ most.

    Args:
        retries: How many retries the picture shows, >= 0. Above twelve, neighbours share colours.
        dark: For a dark ground.

    Returns:
        ``retries`` colours as ``#rrggbb``: retry k of n is step ``round((k - 1) * 11 / (n - 1))`` of the ramp,
        halves rounded up, and a lone retry is the first step.
    """
    ramp = RETRY_COLOURS_DARK if dark else RETRY_COLOURS_LIGHT
    steps, last = len(ramp) - 1, max(retries - 1, 1)
    return tuple(ramp[(2 * k * steps + last) // (2 * last)] for k in range(retries))


def policy_colour(place: int, *, dark: bool = False) -> str:
    """Give the colour of the policy at a place, 0 = the first; they begin again after the sixth."""
    colours = POLICY_COLOURS_DARK if dark else POLICY_COLOURS
    return colours[place % len(colours)]
