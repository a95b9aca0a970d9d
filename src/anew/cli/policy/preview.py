"""``anew policy preview``: the attempts that a delivery policy makes."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import click

from anew.cli.output import show_json, show_table
from anew.cli.values import read_document
from anew.units import counted, format_duration, format_range, format_share

if TYPE_CHECKING:
    from anew.topics.delivery_policy import Preview


@click.command("preview")
@click.argument("given", metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON: delays and their total in seconds.")
def preview_policy(given: str, as_json: bool) -> None:
    """Show the attempts that a delivery policy makes: each delay, phase by phase, and what they come to.

    FILE has the policy as JSON; - is stdin, and JSON itself may stand there too. No server is asked. Without a retry
    block the preset "standard" holds.

    Delays are those before jitter; they begin when an attempt has failed, and here attempts take no time.

    \b
    Examples:
      anew policy preview policy.json
      anew policy preview '{"retry": {"preset": "standard"}}'
      anew policy preview '{"retry": {"backoff_retries": 5, "max_delay": 600, "function": "linear"}}' --json
    """
    from anew.topics.delivery_policy import preview

    shown = preview(read_document(given))
    if as_json:
        show_json(shown.to_json())
        return
    if shown.phases:
        show_table(("PHASE", "RETRIES", "SUM", "LAST AFTER", "DELAYS IN SECONDS"), _rows(shown))
    for line in _summary(shown):
        click.echo(line)


def _rows(shown: Preview) -> list[tuple[str, str, str, str, str]]:
    rows = []
    retries = elapsed = 0
    for name, delays in shown.phases:
        first, retries, elapsed = retries + 1, retries + len(delays), elapsed + sum(delays)
        numbers = f"{first}" if first == retries else f"{first}-{retries}"
        rows.append(
            (name, numbers, format_duration(sum(delays)), format_duration(elapsed), _in_short(delays))
        )
    return rows


def _in_short(delays: list[int]) -> str:
    """Write delays in seconds, equal ones in a row once: ``3 x 0, 5, 5.499``."""
    from anew.topics.delivery_policy import seconds

    runs = [(seconds(delay), len([*run])) for delay, run in groupby(delays)]
    return ", ".join(f"{delay}" if times == 1 else f"{times} x {delay}" for delay, times in runs)


def _summary(shown: Preview) -> list[str]:
    answer, share, total_ms = shown.to_json(), shown.retry.jitter, sum(shown.retry.delays_ms)
    attempts = counted(answer["attempts"], "attempt")
    if not total_ms:
        return [f"{attempts}, {'all at once' if shown.phases else 'no retry'}."]
    if shown.retry.policy is not None:
        return [
            f"{attempts}; without its jitter the delays come to {answer['total']} s.",
            "anew policy explain shows what its jitter makes of them.",
        ]
    # As the engine draws them: each in [(1 - share) d, (1 + share) d), and all may be short or all long.
    span = format_range(int(total_ms * (1 - share)), int(total_ms * (1 + share)))
    jitter = f"jitter of {format_share(share)} either way" if share else "no jitter"
    return [
        f"{attempts}; the delays come to {answer['total']} s.",
        f"The last attempt starts {span} after the first ({jitter}).",
    ]
