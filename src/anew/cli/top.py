"""``anew top``: a server's lists of jobs as they change."""

from __future__ import annotations

import os
import select
import sys
import threading

import click

from anew.cli.output import show_json
from anew.cli.remote import admin
from anew.client.admin import AdminClient
from anew.errors import NotSupported


@click.command()
@admin
@click.option("--json", "as_json", is_flag=True, help="Print what is there now, as JSON, and end.")
def top(client: AdminClient, as_json: bool) -> int:
    """Watch a server's jobs: what runs, what waits in line, what waits for its time.

    Shows one of the three lists (Tab turns to the next), how many jobs each has, and how many attempts a second succeed and
    fail. i shows all of one job, d deletes it after a question, / finds one by a part of its type (or queue=NAME), n and N
    find the next and the one before, g and G go to the first and the last, p lets the screen stand still, q ends. Deleting
    cannot be undone. NO_COLOR is heeded. Needs textual: pip install 'anew[top]'; --json needs nothing more.

    \b
    Examples:
      anew top
      anew top --url https://queue.example.org:8901 --ca ca.pem
      anew top --json
    """
    if as_json:
        show_json(client.snapshot())
        return 0
    try:
        from anew.top.screen import Top  # only here: it takes a while, and help starts fast
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("textual", "rich"):
            raise
        raise NotSupported(
            "textual is not installed, which draws the screen: pip install 'anew[top]'; or print one snapshot: anew top --json"
        ) from error
    from anew.clock import SystemClock

    _end_with_the_terminal()
    return Top(client.watching, client.url, SystemClock().now).run() or 0


def _end_with_the_terminal() -> None:
    """Have this process end when its terminal has gone; textual would read it again and again, and find nothing."""

    def watch() -> None:
        hung_up = select.poll()
        hung_up.register(sys.stdin.fileno(), 0)  # nothing but that: a hang-up is always told
        hung_up.poll()
        os._exit(1)  # where a terminal was, nobody can be told anything, and no screen is to be put back

    threading.Thread(target=watch, daemon=True).start()
