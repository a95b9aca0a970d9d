"""``anew policy sample``: waits drawn by the engine itself, to hold a policy against the library it is named after."""

from __future__ import annotations

import math
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

import click

from anew.cli.output import show_json, show_table
from anew.cli.values import read_engine_policy
from anew.units import format_duration, format_duration_about

if TYPE_CHECKING:
    from anew.lab.chance import PhaseKind

_BINS: Final = 20
_VALUES: Final = 32
_BAR: Final = 40


@click.command("sample")
@click.argument("spec", metavar="POLICY")
@click.option("--retry", type=int, default=1, metavar="K", help="Which retry; the first is 1. [1]")
@click.option("-n", "count", type=int, default=10_000, metavar="N", help="So many jobs. [10000]")
@click.option("--seed", type=int, default=1, metavar="S", help="The same seed gives the same waits. [1]")
@click.option(
    "--phase",
    type=click.Choice(["seq", "hash"]),
    default="seq",
    help="Numbers for life: of jobs that fail one after the other, or independent. [seq]",
)
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON: a list of milliseconds.")
def sample_policy(spec: str, retry: int, count: int, seed: int, phase: PhaseKind, as_json: bool) -> None:
    """Draw the waits of many jobs before one retry, as the engine itself draws them.

    POLICY is JSON, the name of a preset (anew policy list), @FILE, @FILE:NAME, or - for stdin.

    Where a wait depends on the one before, each job walks through all retries up to K. A deadline is left aside. No
    server is asked.

    \b
    Examples:
      anew policy sample sidekiq --retry 3
      anew policy sample aws_decorrelated --retry 10 -n 100000 --seed 7 --json > waits.json
      anew policy sample even --retry 5 --phase hash
    """
    from anew.lab.sample import sample

    waits = sample(read_engine_policy(spec), retry, count, seed=seed, phase=phase)
    if as_json:
        show_json(waits)
        return
    waits.sort()
    shares = [waits[math.ceil(len(waits) * percent / 100) - 1] for percent in (5, 50, 95)]
    cells = [
        format_duration(waits[0]),
        *map(format_duration_about, shares),
        format_duration_about(sum(waits) / len(waits)),
    ]
    show_table(
        ("WAITS", "LEAST", "5 %", "50 %", "95 %", "MEAN", "MOST"),
        [(f"{len(waits)}", *cells, format_duration(waits[-1]))],
    )
    for line in histogram(waits):
        click.echo(line)


def histogram(waits: list[int]) -> list[str]:
    """Give a line for each value, or where there are many for each of twenty equal stretches: start, bar, count.

    Args:
        waits: In order, at least one.
    """
    low, high = waits[0], waits[-1]
    if len(set(waits)) <= _VALUES:
        counted = sorted(Counter(waits).items())
        starts = [format_duration(value) for value, _ in counted]
    else:
        width = math.ceil((high - low + 1) / _BINS)
        bins = Counter((wait - low) // width for wait in waits)
        counted = [(index, bins[index]) for index in range((high - low) // width + 1)]
        starts = [format_duration_about(low + index * width) for index, _ in counted]
    block = "█" if (sys.stdout.encoding or "").lower().startswith("utf") else "#"
    most = max(count for _, count in counted)
    column = max(map(len, starts))
    return [
        f"{start:>{column}}  {block * math.ceil(_BAR * count / most):<{_BAR}}  {count}"
        for start, (_, count) in zip(starts, counted, strict=True)
    ]
