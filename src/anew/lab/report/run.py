"""Runs the report's herds and holds their figures against the published ones. Needs NumPy.

How far apart two figures may lie by chance: both are means over repeats, both were taken with a yardstick that is
itself a sample, and the published one was rounded. With s for the standard deviation over our repeats, R repeats, N
jobs a herd and n in the sample, each side has the variance ``s² (1/R + N/n)``, and rounding to steps of u adds
``u²/12``. A difference is told in units of the root of their sum. Among five hundred figures chance alone puts
one or two beyond 3, and in some reports one beyond 4, because s is itself an estimate and peaks have long tails: above
4 a figure counts as not reproduced, and another seed tells whether that was chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np

from anew.lab.envelope import Millis
from anew.lab.measure import Yardstick, deviations, empty_share, longest_silence_ms, measure, worst_bin
from anew.lab.report.published import SAMPLE, TABLES, Column, Table
from anew.lab.report.schemes import SCHEMES, Scheme
from anew.units import MINUTE_MS, SECOND_MS, refused

SEED: Final = 1
"""Repeat r of herds of N jobs has the seed ``SEED + 1000 r + N``."""

JOBS: Final = 1_000
CHART_JOBS: Final = 100

LIMIT: Final = 4.0
"""A difference of more errors than this is more than chance."""

_ENVELOPE_SEED: Final = 7
_TREND_SEED: Final = 99

Progress = Callable[[int, int, str], None]


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


FULL: Final = Effort(SAMPLE, 30, 200)
QUICK: Final = Effort(20_000, 30, 60)


class Figure(msgspec.Struct, frozen=True):
    """One figure over the repeats.

    Args:
        mean: Its mean.
        sd: Its standard deviation over the repeats; 0 where there is one repeat.
    """

    mean: float
    sd: float


class Cell(msgspec.Struct, frozen=True):
    """One figure of a table, in the table's unit.

    Args:
        figure: Which.
        published: As printed.
        measured: Ours.
        error: Standard error of ours, from the repeats and the sample of the yardstick.
        off: The difference in units of the error of both; see the module.
    """

    figure: str
    published: str
    measured: float
    error: float
    off: float

    @property
    def reproduced(self) -> bool:
        """Whether chance explains the difference."""
        return abs(self.off) <= LIMIT


class Row(msgspec.Struct, frozen=True):
    """One scheme in a table."""

    scheme: str
    label: str
    cells: tuple[Cell, ...]


class Result(msgspec.Struct, frozen=True):
    """One table, published and measured."""

    key: str
    title: str
    jobs: int
    repeats: int
    rows: tuple[Row, ...]


class Report(msgspec.Struct, frozen=True):
    """All that was measured.

    Args:
        seed: The seed.
        effort: How much was drawn.
        tables: The tables.
        schemes: Every scheme that was drawn, policies in their JSON form.
    """

    seed: int
    effort: Effort
    tables: tuple[Result, ...]
    schemes: tuple[Scheme, ...]

    def cells(self) -> list[tuple[str, str, Cell]]:
        """Give every cell with the keys of its table and its row."""
        return [
            (table.key, row.scheme, cell) for table in self.tables for row in table.rows for cell in row.cells
        ]

    def figure(self, table: str, scheme: str, figure: str) -> float:
        """Give one measured figure, in its table's unit."""
        return next(
            cell.measured
            for key, row, cell in self.cells()
            if (key, row, cell.figure) == (table, scheme, figure)
        )


def run(effort: Effort = FULL, *, seed: int = SEED, progress: Progress | None = None) -> Report:
    """Draw and measure everything.

    Args:
        effort: How much is drawn.
        seed: Any whole number from 0 to 2**32; another one gives other herds, and the same result within the errors.
        progress: Called before each scheme with its number, how many there are, and its label.

    Raises:
        InvalidInput: A number is out of bounds.
    """
    _check(effort, seed)
    keys = list(dict.fromkeys(key for table in TABLES for key in table.rows))
    raw = {key for table in TABLES if table.raw for key in table.rows}
    figures: dict[str, dict[str, Figure]] = {}
    for place, key in enumerate(keys):
        scheme = SCHEMES[key]
        if progress is not None:
            progress(place + 1, len(keys), scheme.label)
        figures[key] = (
            chart_figures(scheme, effort, seed) if key in raw else gap_figures(scheme, effort, seed)
        )
    tables = tuple(_result(table, figures, effort) for table in TABLES)
    return Report(seed, effort, tables, tuple(SCHEMES[key] for key in keys))


