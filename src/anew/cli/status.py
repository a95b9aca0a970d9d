"""``anew health`` and ``anew queues``: how a server is, and what its queues hold."""

from __future__ import annotations

import dataclasses

import click

from anew.cli.exit_codes import FAILURE
from anew.cli.output import one_line, show_json, show_table
from anew.cli.remote import ClientSession, remote


@click.command()
@remote
def health(session: ClientSession) -> int:
    """Ask whether the server answers.

    Exit code 0 if it is well, 1 if it says that it is not, 3 if no server answered.

    \b
    Examples:
      anew health
      anew health --json
      anew health --url https://queue.example.org --ca ca.pem
    """
    answer = session.client.health()
    if session.as_json:
        show_json(answer)
    else:
        status = str(answer.get("status", "unknown"))
        facts = [f"{name} {value}" for name, value in answer.items() if name != "status"]
        click.echo(one_line("  ".join((status, session.client.url, *facts))))
    return 0 if answer.get("status") == "ok" else FAILURE


@click.command()
@click.option("--names", is_flag=True, help="Only the names, one a line.")
@remote
def queues(session: ClientSession, names: bool) -> None:
    """Show the queues and how many jobs of each status they hold.

    \b
    Examples:
      anew queues
      anew queues --json
      anew queues --names
    """
    if names:
        found = session.client.queues()
        lines = "\n".join(map(one_line, found))
        show_json({"queues": found}) if session.as_json else click.echo(lines, nl=bool(found))
        return
    counts = [dataclasses.asdict(queue) for queue in session.client.queue_counts()]
    if session.as_json:
        show_json({"queues": counts})
    elif not counts:
        click.echo("No queues: a queue is there as long as any job is in it.")
    else:
        statuses = [name for name in counts[0] if name != "name"]
        rows = [[queue["name"], *(str(queue[status]) for status in statuses)] for queue in counts]
        show_table(["QUEUE", *(status.upper() for status in statuses)], rows)
