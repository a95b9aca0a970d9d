"""The published figures come out again, each within its statistical error; see `anew.lab.report.run` for the rule."""

from __future__ import annotations

import math

import pytest

from anew.errors import InvalidInput
from anew.lab.report.published import CHART, POLYNOMIAL, RESULT, TABLES, Column, Table
from anew.lab.report.run import (
    LIMIT,
    Cell,
    Effort,
    Figure,
    Report,
    chart_figures,
    compare,
    gap_figures,
    run,
    step,
)
from anew.lab.report.schemes import SCHEMES

SMALL = Effort(2_000, 2, 2)


@pytest.fixture(scope="module")
def report() -> Report:
    return run(Effort(20_000, 16, 60))


def test_every_figure_is_reproduced(report: Report) -> None:
    missed = [(table, scheme, cell) for table, scheme, cell in report.cells() if not abs(cell.off) <= LIMIT]
    assert missed == []


def test_differences_are_those_of_chance(report: Report) -> None:
    offs = [abs(cell.off) for _, _, cell in report.cells()]
    # 68 and 95 per cent if all were normal and independent. Errors that are too wide would show on the other side.
    assert 0.6 < sum(off <= 1 for off in offs) / len(offs) < 0.9
    assert sum(off <= 2 for off in offs) / len(offs) > 0.9
    assert len(offs) == sum(len(table.rows) * len(table.columns) for table in TABLES)


def test_even_keeps_its_promises(report: Report) -> None:
    figure = report.figure
    assert figure("result", "sidekiq", "cv16") / figure("result", "even_seq", "cv16") > 100
    assert figure("result", "buckets", "rsd") / figure("result", "even_buckets_seq", "rsd") == pytest.approx(
        2, rel=0.02
    )
    assert figure("chart", "chart_constant_even", "rsd") == 0


def test_the_same_seed_gives_the_same_figures() -> None:
    scheme = SCHEMES["buckets"]
    assert gap_figures(scheme, SMALL, 5) == gap_figures(scheme, SMALL, 5)
    assert gap_figures(scheme, SMALL, 5) != gap_figures(scheme, SMALL, 6)


def test_constant_waits_in_the_chart_of_old() -> None:
    figures = {name: figure.mean for name, figure in chart_figures(SCHEMES["chart_constant"], SMALL).items()}
    assert figures == pytest.approx(
        {
            "horizon_ms": 1_500_000,
            "peak_10s": 100,
            "peak_60s": 100,
            "empty_minutes": 0.8,
            "silence_ms": 300_000,
            "rsd": 0,
            "max": 0,
            "window_rsd": 0,
            "shrink": 0,
        }
    )


TABLE = Table("t", "", (), {}, jobs=1_000, repeats=30)


def test_a_difference_in_errors_by_hand() -> None:
    # In per cent: s = 0.1, ours 0.01 (1/10 + 1000/100000), theirs 0.01 (1/30 + 1000/200000), rounding 0.01/12.
    cell = compare(Column("rsd", "", "%", ""), "5.4", Figure(0.055, 0.001), TABLE, 10, 100_000)
    ours, theirs, rounding = 0.01 * 0.11, 0.01 * (1 / 30 + 0.005), 0.01 / 12
    assert cell.error == pytest.approx(math.sqrt(ours))
    assert cell.off == pytest.approx(0.1 / math.sqrt(ours + theirs + rounding))
    assert cell.reproduced


def test_a_figure_without_chance_may_differ_by_its_rounding_alone() -> None:
    def off(measured: float) -> Cell:
        return compare(Column("cv4", "", "", ""), "1.732", Figure(measured, 0.0), TABLE, 10, 100_000)

    assert abs(off(math.sqrt(3)).off) < 1
    assert not off(1.735).reproduced


@pytest.mark.parametrize(("text", "size"), [("66", 1), ("5.4", 0.1), (".0500", 0.0001), ("0", 1)])
def test_the_step_of_a_printed_figure(text: str, size: float) -> None:
    assert step(text) == pytest.approx(size)


def test_what_is_printed_twice_agrees() -> None:
    """A slip in typing one table shows in the other. The one true disagreement is in the source: 39 and 38."""
    seen: dict[tuple[str, str], str] = {}
    for table in TABLES:
        for scheme, texts in table.rows.items():
            for column, text in zip(table.columns, texts, strict=True):
                other = seen.setdefault((scheme, column.figure), text)
                if (scheme, column.figure) == ("capped_even_seq", "max"):
                    continue
                coarse = max(step(text), step(other))
                assert abs(float(text) - float(other)) <= coarse / 2 + 1e-9, (scheme, column.figure)


def test_every_row_is_a_scheme_and_every_table_has_its_own() -> None:
    assert {scheme for table in TABLES for scheme in table.rows} <= set(SCHEMES)
    assert len({table.key for table in TABLES}) == len(TABLES)
    assert (len(RESULT.rows), len(POLYNOMIAL.rows), len(CHART.rows)) == (11, 15, 10)


@pytest.mark.parametrize(
    ("effort", "seed", "field"),
    [
        (SMALL, -1, "seed"),
        (SMALL, 2**32 + 1, "seed"),
        (SMALL, 1.5, "seed"),
        (Effort(999, 2, 2), 1, "sample"),
        (Effort(2_000, 1, 2), 1, "repeats"),
        (Effort(2_000, 2, 10**6), 1, "chart_repeats"),
    ],
)
def test_numbers_out_of_bounds_are_refused(effort: Effort, seed: int, field: str) -> None:
    with pytest.raises(
        InvalidInput, match=rf"^{field}: .* is not valid; expected a whole number from \d+ to \d+"
    ) as caught:
        run(effort, seed=seed)
    assert caught.value.field == field
