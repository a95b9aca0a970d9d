"""``anew policy``: what a retry policy will do, before anybody trusts it."""

from __future__ import annotations

import click

from anew.cli.output import show_json, show_table
from anew.cli.values import read_policy


@click.group()
def policy() -> None:
    """See what a retry policy will do."""


@policy.command("explain", short_help="Show every retry of a policy.")
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


@policy.command("list")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def list_policies(as_json: bool) -> None:
    """List the presets: policies that have a name.

    \b
    Examples:
      anew policy list
      anew policy list --json
    """
    from anew.backoff import PRESETS

    if as_json:
        show_json(
            {
                "presets": [
                    {
                        "name": item.name,
                        "aliases": item.aliases,
                        "summary": item.summary,
                        "parameters": [*item.parameters],
                    }
                    for item in PRESETS.values()
                ]
            }
        )
        return
    rows = [(item.name, ", ".join(item.parameters) or "-", item.summary) for item in PRESETS.values()]
    show_table(("PRESET", "PARAMETERS", "WHAT IT IS"), rows)
