"""``anew config``."""

from __future__ import annotations

from typing import Any

import click

from anew.cli.lazy import CommandGroup
from anew.cli.output import show_json, show_table
from anew.cli.settings import SettingsCommand, load, setting_options


@click.group(cls=CommandGroup)
def config() -> None:
    """Show the settings and where they come from."""


@config.command("show", cls=SettingsCommand)
@click.option("--origin", is_flag=True, help="Also where each comes from.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
@setting_options
def show_config(origin: bool, as_json: bool, **options: Any) -> None:
    """Show what all settings come to; secrets as ***.

    Takes the options of anew serve, and shows what they would do. No server is asked. A terminal gets lines that fit it;
    --json and a pipe give all of a value.

    \b
    Examples:
      anew config show
      anew config show --origin
      anew config show --config /etc/anew.toml --json
    """
    loaded = load(options)
    for key in loaded.passed_over:
        click.echo(f"Warning: {key} is not known and has no effect", err=True)
    rows = loaded.shown()
    if as_json:
        show_json(
            {key: {"value": value, "origin": source} if origin else value for key, value, source in rows}
        )
    elif origin:
        show_table(("SETTING", "VALUE", "ORIGIN"), rows, fitted=True)
    else:
        show_table(("SETTING", "VALUE"), [row[:2] for row in rows], fitted=True)
