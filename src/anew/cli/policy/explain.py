"""``anew policy explain``: what a retry policy will do, before anybody trusts it."""

from __future__ import annotations

import click

from anew.cli.output import show_json, show_table
from anew.cli.values import read_engine_policy
from anew.errors import InvalidInput
from anew.units import parse_duration_with_unit


@click.command("explain")
@click.argument("spec", metavar="POLICY")
@click.option(
    "--retries", type=click.IntRange(0, 10_000), metavar="N", help="Show so many. [all, at most 100]"
)
@click.option(
    "--outage",
    "outages",
    multiple=True,
    metavar="TIME",
    help="Tell who outlives it, such as 3h; may be repeated.",
)
@click.option("--percentiles", metavar="LIST", help="Which to tell. [5,50,95]")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def explain_policy(
    spec: str, retries: int | None, outages: tuple[str, ...], percentiles: str | None, as_json: bool
) -> None:
    """Show every retry of a policy: its wait, when it comes, and what all retries come to.

    POLICY is JSON, the name of a preset (anew policy list), @FILE, @FILE:NAME, or - for stdin. No server is asked.
    Of a delivery policy (anew policy preview) its retries are explained.

    Means and percentiles of a wait are those of its law; what all waits come to is drawn, with 100,000 jobs.

    \b
    Examples:
      anew policy explain zizq
      anew policy explain '{"preset": "faktory", "limit": 6}' --outage 3h --outage 1d
      anew policy explain '{"base_ms": 15000, "exponent": 4, "jitter_ms": 30000}' --json
      anew policy explain even --retries 10 --percentiles 1,50,99
    """
    from anew.lab.explain import PERCENTS, explain

    told = PERCENTS if percentiles is None else read_percentiles(percentiles)
    explanation = explain(
        read_engine_policy(spec),
        retries,
        percentiles=told,
        outages_ms=[parse_duration_with_unit(outage, "--outage") for outage in outages],
    )
    if as_json:
        show_json(explanation.to_json())
        return
    heading, *rows = explanation.table(None if percentiles is None else explanation.percents)
    if rows:
        show_table([name.upper() for name in heading], rows)
    click.echo(explanation.summary())
    for line in explanation.words():
        click.echo(line)


def read_percentiles(text: str) -> list[float]:
    """Read ``5,50,95``; a % after a number does no harm.

    Raises:
        InvalidInput: There is something else in it.
    """
    percents = []
    for part in text.split(","):
        try:
            percent = float(part.strip().removesuffix("%"))
        except ValueError:
            percent = -1.0
        if not 0 <= percent <= 100:
            raise InvalidInput(
                f"--percentiles: {part.strip()!r} is not valid; expected numbers from 0 to 100 such as 5,50,95",
                field="percentiles",
                value=text,
            )
        percents.append(percent)
    return percents
