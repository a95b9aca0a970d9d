"""The report's pictures as SVG that takes its colours from the page, so that it follows light and dark."""

from __future__ import annotations

from typing import Final

import numpy as np

from anew.lab.charts.axes import Scale, count_ticks, duration_labels, duration_ticks
from anew.lab.envelope import Floats, Millis
from anew.lab.measure import Yardstick
from anew.lab.report.markup import Markup, dots, number, steps, tag
from anew.lab.report.run import Report
from anew.units import MINUTE_MS, SECOND_MS, format_duration

WIDTH: Final = 400
_LEFT: Final = 34
_RIGHT: Final = 8
_BINS_MS: Final = (5 * SECOND_MS, 10 * SECOND_MS, 20 * SECOND_MS, 30 * SECOND_MS, MINUTE_MS)


class Frame:
    """One plot's rectangle in the picture.

    Args:
        top: Its upper edge.
        height: Its height.
        x: The horizontal axis.
        y: The vertical axis, from bottom to top.
        left: Its left edge.
        width: Its width.
    """

    def __init__(
        self,
        top: float,
        height: float,
        x: Scale,
        y: Scale,
        *,
        left: float = _LEFT,
        width: float = WIDTH - _LEFT - _RIGHT,
    ) -> None:
        self.left, self.top, self.width, self.height = left, top, width, height
        self.x, self.y = x, y

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.top + self.height

    @property
    def right(self) -> float:
        """The right edge."""
        return self.left + self.width

    def at_x(self, value: float) -> float:
        """Give the coordinate of a value on the horizontal axis."""
        return self.left + self.x.at(value) * self.width

    def at_y(self, value: float) -> float:
        """Give the coordinate of a value on the vertical axis."""
        return self.bottom - self.y.at(value) * self.height

    def x_tick(self, value: float, label: str) -> Markup:
        """Draw one mark of the horizontal axis; labels at the ends stay inside."""
        x = self.at_x(value)
        anchor = "end" if x > self.right - 12 else "start" if x < self.left + 6 else "middle"
        line = tag("path", d=f"M{number(x)} {number(self.top)}V{number(self.bottom + 3)}", class_="grid")
        return Markup(line + _label(label, x, self.bottom + 13, anchor))

    def y_tick(self, value: float, label: str) -> Markup:
        """Draw one mark of the vertical axis."""
        y = self.at_y(value)
        line = tag("path", d=f"M{number(self.left - 3)} {number(y)}H{number(self.right)}", class_="grid")
        return Markup(line + _label(label, self.left - 5, y + 3.5, "end"))

    def base(self) -> Markup:
        """Draw the line that everything stands on."""
        return tag(
            "path", d=f"M{number(self.left)} {number(self.bottom)}H{number(self.right)}", class_="axis"
        )


def _label(text: str, x: float, y: float, anchor: str, kind: str | None = None) -> Markup:
    return tag("text", text, x=x, y=y, text_anchor=anchor, class_=kind)


def _picture(height: float, title: str, *children: Markup | list[Markup], width: float = WIDTH) -> Markup:
    box = f"0 0 {number(width)} {number(height)}"
    return tag(
        "svg", tag("title", title), *children, view_box=box, role="img", xmlns="http://www.w3.org/2000/svg"
    )


def bin_ms(end_ms: int) -> int:
    """Give a round width of bins, about a hundred to the end of a picture."""
    return next((width for width in _BINS_MS if width * 110 >= end_ms), _BINS_MS[-1])


