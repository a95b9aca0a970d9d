"""Makes an SVG small: a herd has thousands of dots, a load thousands of steps, and matplotlib writes a line for each."""

from __future__ import annotations

import re
from typing import Final

_DOT: Final = re.compile(r'\s*<defs>\s*<path id="(\w+)" d="M 0 ([\d.]+) \nC [^"]*"/>\s*</defs>')
"""A circle about the origin: its name and its radius."""

_USES: Final = re.compile(
    r'<use xlink:href="#(?P<dot>\w+)" [^>]*style="fill: (?P<colour>#\w{6})"/>'
    r'(?:\s*<use xlink:href="#(?P=dot)" [^>]*style="fill: (?P=colour)"/>)*'
)
_PLACE: Final = re.compile(r'x="([-\d.]+)" y="([-\d.]+)"')
_LINES: Final = re.compile(
    r"M (?P<first>[-\d.]+ [-\d.]+) \n(?P<others>(?:L [-\d.]+ [-\d.]+ \n){3,})(?P<end>z?)\n?"
)


def compact(svg: str) -> str:
    """Write the same picture in fewer bytes.

    Args:
        svg: What matplotlib wrote.

    Returns:
        The dots of one retry as one path of points with round ends; steps as steps across and up, without those that go
        nowhere; the places of both to a hundredth of a point. The words and everything else are as they were.
    """
    radius = {name: float(radius) for name, radius in _DOT.findall(svg)}

    def joined(uses: re.Match[str]) -> str:
        return _as_one_path(uses, radius[uses["dot"]]) if uses["dot"] in radius else uses[0]

    return _LINES.sub(_as_steps, _DOT.sub("", _USES.sub(joined, svg)))


def _as_one_path(uses: re.Match[str], radius: float) -> str:
    # A line of no length with round ends is a dot, as wide as the line is.
    points = "".join(f"M{_place(x)} {_place(y)}h0" for x, y in _PLACE.findall(uses[0]))
    style = f"fill: none; stroke: {uses['colour']}; stroke-width: {_place(str(2 * radius))}; stroke-linecap: round"
    return f'<path d="{points}" style="{style}"/>'


def _as_steps(lines: re.Match[str]) -> str:
    x, y = map(_place, lines["first"].split())
    steps = [f"M{x} {y}"]
    for line in lines["others"].splitlines():
        before = x, y
        x, y = map(_place, line[2:].split())
        if (x, y) == before:
            continue
        step = f"V{y}" if x == before[0] else f"H{x}" if y == before[1] else f"L{x} {y}"
        if step[0] == "H" == steps[-1][0]:
            steps.pop()  # straight on
        steps.append(step)
    return "".join(steps) + lines["end"]


def _place(number: str) -> str:
    return f"{float(number):.2f}".rstrip("0").rstrip(".")
