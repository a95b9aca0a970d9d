"""``anew compact``: a server removes what is needed no more, now."""

from __future__ import annotations

import click

from anew.cli.output import show_json
from anew.cli.remote import admin
from anew.client.admin import AdminClient


@click.command()
@admin
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def compact(client: AdminClient, as_json: bool) -> None:
    """Have a server remove what is needed no more, and copy its write-ahead log into the database.

    A server does it by itself, some at a time; this waits until all of it is done. Others notice nothing. The file does not
    become smaller: space that has become free is used again.

    \b
    Examples:
      anew compact
      anew compact --url http://127.0.0.1:8901
    """
    client.compact()
    if as_json:
        show_json({"compacted": True})
    else:
        click.echo("compacted")
