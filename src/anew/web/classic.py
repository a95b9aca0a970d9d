"""The classic pictures on the page: one link each, with boxes and sliders for what may be changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from anew.errors import InvalidInput
from anew.lab.charts import classics
from anew.lab.charts.link import LETTERS
from anew.lab.charts.pictures import Band, Dots, Picture
from anew.web.controls import Control, control
from anew.web.drawing import curves
from anew.web.words import between


@dataclass(slots=True)
class Classic:
    """One classic picture.

    Attributes:
        name: Its name.
        controls: What may be changed.
        picture: What is drawn; None where something does not fit.
        error: What does not fit as a whole.
        unknown: Names of the query that it has not read.
    """

    name: str
    controls: list[Control] = field(default_factory=list)
    picture: Picture | None = None
    error: str = ""
    unknown: list[str] = field(default_factory=list)

    def link(self) -> list[tuple[str, str]]:
        """Give the pairs that bring this picture back."""
        said = [(item.name, item.text) for item in self.controls if item.said]
        return [("classic", self.name), *said]


def read_classic(name: str, given: dict[str, str]) -> Classic:
    """Read a classic picture out of a query."""
    made = Classic(name)
    fields = classics.PARAMETERS.get(name)
    if fields is None:
        made.error = f"classic: {name[:40]!r} is not valid; expected one of: {', '.join(classics.PARAMETERS)}"
        return made
    arguments = {}
    for own, taken in fields.items():
        item, arguments[taken.argument] = control(taken.kind, own, given.get(own), taken.default)
        made.controls.append(item)
    made.unknown = [own for own in given if own not in fields and own not in ("classic", "scale")]
    if any(item.error for item in made.controls):
        return made
    try:
        made.picture = classics.MAKERS[name](**arguments)
    except InvalidInput as error:
        beside = next((item for item in made.controls if error.field.endswith(item.name)), None)
        if beside is None:
            made.error = str(error)
        else:
            beside.error = str(error)
    return made


def drawn(picture: Picture | None) -> dict[str, Any]:
    """Give what the browser draws."""
    panels = () if picture is None else picture.panels
    bands = [line for panel in panels if isinstance(panel, Band) for line in panel.lines]
    return {
        **curves({LETTERS[place % len(LETTERS)]: line for place, line in enumerate(bands)}),
        "herds": [
            {
                "key": f"{place}",
                "label": panel.label,
                "retries": panel.retries,
                "dots": panel.instants_ms,
                "span": [
                    max(min((row[0] for row in panel.instants_ms if row), default=1), 1),
                    max(panel.end_ms, 2),
                ],
            }
            for place, panel in enumerate(panels)
            if isinstance(panel, Dots)
        ],
    }


def said(picture: Picture | None) -> list[str]:
    """Say what is seen."""
    if picture is None:
        return []
    sentences = [picture.caption]
    for panel in picture.panels:
        for line in panel.lines if isinstance(panel, Band) else ():
            points = line.points
            if not points or points[-1].latest_ms is None:
                continue
            low = sum(point.earliest_ms or 0 for point in points)
            high = sum(point.latest_ms or 0 for point in points)
            last = between(points[-1].earliest_ms, points[-1].latest_ms)
            sentences.append(
                f"{line.label}: the last of {len(points)} retries waits {last}; all of them together take "
                f"{between(low, high)}."
            )
    return sentences


def table(picture: Picture | None) -> tuple[list[str], list[list[str]]]:
    """Give the waits of a picture of curves as a table: its heading and its rows."""
    lines = [
        line
        for panel in (picture.panels if picture else ())
        if isinstance(panel, Band)
        for line in panel.lines
    ]
    heading = ["retry", *(line.label for line in lines)]
    most = max((len(line.points) for line in lines), default=0)
    rows = []
    for place in range(most):
        cells = [
            between(line.points[place].earliest_ms, line.points[place].latest_ms)
            if place < len(line.points)
            else "–"
            for line in lines
        ]
        rows.append([str(place + 1), *cells])
    return heading, rows
