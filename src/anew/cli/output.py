"""Text for people and JSON for programs."""

from __future__ import annotations

import datetime
import errno
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, TextIO

import click
import msgspec

from anew.units import format_duration_about, format_share

_COLOURS: Final = {
    "ready": "green",
    "in_flight": "cyan",
    "scheduled": "yellow",
    "completed": "green",
    "dead": "red",
    "failed": "yellow",
}


def coloured(stream: Any) -> bool:
    """Report whether a stream is a terminal whose owner has nothing against colour (``NO_COLOR``)."""
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, status: str, *, colour: bool) -> str:
    """Give a text in the colour of a status."""
    return click.style(text, fg=_COLOURS[status]) if colour and status in _COLOURS else text


def show_json(value: Any) -> None:
    """Print one JSON document, indented. `msgspec.Raw` inside is printed as the server sent it."""
    try:
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except UnicodeEncodeError:
        # An argument or the name of a file that is no UTF-8.
        text = encodable(json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False))
    click.echo(text)


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lay out rows in columns.

    Args:
        heading: Names of the columns.
        rows: Cells as plain text.

    Returns:
        Lines, the heading first, no blanks at their ends.
    """
    lines = [[*heading], *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heading))]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    return ["  ".join(cells).rstrip() for cells in padded]


def show_table(
    heading: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    status_column: int | None = None,
    fitted: bool = False,
) -> None:
    """Print a table; the heading dim and one column in the colours of its statuses, on a terminal.

    Args:
        heading, rows: As for `table`.
        status_column: The column with a status.
        fitted: On a terminal, cut the lines that are longer than it is wide.
    """
    lines = table(heading, rows)
    if fitted and sys.stdout.isatty():
        lines = cut(lines, shutil.get_terminal_size().columns)
    colour = coloured(sys.stdout)
    click.echo(click.style(lines[0], dim=True) if colour else lines[0])
    for line, row in zip(lines[1:], rows, strict=True):
        status = "" if status_column is None else row[status_column]
        painted = paint(status, status, colour=colour)
        click.echo(line.replace(f" {status} ", f" {painted} ", 1) if status else line)


def cut(lines: Iterable[str], width: int) -> list[str]:
    """Give lines of at most so many characters; the last one of a line that goes on is an ellipsis."""
    return [line if len(line) <= width else f"{line[: width - 1]}…" for line in lines]


def percent(part: float, whole: float = 1) -> str:
    """Say a part of a whole in per cent, as `anew.units.format_share` does."""
    return format_share(part / whole)


def moment(at: int, now: int, zone: datetime.tzinfo | None = None) -> str:
    """Say when something is, both ways: ``in 4 min 16 s (14:03:22)``, ``3.2 s ago (13:59:03)``.

    Args:
        at: The moment, epoch ms.
        now: Now, epoch ms.
        zone: Time zone of the clock time; None means the machine's own.
    """
    distance = format_duration_about(abs(at - now))
    words = f"in {distance}" if at > now else f"{distance} ago" if at < now else "now"
    return f"{words} ({clock_time(at, now, zone)})"


def clock_time(at: int, now: int, zone: datetime.tzinfo | None = None) -> str:
    """Give the time of day, with the date if it is not today's: ``14:03:22``, ``2026-11-23 14:03:22``."""
    try:
        then = datetime.datetime.fromtimestamp(at // 1000, tz=zone).astimezone(zone)
        today = datetime.datetime.fromtimestamp(now // 1000, tz=zone).astimezone(zone)
    except (OverflowError, OSError, ValueError):
        return "after all calendars"
    return f"{then:%H:%M:%S}" if then.date() == today.date() else f"{then:%Y-%m-%d %H:%M:%S}"


def now_ms() -> int:
    """The wall clock, epoch ms."""
    from anew.clock import SystemClock

    return SystemClock().now()


def encodable(text: str) -> str:
    """Give a text with a mark in place of each half of a character, which UTF-8 cannot hold."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def one_line(text: str) -> str:
    """Give a text without what a terminal would obey: names, payloads and messages may hold anything."""
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


def write_on(stream: TextIO, text: str) -> None:
    """Write what a worker reports, which no error may keep from its work; what a closed terminal does not take goes nowhere."""
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        if error.errno in (errno.EIO, errno.EPIPE):
            # Python writes the rest at its end, and that must not fail.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
