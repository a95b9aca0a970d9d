"""``anew lab fit``: from a window or an outage, and a first wait, to a policy."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from anew.cli.output import show_json
from anew.units import parse_duration_with_unit, parse_share, refused


@click.command("fit")
@click.option("--window", metavar="TIME", help="From the first failure to the last retry, without jitter.")
@click.option("--outlive", metavar="TIME", help="In place of it: an outage that jobs shall outlive.")
@click.option("--share", metavar="PERCENT", help="How many of them shall, such as 99%. [all]")
@click.option("--first", default="10s", metavar="TIME", help="The first wait. [10s]")
@click.option("--retries", type=int, metavar="N", help="How many retries, 1 to 1000. [as few as will do]")
@click.option(
    "--like",
    default="even",
    metavar="FAMILY",
    help="even, sidekiq, faktory, zizq, river, power, exponential, zzz_jobs, linear, between or constant. [even]",
)
@click.option(
    "--jitter", metavar="JITTER", help="In place of the family's own: a name such as full, or JSON."
)
@click.option("--cap", metavar="TIME", help="No wait of the curve is longer.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def fit_policy(
    window: str | None,
    outlive: str | None,
    share: str | None,
    first: str,
    retries: int | None,
    like: str,
    jitter: str | None,
    cap: str | None,
    as_json: bool,
) -> None:
    """Propose a policy with a stated window, first wait and number of retries.

    The first line is the policy, for a file or another command. Below it stands how it was found: the curve, the
    equation that was solved, what remains off (at most 0.1 %), what the jitter makes of it, and whether jobs would die
    in an outage as long as the window. Window and first wait are those of the curve, before the jitter.

    A jitter brings some jobs' last retry before the window's end. With --outlive every job's last retry comes at the
    end of such an outage or after it, or that of so many as --share says: a jitter that can wait for nothing, such as
    full, can promise no more. Without --retries there are as few as keep every wait within a quarter of the
    window, and within four times the one before.

    \b
    Examples:
      anew lab fit --outlive 3d
      anew lab fit --window 3d --first 10s --retries 12
      anew lab fit --window 3d --first 10s --retries 12 --like sidekiq
      anew lab fit --window 1d --first 1s --retries 40 --like exponential --cap 1h --json
      anew lab fit --outlive 3h --share 99% --first 1s --like exponential --jitter full --cap 10m
      anew lab fit --outlive 3d | head -n 1 > policy.json
    """
    from anew.lab.fit import fit

    if (window is None) is (outlive is None):
        given = "neither is" if window is None else "both are"
        raise click.UsageError(f"--window and --outlive: {given} given; expected one of the two")
    found = fit(
        None if window is None else parse_duration_with_unit(window, "--window"),
        parse_duration_with_unit(first, "--first"),
        retries,
        like=like,
        cap_ms=None if cap is None else parse_duration_with_unit(cap, "--cap"),
        outlive_ms=None if outlive is None else parse_duration_with_unit(outlive, "--outlive"),
        share=1.0 if share is None else _read_share(share),
        jitter=None if jitter is None else _read_jitter(jitter),
    )
    if as_json:
        show_json(found.to_json())
        return
    click.echo(msgspec.json.encode(found.policy.to_json()).decode())
    for line in found.how:
        click.echo(f"  {line}")


def _read_share(text: str) -> float:
    share = parse_share(text)
    if not share:
        raise refused("--share", text, "a share above 0 and at most all, such as 99% or 0.99")
    return share


def _read_jitter(text: str) -> Any:
    """Read a jitter's name, or its JSON form."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise refused(
            "--jitter", text, f'a name such as full, or JSON such as {{"around": 0.2}}: {error}'
        ) from None
