"""The report's tables: every figure of ours with the published one below it, and how far apart they are."""

from __future__ import annotations

import math

from anew.lab.report.markup import Markup, tag
from anew.lab.report.published import TABLES, Column
from anew.lab.report.run import Cell, Result, Row, step

_COLUMNS = {table.key: table.columns for table in TABLES}


def table(result: Result) -> Markup:
    """Write one table. It scrolls sideways where the page is too narrow."""
    columns = _COLUMNS[result.key]
    head = tag("tr", tag("th", "", scope="col"), [_heading(column) for column in columns])
    body = [_row(row) for row in result.rows]
    inner = tag("table", tag("thead", head), tag("tbody", body))
    return tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=result.title)


def _heading(column: Column) -> Markup:
    unit = {"%": "%", "s": "s", "calls": "calls"}.get(column.unit)
    return tag("th", column.heading, tag("small", unit) if unit else None, scope="col", title=column.note)


def _row(row: Row) -> Markup:
    cells = [_cell(cell) for cell in row.cells]
    return tag("tr", tag("th", row.label, scope="row"), cells, class_="even" if is_even(row.scheme) else None)


def is_even(scheme: str) -> bool:
    """Tell whether a scheme is ``even``, by its key."""
    return (
        "even" in scheme
        or scheme.startswith("spread")
        or scheme in ("chart_sidekiq_hash", "chart_buckets_hash")
    )


def _cell(cell: Cell) -> Markup:
    told = f"published {cell.published}; ours {cell.measured:.6g}, standard error {cell.error:.2g}; {cell.off:+.2f} errors apart"
    kind = None if cell.reproduced else "off"
    return tag(
        "td", measured(cell), tag("small", f"{published(cell)} · {distance(cell)}"), title=told, class_=kind
    )


def measured(cell: Cell) -> str:
    """Write our figure with as many digits as the published one has."""
    digits = round(-math.log10(step(cell.published)))
    return f"{cell.measured:,.{digits}f}"


def published(cell: Cell) -> str:
    """Write the published figure in the same manner: ``.939`` as 0.939."""
    digits = round(-math.log10(step(cell.published)))
    return f"{float(cell.published):,.{digits}f}"


def distance(cell: Cell) -> str:
    """Write how far they are apart, in errors: ``+0.7σ``, ``=`` for nothing at all."""
    return "=" if abs(cell.off) < 0.05 else f"{cell.off:+.1f}σ".replace("-", "−")


def tally(results: tuple[Result, ...]) -> dict[str, int]:
    """Count the figures, and how many of them lie within 1, 2, 3 and 4 errors of the published ones."""
    offs = [abs(cell.off) for result in results for row in result.rows for cell in row.cells]
    return {"figures": len(offs)} | {f"within_{n}": sum(off <= n for off in offs) for n in (1, 2, 3, 4)}
