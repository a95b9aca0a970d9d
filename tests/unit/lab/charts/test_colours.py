"""Colours: order without colour vision, and enough contrast."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files
from itertools import combinations, pairwise
from math import dist
from operator import mul

import pytest

from anew.lab.charts.colours import (
    POLICY_COLOURS,
    POLICY_COLOURS_DARK,
    RETRY_COLOURS_DARK,
    RETRY_COLOURS_LIGHT,
    policy_colour,
    retry_colours,
)
from anew.lab.charts.plots import DARK, LIGHT


def luminance(colour: str) -> float:
    """Relative luminance of sRGB, WCAG 2.2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


Rows = tuple[tuple[float, float, float], tuple[float, float, float], tuple[float, float, float]]

VISIONS: dict[str, Rows] = {
    "all colours": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}  # fmt: skip
"""How linear sRGB looks to whom: G. Machado, M. Oliveira, L. Fernandes, "A Physiologically-based Model for Simulation of
Color Vision Deficiency", IEEE TVCG 15, 2009, severity 1."""


def seen(colour: str, vision: Rows) -> tuple[float, float, float]:
    """The colour as somebody sees it, in Oklab (B. Ottosson, "A perceptual color space for image processing", 2020)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    r, g, b = (min(max(sum(map(mul, row, linear)), 0), 1) for row in vision)
    long, middle, short = (
        (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3),
        (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3),
        (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3),
    )
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def nearest(pairs: Iterable[tuple[str, str]], vision: str) -> float:
    """How far apart the two are that are hardest to tell apart, in hundredths of Oklab's range from black to white."""
    rows = VISIONS[vision]
    return min(100 * dist(seen(one, rows), seen(other, rows)) for one, other in pairs)


def page_grounds() -> tuple[set[str], set[str]]:
    """The grounds of the lab's page by day and by night, as its style sheet has them."""
    sheet = (files("anew.web") / "static" / "base.css").read_text()
    found = re.findall(r"--(?:ground|sheet): light-dark\((#\w{6}), (#\w{6})\);", sheet)
    assert len(found) == 2
    return {light for light, _ in found}, {dark for _, dark in found}


@pytest.mark.parametrize("ramp", [RETRY_COLOURS_LIGHT, RETRY_COLOURS_DARK])
def test_a_ramp_has_twelve_steps_that_get_lighter(ramp: tuple[str, ...]) -> None:
    assert len(ramp) == 12
    assert all(luminance(before) < luminance(after) for before, after in pairwise(ramp))


@pytest.mark.parametrize("colour", [*POLICY_COLOURS, *RETRY_COLOURS_LIGHT])
def test_by_day_every_mark_has_the_contrast_that_graphics_need(colour: str) -> None:
    """WCAG 2.2, 1.4.11: 3:1, on a picture's own ground and on those of the page."""
    for ground in (LIGHT.ground, *page_grounds()[0]):
        assert contrast(colour, ground) >= 3


@pytest.mark.parametrize("colour", [*POLICY_COLOURS_DARK, *RETRY_COLOURS_DARK])
def test_by_night_every_mark_has_it_too(colour: str) -> None:
    for ground in (DARK.ground, *page_grounds()[1]):
        assert contrast(colour, ground) >= 3


def test_the_contrast_of_known_pairs() -> None:
    """The formula itself: black on white is 21:1, and #767676 is the palest grey that text on white may have, 4.54:1."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)


@pytest.mark.parametrize(
    ("colours", "everybody", "protanopia", "deuteranopia", "tritanopia"),
    [
        # What the first choice of colours reached, some of which were too pale.
        (POLICY_COLOURS[:4], 16.4, 9.5, 7.6, 8.5),
        (POLICY_COLOURS, 15.5, 9.5, 7.6, 8.5),
        (POLICY_COLOURS_DARK, 13.0, 6.6, 5.8, 5.4),
    ],
)
def test_policies_can_be_told_apart_whatever_colours_one_sees(
    colours: tuple[str, ...], everybody: float, protanopia: float, deuteranopia: float, tritanopia: float
) -> None:
    pairs = list(combinations(colours, 2))
    least = (everybody, protanopia, deuteranopia, tritanopia)
    assert [vision for vision, far in zip(VISIONS, least, strict=True) if nearest(pairs, vision) < far] == []


@pytest.mark.parametrize(
    ("ramp", "everybody", "protanopia", "deuteranopia", "tritanopia"),
    [
        (RETRY_COLOURS_LIGHT, 4.8, 1.4, 4.15, 3.35),
        (retry_colours(5), 14.4, 4.7, 10.8, 6.8),
        (RETRY_COLOURS_DARK, 5.6, 3.0, 3.9, 2.5),
    ],
)
def test_neighbours_of_a_ramp_can_be_told_apart_too(
    ramp: tuple[str, ...], everybody: float, protanopia: float, deuteranopia: float, tritanopia: float
) -> None:
    least = (everybody, protanopia, deuteranopia, tritanopia)
    pairs = list(pairwise(ramp))
    assert [vision for vision, far in zip(VISIONS, least, strict=True) if nearest(pairs, vision) < far] == []


@pytest.mark.parametrize(
    ("colours", "ground", "least"),
    [
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
