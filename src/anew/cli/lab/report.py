"""``anew lab report``: known policies and ``even`` measured, the published figures beside ours, as one page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from anew import __version__
from anew.cli.files import require_writable, write_whole
from anew.cli.output import show_json
from anew.errors import InvalidInput, NotSupported
from anew.units import refused, shown

_DEFAULT: Final = "report.html"


@click.command("report")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"Where the page goes; - is stdout. [{_DEFAULT}; none with --json]",
)
@click.option("--quick", is_flag=True, help="Fewer herds: seconds in place of a minute, and wider errors.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32),
    default=1,
    metavar="N",
    help="Other herds, the same result within the errors. [1]",
)
@click.option("--json", "as_json", is_flag=True, help="Print all figures in JSON.")
def report(output: Path | None, quick: bool, seed: int, as_json: bool) -> None:
    """Measure the best-known policies, and the preset even, and compare every figure with the published one.

    The page stands alone: tables, dot charts of herds, the load on the called side, and what evenness costs.
    Progress goes to stderr. Needs NumPy: pip install 'anew[lab]'.

    \b
    Examples:
      anew lab report
      anew lab report --quick -o spread.html
      anew lab report --quick --json
    """
    if output is None and not as_json:
        output = Path(_DEFAULT)
    if output == Path("-") and as_json:
        raise refused("output", "-", "a file, as --json takes stdout")
    if output not in (None, Path("-")):
        # Known before the work, not after it.
        require_writable(output, "output")
    try:
        from anew.lab.report.run import FULL, QUICK, run
        from anew.lab.report.tables import tally
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        raise NotSupported(
            "the report needs NumPy, which is not installed: pip install 'anew[lab]'"
        ) from error
    result = run(QUICK if quick else FULL, seed=seed, progress=_told)
    counts = tally(result.tables)
    if output is not None:
        from anew.lab.report.page import page

        _write(output, page(result, __version__))
    if as_json:
        show_json({"anew": __version__, "summary": counts, "report": result})
        return
    click.echo(
        f"{output}: {counts['within_4']} of {counts['figures']} published figures met, "
        f"{counts['within_2']} of them within two standard errors",
        err=output == Path("-"),
    )


def _write(path: Path, text: str) -> None:
    if path == Path("-"):
        click.echo(text, nl=False)
        return
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise InvalidInput(
            f"output: {shown(str(path))} cannot be written ({error.strerror}); expected a file that may be",
            field="output",
            value=str(path),
        ) from error


def _told(place: int, places: int, label: str) -> None:
    """Tell what is being drawn: in one line on a terminal, else every tenth."""
    if sys.stderr.isatty():
        line = f"\r\x1b[K[{place}/{places}] {label}" if place < places else "\r\x1b[K"
        click.echo(line, nl=False, err=True)
    elif place % 10 == 1:
        click.echo(f"[{place}/{places}] {label}", err=True)
