"""``anew policy``: what a retry policy will do, before anybody trusts it. One subject a file."""

from __future__ import annotations

from typing import Final

import click

from anew.cli.lazy import LazyGroup

_COMMANDS: Final = {
    "explain": ("anew.cli.policy.explain:explain_policy", "Show every retry of a policy."),
    "list": ("anew.cli.policy.presets:list_policies", "List the presets: policies that have a name."),
}
"""Subcommands: see `LazyGroup`."""


@click.group(cls=LazyGroup, table=_COMMANDS)
def policy() -> None:
    """See what a retry policy will do."""
