"""``anew queues``: what the queues of a server hold, and what keeps them from handing it out; pause and resume them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import click

from anew.cli.lazy import CommandGroup
from anew.cli.output import one_line, show_json, show_table
from anew.cli.remote import ClientSession, remote
from anew.client import LimitView, QueueCounts
from anew.units import format_duration

_STATUSES = ("ready", "scheduled", "in_flight", "completed", "dead")


class _ListingGroup(CommandGroup):
    """Lists where no command is named: ``anew queues --json`` is ``anew queues list --json``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command in front that is left out."""
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ListingGroup)
def queues() -> None:
    """Show the queues and what is in them; pause and resume them.

    Without a command: list.

    \b
    Examples:
      anew queues
      anew queues pause mail
    """


@queues.command("list", short_help="Show the queues and what is in them.")
@click.option("--names", is_flag=True, help="Only the names of those that hold jobs, one a line.")
@remote
def list_queues(session: ClientSession, names: bool) -> None:
    """Show the queues, how many jobs of each status they hold, and whether they are paused or limited.

    \b
    Examples:
      anew queues
      anew queues list --json
      anew queues list --names
    """
    if names:
        found = session.client.queues()
        lines = "\n".join(map(one_line, found))
        show_json({"queues": found}) if session.as_json else click.echo(lines, nl=bool(found))
        return
    counts = session.client.queue_counts()
    if session.as_json:
        show_json({"queues": [dataclasses.asdict(queue) for queue in counts]})
    elif not counts:
        click.echo("No queues: a queue is there as long as any job is in it.")
    else:
        _show(counts)


@queues.command("pause", short_help="Have queues hand out nothing.")
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...")
@remote
def pause_queues(session: ClientSession, names: tuple[str, ...]) -> None:
    """Have queues hand out nothing, to any worker, until they are resumed. What runs goes on.

    New jobs are still stored. A queue may be paused before it has any job; a restart of the server changes nothing.

    \b
    Examples:
      anew queues pause mail
      anew queues pause mail web --json
    """
    for name in names:
        session.client.pause(name)
        if not session.as_json:
            click.echo(one_line(f"{name} is paused"))
    if session.as_json:
        show_json({"paused": names})


@queues.command("resume", short_help="Have paused queues hand out their jobs again.")
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...")
@remote
def resume_queues(session: ClientSession, names: tuple[str, ...]) -> None:
    """Have paused queues hand out their jobs again.

    \b
    Examples:
      anew queues resume mail
      anew queues resume mail web --json
    """
    paused = {queue.name for queue in session.client.queue_counts() if queue.paused}
    for name in names:
        session.client.resume(name)
        if not session.as_json:
            click.echo(one_line(f"{name} is resumed" if name in paused else f"{name} was not paused"))
    if session.as_json:
        show_json({"resumed": [name for name in names if name in paused]})


def _show(counts: Sequence[QueueCounts]) -> None:
    """Print the table; its last column only where a queue is paused or limited."""
    rows = [
        (queue.name, *(str(getattr(queue, status)) for status in _STATUSES), ", ".join(_held(queue)))
        for queue in counts
    ]
    heading = ("QUEUE", *(status.upper() for status in _STATUSES), "LIMITS")
    shown = slice(None) if any(row[-1] for row in rows) else slice(-1)
    show_table(heading[shown], [row[shown] for row in rows])


def _held(queue: QueueCounts) -> Iterator[str]:
    """Say what keeps a queue from handing out its jobs."""
    if queue.paused:
        yield "paused"
    if queue.limit is not None:
        yield from _bounds(queue.limit)


def _bounds(limit: LimitView) -> Iterator[str]:
    if limit.concurrency is not None:
        yield f"{limit.concurrency} at a time"
    if limit.worker is not None:
        yield f"{limit.worker} a worker"
    if limit.rate is not None:
        yield f"{limit.rate.count} starts in {format_duration(limit.rate.per_ms)}"
