"""``anew health``: whether a server answers, and how it is."""

from __future__ import annotations

import click

from anew.cli.exit_codes import FAILURE
from anew.cli.output import one_line, show_json
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
