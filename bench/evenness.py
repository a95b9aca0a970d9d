"""`python -m bench.evenness`: measures the figures of docs/evenness.md again, and says of each how far it is off. Needs NumPy.

How far apart two figures may lie by chance: both are means over repeats, both were taken with a yardstick that is
itself a sample, and the published one was rounded. With s for the standard deviation over our repeats, R repeats, N
jobs a herd and n in the sample, each side has the variance ``s² (1/R + N/n)``, and rounding to steps of u adds
``u²/12``. A difference is told in units of the root of their sum. Among five hundred figures chance alone puts
one or two beyond 3, and in some runs one beyond 4, because s is itself an estimate and peaks have long tails: above
4 a figure counts as not reproduced, and another seed tells whether that was chance.
"""

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from anew.lab.vector import Millis
from anew.units import MINUTE_MS, SECOND_MS
from bench.measure import Yardstick, deviations, empty_share, longest_silence_ms, measure, worst_bin
from bench.report import machine, markdown
from bench.schemes import CHART, DOUBLED, GROWING, Scheme

PUBLISHED: Final = Path(__file__).parents[1] / "docs" / "evenness.md"

LIMIT: Final = 4.0
"""A difference of more errors than this is more than chance."""

JOBS: Final = 1_000
CHART_JOBS: Final = 100
REPEATS: Final = 30
CHART_REPEATS: Final = 200
SAMPLE: Final = 200_000
"""Of the published figures: jobs and herds of the tables, and those of the chart's own setting; jobs behind a yardstick."""

_MEAN_SEED: Final = 7
_TREND_SEED: Final = 99

_FIGURES: Final = {
    "rsd, %": ("rsd", 100.0), "max, %": ("max", 100.0), "window rsd, %": ("window_rsd", 100.0),
    "idle16, %": ("idle16", 100.0), "empty hours, %": ("empty_hours", 100.0), "KS": ("ks", 1.0),
    "worst second, %": ("worst_second", 100.0), "horizon, s": ("horizon_ms", 0.001), "peak, 10 s": ("peak_10s", 1.0),
    "peak, 60 s": ("peak_60s", 1.0), "empty minutes, %": ("empty_minutes", 100.0), "silence, s": ("silence_ms", 0.001),
    "shrink, %": ("shrink", 100.0),
}  # fmt: skip
"""Heading -> the figure that stands below it, and from that to the number that is printed; other headings are figures."""


class Effort(msgspec.Struct, frozen=True):
    """How much is drawn.

    Args:
        sample: Jobs in each of the two samples behind a yardstick.
        repeats: Herds of the main tables.
        chart_repeats: Herds of the table in the original chart's setting.
    """

    sample: int
    repeats: int
    chart_repeats: int


FULL: Final = Effort(SAMPLE, REPEATS, CHART_REPEATS)
QUICK: Final = Effort(20_000, REPEATS, 60)


class Figure(msgspec.Struct, frozen=True):
    """A figure over the repeats: its mean and its standard deviation."""

    mean: float
    sd: float


class Cell(msgspec.Struct, frozen=True):
    """One figure of a table, in the table's unit.

    Args:
        table, row, heading: Where it stands.
        published: As printed.
        measured: Ours.
        off: The difference in units of the error of both; see the module.
    """

    table: str
    row: str
    heading: str
    published: str
    measured: float
    off: float

    @property
    def shown(self) -> str:
        """Ours, with as many digits as the published one has, and how far that is off."""
        digits = len(self.published.partition(".")[2])
        return f"{self.measured:.{digits}f} ({self.off:+.1f})"


class Table(msgspec.Struct, frozen=True):
    """A published table: its rows hold figures as printed."""

    title: str
    headings: tuple[str, ...]
    rows: dict[str, tuple[str, ...]]

    @property
    def is_chart(self) -> bool:
        """Whether it has the setting of the original chart: plain seconds over the whole horizon, and fewer jobs."""
        return self.title.startswith("The original chart")

    @property
    def schemes(self) -> dict[str, Scheme]:
        """What its rows are."""
        return CHART if self.is_chart else DOUBLED if self.title.startswith("1, 2, 4") else GROWING


def published() -> list[Table]:
    """Read the tables of the document."""
    section = PUBLISHED.read_text("utf-8").partition("\n## The figures\n")[2].partition("\n## ")[0]
    tables = []
    for part in section.split("\n### ")[1:]:
        title, *lines = part.splitlines()
        cells = [line.strip("|").split("|") for line in lines if line.startswith("|")]
        (_, *headings), _, *rows = [[cell.strip() for cell in line] for line in cells]
        tables.append(Table(title, tuple(headings), {label: tuple(texts) for label, *texts in rows}))
    return tables


