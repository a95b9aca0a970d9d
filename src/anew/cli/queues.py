"""``anew queues``."""

from __future__ import annotations

import click

from anew.cli.output import one_line, show_json, show_table
from anew.cli.remote import Session, remote
from anew.client import Filters

_STATUSES = ("ready", "scheduled", "in_flight", "completed", "dead")


@click.command()
@click.option("--names", is_flag=True, help="Only the names, one a line.")
@remote
def queues(session: Session, names: bool) -> None:
    """Show the queues and how many jobs of each status they hold.

    \b
    Examples:
      anew queues
      anew queues --json
      anew queues --names
    """
    found = session.client.queues()
    if names:
        lines = "\n".join(map(one_line, found))
        show_json({"queues": found}) if session.as_json else click.echo(lines, nl=bool(found))
        return
    counts = {queue: {status: _count(session, queue, status) for status in _STATUSES} for queue in found}
    if session.as_json:
        show_json({"queues": [{"name": queue} | numbers for queue, numbers in counts.items()]})
    elif not found:
        click.echo("No queues: a queue is there as long as any job is in it.")
    else:
        rows = [[queue, *(str(number) for number in numbers.values())] for queue, numbers in counts.items()]
        show_table(["QUEUE", *(status.upper() for status in _STATUSES)], rows)


def _count(session: Session, queue: str, status: str) -> int:
    return session.client.count(Filters(queue=(queue,), status=(status,)))
