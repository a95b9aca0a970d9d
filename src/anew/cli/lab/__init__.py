"""``anew lab``: retry policies under load, and the lab's page in a browser. One command a file."""

from __future__ import annotations

from typing import Final

import click

from anew.cli.lazy import LazyGroup

_COMMANDS: Final[dict[str, tuple[str, str]]] = {}
"""Subcommands: see `LazyGroup`."""


@click.group(cls=LazyGroup, table=_COMMANDS)
def lab() -> None:
    """Simulate, compare, draw and fit retry policies; open the lab in a browser."""