def gap_figures(scheme: Scheme, effort: Effort, seed: int = SEED, jobs: int = JOBS) -> dict[str, Figure]:
    """Give the figures of `anew.lab.measure.Measures` for one scheme, over repeated herds."""
    stick = yardstick(scheme, effort.sample)
    return _figures(
        measure(scheme.instants(jobs, _herd_seed(seed, repeat, jobs)), stick).flat()
        for repeat in range(effort.repeats)
    )


def yardstick(scheme: Scheme, sample: int) -> Yardstick:
    """Build a scheme's yardstick from two samples of so many jobs."""
    return Yardstick.of(
        scheme.blocks(sample, _ENVELOPE_SEED), scheme.blocks(sample, _TREND_SEED), scheme.window
    )


def chart_figures(
    scheme: Scheme, effort: Effort, seed: int = SEED, jobs: int = CHART_JOBS
) -> dict[str, Figure]:
    """Give the figures of the original chart's setting for one scheme, over repeated herds.

    ``horizon_ms``, ``peak_10s`` and ``peak_60s`` (calls), ``empty_minutes`` (share), ``silence_ms``, and those of
    `anew.lab.measure.deviations`.
    """
    return _figures(
        _chart_figures(scheme.instants(jobs, _herd_seed(seed, repeat, jobs)))
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


def _herd_seed(seed: int, repeat: int, jobs: int) -> int:
    return seed + 1_000 * repeat + jobs


def _figures(herds: Any) -> dict[str, Figure]:
    rows = list(herds)
    figures = {}
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        sd = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        figures[name] = Figure(float(values.mean()), sd)
    return figures


def _result(table: Table, figures: dict[str, dict[str, Figure]], effort: Effort) -> Result:
    repeats = effort.chart_repeats if table.raw else effort.repeats
    rows = []
    for key, texts in table.rows.items():
        cells = [
            compare(column, text, figures[key][column.figure], table, repeats, effort.sample)
            for column, text in zip(table.columns, texts, strict=True)
        ]
        rows.append(Row(key, _label(SCHEMES[key], table), tuple(cells)))
    return Result(table.key, table.title, table.jobs, repeats, tuple(rows))


def _label(scheme: Scheme, table: Table) -> str:
    """Name the curve too where a table has more than one."""
    mixed = len({SCHEMES[key].curve for key in table.rows}) > 1
    return f"{scheme.curve}: {scheme.label}" if mixed and scheme.curve else scheme.label


def compare(column: Column, text: str, figure: Figure, table: Table, repeats: int, sample: int) -> Cell:
    """Hold one figure against the published one.

    Args:
        column: Which figure, and its unit.
        text: As printed.
        figure: Ours.
        table: Where it was printed.
        repeats: How many herds ours is the mean of.
        sample: Jobs in each sample behind our yardstick.
    """
    measured, sd = figure.mean * column.factor, figure.sd * column.factor
    # Figures in plain seconds need no yardstick.
    ours = sd * math.sqrt(1 / repeats + (0 if table.raw else table.jobs / sample))
    theirs = sd * math.sqrt(1 / table.repeats + (0 if table.raw else table.jobs / SAMPLE))
    rounding = step(text) / math.sqrt(12)
    off = (measured - float(text)) / math.sqrt(ours**2 + theirs**2 + rounding**2)
    return Cell(column.figure, text, measured, ours, off)


def step(text: str) -> float:
    """Give the step that a printed figure was rounded to: ``5.41`` to 0.01, ``66`` to 1."""
    return float(10.0 ** -len(text.partition(".")[2]))


def _check(effort: Effort, seed: int) -> None:
    for name, value, low, high in (
        ("seed", seed, 0, 2**32),
        ("sample", effort.sample, 1_000, 10_000_000),
        ("repeats", effort.repeats, 2, 10_000),
        ("chart_repeats", effort.chart_repeats, 2, 100_000),
    ):
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise refused(name, value, f"a whole number from {low} to {high}")
