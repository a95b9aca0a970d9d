"""``anew lab fit``: from a window, a first wait and a number of retries to a policy."""

from __future__ import annotations

import click
import msgspec

from anew.cli.output import show_json
from anew.cli.patience import patience_option
from anew.units import parse_duration


@click.command("fit")
@click.option("--window", required=True, metavar="TIME", help="From the first failure to the last retry.")
@click.option("--first", required=True, metavar="TIME", help="The first wait.")
@click.option("--retries", required=True, type=int, metavar="N", help="How many retries, 1 to 1000.")
@click.option(
    "--like",
    default="even",
    metavar="FAMILY",
    help="even, sidekiq, faktory, zizq, river, power, exponential, zzz_jobs, linear, between or constant. [even]",
)
@click.option("--cap", metavar="TIME", help="No wait of the curve is longer.")
@patience_option()
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def fit_policy(window: str, first: str, retries: int, like: str, cap: str | None, as_json: bool) -> None:
    """Propose a policy with a stated window, first wait and number of retries.

    The first line is the policy, for a file or another command. Below it stands how it was found: the curve, the
    equation that was solved, what remains off (at most 0.1 %), and what the jitter makes of it. Window and first wait
    are those of the curve, before the jitter.

    \b
    Examples:
      anew lab fit --window 3d --first 10s --retries 12
      anew lab fit --window 3d --first 10s --retries 12 --like sidekiq
      anew lab fit --window 1d --first 1s --retries 40 --like exponential --cap 1h --json
      anew lab fit --window 3d --first 10s --retries 12 | head -n 1 > policy.json
    """
    from anew.lab.fit import fit

    found = fit(
        parse_duration(window, field="--window"),
        parse_duration(first, field="--first"),
        retries,
        like=like,
        cap_ms=None if cap is None else parse_duration(cap, field="--cap"),
    )
    if as_json:
        show_json(found.to_json())
        return
    click.echo(msgspec.json.encode(found.policy.to_json()).decode())
    for line in found.how:
        click.echo(f"  {line}")
