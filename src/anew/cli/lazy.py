"""A group of commands whose modules are imported only when they are wanted: ``--help`` need not load a server."""

from __future__ import annotations

import importlib
from typing import Any

import click


class LazyGroup(click.Group):
    """Finds its commands in a table.

    Args:
        table: Command -> the module that holds the function of that name, and a line for the overview. A command
            whose name is a Python word or has a hyphen is the function ``module:name`` says.
    """

    def __init__(self, *args: Any, table: dict[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names in the order of the overview."""
        return [*self.table]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and give one command."""
        if cmd_name not in self.table:
            return None
        module, _, name = self.table[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), name or cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for a word that is none, tell which one may have been meant."""
        if args[0] not in self.table and not args[0].startswith("-"):
            raise click.UsageError(f"{args[0]!r} is no command; {self._closest(args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview from the table, so that nothing is imported for it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.table.items()])

    def _closest(self, word: str) -> str:
        import difflib  # only where somebody has mistyped

        close = difflib.get_close_matches(word, self.table, n=1, cutoff=0.5)
        return f"did you mean {close[0]!r}?" if close else f"expected one of: {', '.join(self.table)}"
