"""Groups of commands; those of `LazyGroup` are imported only when they are wanted: ``--help`` need not load a server."""

from __future__ import annotations

import importlib
from typing import Any

import click


class CommandGroup(click.Group):
    """Says of a word that is no command which one may have been meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command.

        Raises:
            click.UsageError: There is none of that name.
        """
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            from anew.cli.usage import unknown_command  # only where somebody has mistyped

            raise unknown_command(ctx, args[0], names)
        return super().resolve_command(ctx, args)


class LazyGroup(CommandGroup):
    """Finds its commands in a table.

    Args:
        table: Command -> the module that holds the function of that name, and a line for the overview. A command
            whose name is a Python word or has a hyphen is the function ``module:name`` says.
        package: The package of modules whose names begin with a dot.
    """

    def __init__(
        self, *args: Any, table: dict[str, tuple[str, str]], package: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.table, self.package = table, package

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names in the order of the overview."""
        return [*self.table]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and give one command."""
        if cmd_name not in self.table:
            return None
        module, _, name = self.table[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module, self.package), name or cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview from the table, so that nothing is imported for it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.table.items()])
