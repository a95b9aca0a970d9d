"""``anew policy``: what a retry or delivery policy will do, before anybody trusts it. One subject a file."""

from __future__ import annotations

from typing import Final

import click

from anew.cli.lazy import LazyGroup

_COMMANDS: Final = {
    "convert": (".convert:convert_policy", "Put a delivery policy of SNS or Zaqar into Anew's form."),
    "explain": (".explain:explain_policy", "Show every retry of a policy, and what they come to."),
    "lint": (".lint:lint_policies", "Look for what a policy does that nobody may have meant."),
    "list": (".presets:list_policies", "List the presets: policies that have a name."),
    "preview": (".preview:preview_policy", "Show the attempts that a delivery policy makes."),
    "sample": (".sample:sample_policy", "Draw waits of one retry, as the engine draws them."),
    "show": (".presets:show_policy", "Show a preset: its law, source, traps and first retries."),
}
"""Subcommands: see `LazyGroup`."""


@click.group(cls=LazyGroup, table=_COMMANDS, package=__name__)
def policy() -> None:
    """See what a retry policy will do."""
