"""Colours: order without colour vision, and enough contrast."""

from __future__ import annotations

from itertools import pairwise

import pytest

from anew.lab.charts.colours import (
    POLICY_COLOURS,
    POLICY_COLOURS_DARK,
    RETRY_COLOURS_DARK,
    RETRY_COLOURS_LIGHT,
    policy_colour,
    retry_colours,
)
from anew.lab.charts.theme import DARK, LIGHT


def luminance(colour: str) -> float:
    """Relative luminance of sRGB, WCAG 2.2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("ramp", [RETRY_COLOURS_LIGHT, RETRY_COLOURS_DARK])
def test_a_ramp_has_twelve_steps_that_get_lighter(ramp: tuple[str, ...]) -> None:
    assert len(ramp) == 12
    assert all(luminance(before) < luminance(after) for before, after in pairwise(ramp))


@pytest.mark.parametrize(
    ("colours", "ground", "least"),
    [
        (RETRY_COLOURS_LIGHT, LIGHT.ground, 2.7),
        (RETRY_COLOURS_DARK, DARK.ground, 3.4),
        (POLICY_COLOURS_DARK, DARK.ground, 6.0),
        ((LIGHT.ink, LIGHT.faint), LIGHT.ground, 4.5),
        ((DARK.ink, DARK.faint), DARK.ground, 4.5),
    ],
)
def test_everything_stands_out_from_its_ground(colours: tuple[str, ...], ground: str, least: float) -> None:
    assert min(contrast(colour, ground) for colour in colours) >= least


def test_few_retries_use_the_whole_ramp() -> None:
    # Steps 0, 11/4, 22/4, 33/4, 11 of the ramp, halves up: 0, 3, 6, 8, 11.
    ramp = RETRY_COLOURS_LIGHT
    assert retry_colours(5) == (ramp[0], ramp[3], ramp[6], ramp[8], ramp[11])
    assert retry_colours(1) == (ramp[0],)
    assert retry_colours(12) == ramp
    assert retry_colours(0) == ()


def test_many_retries_go_through_the_ramp_in_order() -> None:
    colours = retry_colours(25, dark=True)
    places = [RETRY_COLOURS_DARK.index(colour) for colour in colours]
    assert places == sorted(places)
    assert set(places) == set(range(12))


def test_policies_have_the_colours_of_okabe_and_ito() -> None:
    assert POLICY_COLOURS[:2] == ("#0072b2", "#d55e00")
    assert policy_colour(6) == policy_colour(0)
    assert policy_colour(1, dark=True) == POLICY_COLOURS_DARK[1]
