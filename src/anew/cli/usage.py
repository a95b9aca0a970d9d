"""What is said of a command line that does not fit: click's message, what was expected, and where the help is."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

import click

from anew.units import shown

_LONGEST: Final = 64
"""Characters of a word that are compared with names."""


def explained(error: click.UsageError, root: click.Command, words: Sequence[str]) -> str:
    """Say what is wrong with a command line, and below it where its help is.

    Args:
        error: The refusal.
        root: The command that the whole line belongs to.
        words: The line without the program's name.
    """
    context = error.ctx or _context(root, words)
    parameter = getattr(error, "param", None) or _option(context, getattr(error, "option_name", ""))
    help_of = parameter.get_help_record(context) if parameter else None
    expected = context.get_usage() if help_of is None or not help_of[1] else "  ".join(help_of)
    return f"{error.format_message()}\n  {expected}\n  For help: {context.command_path} --help"


def unknown_command(ctx: click.Context, word: str, names: Sequence[str]) -> click.UsageError:
    """Build the refusal of a command that there is not.

    Args:
        ctx: The group's.
        word: What stands in a command's place.
        names: The commands that there are.
    """
    return click.UsageError(f"{ctx.command_path}: {shown(word)} is no command; {_meant(word, names)}", ctx)


def _context(root: click.Command, words: Sequence[str]) -> click.Context:
    """Find the command that a line is about: not every refusal of click's says it."""
    context = click.Context(root, info_name="anew")
    for word in words:
        command = context.command
        found = command.get_command(context, word) if isinstance(command, click.Group) else None
        if found is None:
            break
        context = click.Context(found, info_name=word, parent=context)
    return context


def _option(context: click.Context, name: str) -> click.Parameter | None:
    return next((each for each in context.command.params if name in each.opts), None)


def _meant(word: str, names: Sequence[str]) -> str:
    """Say which name was probably meant; else which there are."""
    start = word[:_LONGEST].lower()
    close = [name for name in names if len(start) > 1 and name.startswith(start)]
    close += difflib.get_close_matches(start, names, n=1)
    return f'did you mean "{close[0]}"?' if close else f"expected one of: {', '.join(names)}"