def calls(instants: Millis, end_ms: int) -> Millis:
    """Count a herd's calls in the bins of its picture; the last one holds the end itself."""
    width_ms = bin_ms(end_ms)
    last = -(-end_ms // width_ms) - 1
    return np.bincount(np.minimum(instants.ravel() // width_ms, last), minlength=last + 1)


def herd(instants: Millis, title: str, end_ms: int, most: int) -> Markup:
    """Draw a herd: a row for each job, a dot for each retry, and below it the calls per bin.

    Args:
        instants: Milliseconds, shape (retries, jobs).
        title: What readers that cannot see it are told.
        end_ms: Where the time axis ends.
        most: Calls at the top of the lower axis.
    """
    jobs = instants.shape[1]
    time, width_ms = Scale(0, end_ms), bin_ms(end_ms)
    rows = Frame(6, 128, time, Scale(0, jobs))
    load = Frame(150, 52, time, Scale(0, most))
    ticks = duration_ticks(time, 6)
    parts = [rows.y_tick(jobs - 0.5, "1"), rows.y_tick(0.5, str(jobs))]
    parts += [_label("job", 2, rows.top + rows.height / 2 + 4, "start", "name")]
    for retry, row in enumerate(instants, start=1):
        x = rows.left + row / end_ms * rows.width
        y = rows.top + (np.arange(jobs) + 0.5) / jobs * rows.height
        parts.append(tag("path", d=dots(x, y), class_=f"dot r{retry}"))
    counts = calls(instants, end_ms)
    edges = np.minimum(np.arange(len(counts) + 1) * width_ms, end_ms)
    x = load.left + edges / end_ms * load.width
    y = load.bottom - counts / most * load.height
    parts += [load.y_tick(tick, str(tick)) for tick in count_ticks(load.y, 3)]
    parts += [load.x_tick(tick, label) for tick, label in zip(ticks, duration_labels(ticks), strict=True)]
    parts += [tag("path", d=steps(x, y, load.bottom), class_="load"), rows.base(), load.base()]
    note = f"calls per {format_duration(width_ms)}, by time since the failure"
    parts.append(_label(note, load.right, 231, "end", "name"))
    return _picture(236, title, parts)


def load(instants: Millis, yardstick: Yardstick, title: str, most: float) -> Markup:
    """Draw a herd's load in operational time, sixteenths of a gap, against the ideal.

    Args:
        instants: Milliseconds, shape (retries, jobs).
        yardstick: Of the same policy.
        title: What readers that cannot see it are told.
        most: The top of the axis; what is higher is cut off there, and the highest is told.
    """
    first, end = yardstick.first, yardstick.end
    counts = yardstick.counts(yardstick.envelope.gaps(instants))[16]
    ratio: Floats = counts / (yardstick.trend[16] * instants.shape[1])
    frame = Frame(20, 78, Scale(first, end), Scale(0, most))
    x = frame.left + np.arange(len(ratio) + 1) / len(ratio) * frame.width
    y = frame.bottom - np.minimum(ratio, most) / most * frame.height
    parts = [frame.y_tick(tick, str(tick)) for tick in range(int(most) + 1)]
    parts += [frame.x_tick(tick, str(tick)) for tick in range(first, end + 1, 4)]
    parts += [tag("path", d=steps(x, y, frame.bottom), class_="load"), frame.base()]
    ideal = frame.at_y(1)
    parts.append(
        tag("path", d=f"M{number(frame.left)} {number(ideal)}H{number(frame.right)}", class_="ideal")
    )
    highest = float(ratio.max())
    parts.append(_label(f"highest {highest:.3g} × ideal", frame.right, 10, "end", "name"))
    parts.append(_label("load ÷ ideal", 2, 10, "start", "name"))
    parts.append(_label("gaps since the failure", frame.right, 127, "end", "name"))
    return _picture(132, title, parts)


_LABELS: Final[dict[str, tuple[str, float, float]]] = {
    "sidekiq8": ("Sidekiq 8", 60, -26),
    "zizq": ("Zizq", 66, -13),
    "sidekiq": ("Sidekiq", 60, -1),
    "rails": ("Rails", 68, 11),
    "river": ("River", 62, 17),
    "equal": ("equal jitter", 8, -6),
    "buckets": ("buckets", 0, 17),
    "around50": ("±50 %", 8, 3.5),
    "full": ("full jitter", -2, -9),
    "tiles": ("drawn anew in tiles", 2, 17),
    "even_hash": ("even, hashed ids", 6, 16),
    "even_buckets_hash": ("", 0, 0),
    "even_buckets_seq": ("even on buckets' curve", 0, 17),
}
"""Where the names of points stand, away from the point: right, down."""

_FRONT: Final[tuple[tuple[str, str, float, float], ...]] = (
    ("no_jitter", "spread 0", 9, -4),
    ("spread10", "0.1", -8, 10),
    ("spread25", "0.25", -8, 10),
    ("spread48", "0.48", -8, 10),
    ("spread75", "0.75", -8, 8),
    ("spread90", "0.9", -8, 8),
    ("even_seq", "even, spread 1", 9, 4),
)
_BELOW: Final = {"even_hash", "even_buckets_hash", "even_buckets_seq"}


def front(report: Report) -> Markup:
    """Draw what every scheme pays in deviation against what it gets in evenness."""
    frame = Frame(14, 330, Scale(0, 62), Scale(0.0055, 6, log=True), left=40, width=424)
    floor = frame.at_y(float(np.sqrt(16 / 1000)))
    parts = [frame.x_tick(tick, f"{tick} %") for tick in range(0, 61, 10)]
    parts += [frame.y_tick(tick, f"{tick:g}") for tick in (0.01, 0.03, 0.1, 0.3, 1, 3)]
    parts += [
        frame.base(),
        tag("path", d=f"M{number(frame.left)} {number(floor)}H{number(frame.right)}", class_="ideal"),
        _label("chance alone (Poisson)", frame.at_x(34), floor - 6, "end", "name"),
        _label("cv16: unevenness of the load", 2, 10, "start", "name"),
        _label("rsd: how far a wait strays from its mean", frame.right, frame.bottom + 28, "end", "name"),
    ]
    line = []
    for key, text, right, down in _FRONT:
        x, y = _place(report, "front", key, frame)
        line.append(f"{number(x)} {number(y)}")
        parts.append(_label(text, x + right, y + down, "end" if right < 0 else "start", "ours"))
    parts.append(tag("path", d="M" + "L".join(line), class_="front"))
    parts.append(tag("path", d="".join(f"M{point}h0" for point in line), class_="point ours"))
    for key, (text, right, down) in _LABELS.items():
        x, y = _place(report, "polynomial", key, frame)
        if right > 20:
            # Crowded points: a thin line leads to the name.
            parts.append(
                tag(
                    "path",
                    d=f"M{number(x)} {number(y)}L{number(x + right - 3)} {number(y + down)}",
                    class_="lead",
                )
            )
        ours = key in _BELOW
        parts.append(tag("path", d=dots([x], [y]), class_="point ours" if ours else "point theirs"))
        anchor = "start" if right > 0 else "end" if right < -3 else "middle"
        parts.append(
            _label(text, x + right, y + down + (3.5 if right > 20 else 0), anchor, "ours" if ours else None)
        )
    title = "Spread of even against deviation and unevenness, with the known functions above its line"
    return _picture(378, title, parts, width=472)


def _place(report: Report, table: str, key: str, frame: Frame) -> tuple[float, float]:
    return frame.at_x(report.figure(table, key, "rsd")), frame.at_y(report.figure(table, key, "cv16"))
