"""``anew policy list``: the policies that have a name."""

from __future__ import annotations

import click

from anew.cli.output import show_json, show_table


@click.command("list")
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
