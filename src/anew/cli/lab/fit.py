"""``anew lab fit``: from a window or an outage, and a first wait, to a policy."""

from __future__ import annotations

import click
import msgspec

from anew.cli.output import show_json
from anew.cli.patience import patience_option
from anew.cli.values import read_duration


@click.command("fit")
@click.option("--window", metavar="TIME", help="From the first failure to the last retry, without jitter.")
@click.option("--outlive", metavar="TIME", help="In place of it: an outage that every job shall outlive.")
@click.option("--first", required=True, metavar="TIME", help="The first wait.")
@click.option("--retries", type=int, metavar="N", help="How many retries, 1 to 1000. [as few as will do]")
@click.option(
    "--like",
    default="even",
    metavar="FAMILY",
    help="even, sidekiq, faktory, zizq, river, power, exponential, zzz_jobs, linear, between or constant. [even]",
)
@click.option("--cap", metavar="TIME", help="No wait of the curve is longer.")
@patience_option(less="a number of --retries, or a longer first wait")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def fit_policy(
    window: str | None,
    outlive: str | None,
    first: str,
    retries: int | None,
    like: str,
    cap: str | None,
    as_json: bool,
) -> None:
    """Propose a policy with a stated window, first wait and number of retries.

    The first line is the policy, for a file or another command. Below it stands how it was found: the curve, the
    equation that was solved, what remains off (at most 0.1 %), what the jitter makes of it, and whether jobs would die
    in an outage as long as the window. Window and first wait are those of the curve, before the jitter.

    A jitter brings some jobs' last retry before the window's end. With --outlive every job's last retry comes at the
    end of such an outage or after it. Without --retries there are as few as keep every wait within a quarter of the
    window, and within four times the one before.

    \b
    Examples:
      anew lab fit --window 3d --first 10s --retries 12
      anew lab fit --outlive 3d --first 10s
      anew lab fit --window 3d --first 10s --retries 12 --like sidekiq
      anew lab fit --window 1d --first 1s --retries 40 --like exponential --cap 1h --json
      anew lab fit --outlive 3d --first 10s | head -n 1 > policy.json
    """
    from anew.lab.fit import fit

    if (window is None) is (outlive is None):
        given = "neither is" if window is None else "both are"
        raise click.UsageError(f"--window and --outlive: {given} given; expected one of the two")
    found = fit(
        None if window is None else read_duration(window, "--window"),
        read_duration(first, "--first"),
        retries,
        like=like,
        cap_ms=None if cap is None else read_duration(cap, "--cap"),
        outlive_ms=None if outlive is None else read_duration(outlive, "--outlive"),
    )
    if as_json:
        show_json(found.to_json())
        return
    click.echo(msgspec.json.encode(found.policy.to_json()).decode())
    for line in found.how:
        click.echo(f"  {line}")
