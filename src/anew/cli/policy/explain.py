"""``anew policy explain``: what a retry policy will do, before anybody trusts it."""

from __future__ import annotations

import click

from anew.cli.output import show_json, show_table
from anew.cli.values import read_policy


@click.command("explain")
@click.argument("spec", metavar="POLICY")
@click.option(
    "--retries", type=click.IntRange(0, 10_000), metavar="N", help="Show so many. [all, at most 100]"
)
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def explain_policy(spec: str, retries: int | None, as_json: bool) -> None:
    """Show every retry of a policy: its nominal wait, the earliest and the latest.

    POLICY is JSON, the name of a preset (anew policy list), @FILE, or - for stdin. No server is asked.

    \b
    Examples:
      anew policy explain zizq
      anew policy explain '{"preset": "faktory", "limit": 6}'
      anew policy explain '{"base_ms": 15000, "exponent": 4, "jitter_ms": 30000}' --json
      anew policy explain even --retries 10
    """
    from anew.backoff import Policy, explain

    explanation = explain(Policy.from_json(read_policy(spec)), retries)
    if as_json:
        show_json(explanation.to_json())
        return
    heading, *rows = explanation.table()
    show_table([name.upper() for name in heading], rows)
    click.echo(explanation.summary())
