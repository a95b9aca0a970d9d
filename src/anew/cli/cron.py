"""``anew cron``: the cron entries of a server, and when an expression fires."""

from __future__ import annotations

import datetime
import zoneinfo

import click

from anew.cli.lazy import CommandGroup
from anew.cli.output import moment, now_ms, show_json, show_table
from anew.cli.remote import ClientSession, confirm, remote
from anew.errors import NotFound


@click.group(cls=CommandGroup)
def cron() -> None:
    """List and remove the cron entries of a server, and see when an expression fires.

    \b
    Examples:
      anew cron list
      anew cron remove shop.jobs nightly
      anew cron next '30 2 * * 1-5'
    """


@cron.command("list", short_help="List the cron entries of the server.")
@remote
def list_crons(session: ClientSession) -> None:
    """List the cron entries, each with its next fire and its last one.

    Entries stand in anew.toml, under [[fwp.cron]], or in Faktory's own files: the group faktory; SIGHUP makes the server read them
    again. Those of a Python application come from its workers, in a group named as its module.
    A zone of - is the server's own.

    \b
    Examples:
      anew cron list
      anew cron list --json
    """
    entries = session.client.crons()
    if session.as_json:
        show_json({"crons": entries})
        return
    if not entries:
        click.echo(
            "No cron entries: they stand in anew.toml, under [[fwp.cron]], or come from Python applications."
        )
        return
    now = now_ms()
    rows = [
        (
            entry.group,
            entry.name,
            entry.schedule,
            entry.timezone or "-",
            "paused" if entry.paused else "never" if entry.next_at is None else moment(entry.next_at, now),
            "-" if entry.last_fired_at is None else moment(entry.last_fired_at, now),
        )
        for entry in entries
    ]
    show_table(("GROUP", "ENTRY", "SCHEDULE", "ZONE", "NEXT", "LAST"), rows)


@cron.command("remove", short_help="Remove a cron entry, or all of a group.")
@click.argument("group")
@click.argument("name", required=False)
@click.option("--yes", is_flag=True, help="Do not ask before all entries of a group are removed.")
@remote
def remove(session: ClientSession, group: str, name: str | None, yes: bool) -> None:
    """Remove a cron entry, or all entries of a GROUP where no NAME is given. What they have enqueued stays.

    Whoever has an entry puts it back when it starts: a worker whose application has it, a server whose configuration does.

    \b
    Examples:
      anew cron remove shop.jobs nightly
      anew cron remove shop.jobs --yes
      anew cron remove shop.jobs nightly --json
    """
    if name is None:
        confirm(f"Remove all cron entries of the group {group}", yes=yes)
        removed = session.client.clear_crons(group)
        if not removed:
            raise NotFound(f"no cron entries in a group {group!r}; anew cron list shows the groups")
    else:
        session.client.remove_cron(group, name)
        removed = [name]
    if session.as_json:
        show_json({"removed": list(removed)})
        return
    click.echo("Removed " + ", ".join(removed) + ".")


@cron.command("next")
@click.argument("expression")
@click.option(
    "--tz", "timezone", metavar="ZONE", help="Time zone, such as Europe/Berlin. [the machine's own]"
)
@click.option(
    "-n", "count", type=click.IntRange(1, 1000), default=5, metavar="N", help="So many, up to 1000. [5]"
)
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def next_fires(expression: str, timezone: str | None, count: int, as_json: bool) -> None:
    """Show when a cron expression fires next, with the distance from UTC. No server is asked.

    \b
    Examples:
      anew cron next '30 2 * * 1-5'
      anew cron next '30 2 * * *' --tz Europe/Berlin -n 10
      anew cron next @daily --json
    """
    from anew.app.schedules import next_slots

    slots = next_slots(expression, timezone, now_ms(), count)
    if as_json:
        show_json({"next": slots})
        return
    if not slots:
        click.echo("It fires no more.")
    zone = None if timezone is None else zoneinfo.ZoneInfo(timezone)
    for slot in slots:
        then = datetime.datetime.fromtimestamp(slot // 1000, tz=datetime.UTC).astimezone(zone)
        click.echo(f"{then:%a %Y-%m-%d %H:%M:%S %z}")