def run(
    effort: Effort = FULL, *, seed: int = 1, progress: Callable[[str], None] = lambda label: None
) -> list[Cell]:
    """Draw and measure everything.

    Args:
        effort: How much is drawn.
        seed: Another one gives other herds, and the same result within the errors.
        progress: Called before each scheme with its label.
    """
    known: dict[int, dict[str, Figure]] = {}
    cells = []
    for table in published():
        for row, texts in table.rows.items():
            scheme = table.schemes[row]
            if id(scheme) not in known:
                progress(row)
                measured = chart_figures if table.is_chart else gap_figures
                known[id(scheme)] = measured(scheme, effort, seed)
            for heading, text in zip(table.headings, texts, strict=True):
                cells.append(compare(table, row, heading, text, known[id(scheme)], effort))
    return cells


def gap_figures(scheme: Scheme, effort: Effort, seed: int) -> dict[str, Figure]:
    """Give the figures of `measure` for one scheme, over repeated herds."""
    stick = Yardstick(
        scheme.instants(effort.sample, _MEAN_SEED),
        scheme.instants(effort.sample, _TREND_SEED),
        scheme.window,
    )
    return _figures(
        measure(scheme.instants(JOBS, seed + 1_000 * repeat + JOBS), stick)
        for repeat in range(effort.repeats)
    )


def chart_figures(scheme: Scheme, effort: Effort, seed: int) -> dict[str, Figure]:
    """Give the figures of the original chart's setting for one scheme, over repeated herds."""
    return _figures(
        _chart_figures(scheme.instants(CHART_JOBS, seed + 1_000 * repeat + CHART_JOBS))
        for repeat in range(effort.chart_repeats)
    )


def _chart_figures(instants: Millis) -> dict[str, float]:
    horizon = int(instants.max())
    return deviations(instants) | {
        "horizon_ms": float(horizon),
        "peak_10s": float(worst_bin(instants, 10 * SECOND_MS)),
        "peak_60s": float(worst_bin(instants, MINUTE_MS)),
        "empty_minutes": empty_share(instants, MINUTE_MS, horizon, closed=True),
        "silence_ms": float(longest_silence_ms(instants)),
    }


def _figures(herds: Iterable[dict[str, float]]) -> dict[str, Figure]:
    rows = list(herds)
    figures = {}
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        figures[name] = Figure(float(values.mean()), float(values.std(ddof=1)))
    return figures


def compare(
    table: Table, row: str, heading: str, text: str, figures: dict[str, Figure], effort: Effort
) -> Cell:
    """Hold one figure against the published one."""
    name, factor = _FIGURES.get(heading, (heading, 1.0))
    mean, sd = figures[name].mean * factor, figures[name].sd * factor
    if table.is_chart:  # in plain seconds, which need no yardstick
        ours, theirs = 1 / effort.chart_repeats, 1 / CHART_REPEATS
    else:
        ours, theirs = 1 / effort.repeats + JOBS / effort.sample, 1 / REPEATS + JOBS / SAMPLE
    rounding = step(text) ** 2 / 12
    off = (mean - float(text)) / math.sqrt(sd**2 * (ours + theirs) + rounding)
    return Cell(table.title, row, heading, text, mean, off)


def step(text: str) -> float:
    """Give the step that a printed figure was rounded to: ``5.41`` to 0.01, ``66`` to 1."""
    return float(10.0 ** -len(text.partition(".")[2]))


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.evenness", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer herds: seconds, and wider errors")
    parser.add_argument("--seed", type=int, default=1, help="other herds, the same result within the errors")
    parser.add_argument("--json", action="store_true", help="all figures in JSON")
    given = parser.parse_args(arguments)
    cells = run(
        QUICK if given.quick else FULL, seed=given.seed, progress=lambda label: print(label, file=sys.stderr)
    )
    if given.json:
        print(json.dumps([msgspec.to_builtins(cell) for cell in cells], indent=2))
        return 0
    print(f"{machine(Path.cwd())}\n")
    for table in published():
        rows = [
            [row, *(cell.shown for cell in cells if (cell.table, cell.row) == (table.title, row))]
            for row in table.rows
        ]
        print(f"### {table.title}\n\n{markdown(['', *table.headings], rows)}\n")
    met = sum(abs(cell.off) <= LIMIT for cell in cells)
    print(
        f"{met} of {len(cells)} published figures met: within {LIMIT:g} standard errors, which stand in brackets."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
