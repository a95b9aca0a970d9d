"""Click's own refusals in the words of ours: the field, the value, what was expected, and where the help is."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import click

from anew.units import refused, shown

_LISTED: Final = 16
"""No more names are listed to whoever gave one that there is not; more are for --help."""

_LONGEST: Final = 64
"""Characters of a word that are compared with names."""

_INVALID: Final = re.compile(r"(?P<value>.+) is not (a valid|in the range|one of) .*", re.DOTALL)
"""The value stands nowhere but in click's sentence; what is text there is quoted as Python quotes it."""

_PATH: Final = re.compile(r"\w+ (?P<value>'.*'|\".*\") (?P<what>(is|does) .*?)\.?", re.DOTALL)
_EXTRA: Final = re.compile(r"Got unexpected extra arguments? \((?P<words>.*)\)", re.DOTALL)


def explained(error: click.UsageError, root: click.Command, words: Sequence[str]) -> str:
    """Say what is wrong with a command line, and below it where its help is.

    Args:
        error: The refusal.
        root: The command that the whole line belongs to.
        words: The line without the program's name.
    """
    context = error.ctx or _context(root, words)
    return f"{_sentence(error, context, words)}\n  For help: {context.command_path} --help"


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


def _sentence(error: click.UsageError, context: click.Context, words: Sequence[str]) -> str:
    match error:
        case click.NoSuchOption():
            return _unknown_option(error, context, words)
        case click.BadOptionUsage():
            return _misused(error, context)
        case click.MissingParameter(param=click.Parameter() as parameter):
            return f"{_field(parameter)}: is missing; expected {_form(parameter, context)}"
        case click.BadParameter(param=click.Parameter() as parameter):
            return _invalid(error.message, parameter)
    extra = _EXTRA.fullmatch(error.message)
    if extra:
        return f"{context.command_path}: {shown(extra['words'])} is more than it takes; expected {_usage(context)}"
    return error.format_message()


def _unknown_option(error: click.NoSuchOption, context: click.Context, words: Sequence[str]) -> str:
    given = error.option_name
    if not given.startswith("--"):
        # Of -retries click names the first letter alone.
        given = next((word for word in words if word.startswith(given)), given)
    names = [
        name
        for parameter in context.command.get_params(context)
        if isinstance(parameter, click.Option)
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("--")
    ]
    return f"{context.command_path}: {shown(given)} is no option; {_meant(given, names)}"


def _misused(error: click.BadOptionUsage, context: click.Context) -> str:
    """Say whether an option needs a value that it did not get, or got one that it has no use for."""
    name = error.option_name
    parameter = next((each for each in context.command.get_params(context) if name in each.opts), None)
    if parameter is None or (isinstance(parameter, click.Option) and parameter.is_flag):
        return f"{name}: takes no value; expected {name} alone"
    return f"{_field(parameter)}: its value is missing; expected {_form(parameter, context)}"


def _invalid(message: str, parameter: click.Parameter) -> str:
    field, kind = _field(parameter), parameter.type
    path = _PATH.fullmatch(message)
    if path:
        return f"{field}: {shown(_value(path['value']))} {path['what']}; expected a {kind.name}"
    found = _INVALID.fullmatch(message)
    expected = _expected(kind)
    if not found or not expected:
        return f"{field}: {message.rstrip('.')}"
    value = _value(found["value"])
    if isinstance(kind, click.Choice):
        expected += _close(str(value), map(str, kind.choices))
    return str(refused(field, value, expected))


def _expected(kind: click.ParamType[Any]) -> str:
    if isinstance(kind, click.Choice):
        return f"one of: {', '.join(map(str, kind.choices))}"
    noun = "a whole number" if kind.name.startswith("integer") else "a number"
    if not kind.name.startswith(("integer", "float")):
        return ""
    low, high = getattr(kind, "min", None), getattr(kind, "max", None)
    if low is not None and high is not None:
        return f"{noun} from {low} to {high}"
    return noun if low is None and high is None else f"{noun}, {_bound(low, high)}"


def _bound(low: float | None, high: float | None) -> str:
    return f"at most {high}" if low is None else f"at least {low}"


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError):
        return text


def _field(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return re.sub(r"[^A-Z]", "", parameter.human_readable_name) or parameter.human_readable_name


def _form(parameter: click.Parameter, context: click.Context) -> str:
    """Write how a parameter is given: an option with its value, an argument in its place."""
    if isinstance(parameter, click.Option):
        return f"{_field(parameter)} {parameter.make_metavar(context)}"
    return _usage(context)


def _usage(context: click.Context) -> str:
    return f"{context.command_path} {' '.join(context.command.collect_usage_pieces(context))}"


def _meant(word: str, names: Sequence[str]) -> str:
    """Say which name was probably meant; else which there are."""
    close = _close(word, names)
    if close:
        return close.removeprefix("; ")
    return (
        f"expected one of: {', '.join(names)}" if len(names) <= _LISTED else "expected one that --help shows"
    )


def _close(word: str, names: Iterable[str]) -> str:
    """Give the name that begins so, or else looks most like it; all options look alike in their dashes."""
    bare = {name.lstrip("-"): name for name in names}
    start = word.lstrip("-")[:_LONGEST].lower()
    found = [name for name in bare if len(start) > 1 and name.startswith(start)]
    found += difflib.get_close_matches(start, bare, n=1)
    return f'; did you mean "{bare[found[0]]}"?' if found else ""
