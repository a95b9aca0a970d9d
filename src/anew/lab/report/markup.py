"""HTML and SVG as text, escaped by construction: only what this module built is taken as it is."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

_VOID = frozenset({"meta", "br", "hr", "img"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"


def tag(name: str, /, *children: Child, **attributes: str | float | None) -> Markup:
    """Build one element.

    Args:
        name: ``p``, ``path``, ...
        children: Text, which is escaped; markup; or lists of both. None is left out.
        attributes: ``class_`` is written ``class`` and ``view_box`` ``viewBox``; other underscores become hyphens.
            None is left out, numbers are rounded to a hundredth.
    """
    words = "".join(
        f' {_name(key)}="{html.escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{words}>")
    return Markup(f"<{name}{words}>{inside(children)}</{name}>")


def inside(children: Child) -> Markup:
    """Join text and markup; text is escaped."""
    if children is None:
        return Markup("")
    if isinstance(children, Markup):
        return children
    if isinstance(children, str):
        return Markup(html.escape(children, quote=False))
    return Markup("".join(inside(child) for child in children))


def number(value: float) -> str:
    """Write a coordinate: at most two decimals, no ``-0``, no trailing zeros."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def dots(x: ArrayLike, y: ArrayLike) -> str:
    """Give the path of many round dots: strokes without length, so that one element draws them all."""
    return "".join(
        f"M{number(a)} {number(b)}h0" for a, b in zip(np.ravel(x).tolist(), np.ravel(y).tolist(), strict=True)
    )


def steps(x: ArrayLike, y: ArrayLike, floor: float) -> str:
    """Give the path of a filled step curve.

    Args:
        x: Edges of the bins, one more than values.
        y: Heights of the bins, as coordinates.
        floor: The coordinate of nothing.
    """
    edges, heights = np.ravel(x).tolist(), np.ravel(y).tolist()
    path = [f"M{number(edges[0])} {number(floor)}"]
    level = floor
    for start, end, height in zip(edges[:-1], edges[1:], heights, strict=True):
        if height != level:
            # Equal neighbours are one line: most of a quiet load is.
            path.append(f"H{number(start)}V{number(height)}")
            level = height
        last = end
    path.append(f"H{number(last)}V{number(floor)}Z")
    return "".join(path)


def _name(key: str) -> str:
    if key == "view_box":
        return "viewBox"
    return key.removesuffix("_").replace("_", "-")


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else number(value)
