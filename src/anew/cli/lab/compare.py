"""``anew lab compare``: several policies in one scenario, as a table and a picture."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import click

from anew.cli.lab.picture_file import picture_options, write_picture
from anew.cli.lab.scenario import scenario_options
from anew.cli.lab.simulate import Progress
from anew.cli.output import show_json, show_table
from anew.cli.values import named_policies

if TYPE_CHECKING:
    from pathlib import Path

    from anew.lab.simulation.scenario import Scenario


@click.command("compare")
@click.argument("specs", metavar="POLICY...", nargs=-1, required=True)
@scenario_options
@click.option("--exact", is_flag=True, help="Ask the engine's own decision about every failure; slow.")
@picture_options
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def compare_policies(
    specs: tuple[str, ...],
    scenario: Scenario,
    exact: bool,
    out: Path | None,
    dark: bool | None,
    as_json: bool,
) -> None:
    """Put policies side by side: the same jobs, the same seed, the same trouble.

    POLICY is JSON, the name of a preset (anew policy list), @FILE, @FILE:NAME, or - for stdin; two to six. A peak
    second or minute is any that begins on a tenth of a second; those after the outage count the calls at or after its
    end alone. The last lines of the table measure a herd that fails together and at every retry: a cv16 of 0 is a
    perfectly even load, a pk16 of 1 no peak at all. They need NumPy (pip install 'anew[lab]'), as --out needs
    matplotlib.

    \b
    Examples:
      anew lab compare sidekiq even
      anew lab compare aws_full even --jobs 10000 --outage 2h
      anew lab compare zizq '{"preset": "zizq", "jitter": "even"}' --capacity 50 --timeout 10s --json
      anew lab compare constant exponential sidekiq buckets even --outage 1h --out load.svg
    """
    from anew.cli.lab.chart import style_of
    from anew.lab.chance import has_numpy
    from anew.lab.compare import compare

    _, named = named_policies(specs)
    with contextlib.closing(Progress()) as progress:
        found = compare(named, scenario, exact=exact, progress=progress)
    if out:
        write_picture(found.picture(), out, dark=dark)
    if as_json:
        show_json(found.to_json())
        return
    click.echo(f"{scenario.words()}\n")
    heading, *rows = found.table()
    show_table([name.upper() for name in heading], rows)
    if not has_numpy():
        click.echo("How even each is can be told with NumPy: pip install 'anew[lab]'")
    if not out:
        from anew.lab.charts.terminal import draw

        click.echo()
        click.echo(draw(found.picture(), style_of(sys.stdout, dark=dark)))
