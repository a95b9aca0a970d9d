"""``anew import``: bring the jobs of another job queue into a store on this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from anew.cli.exit_codes import FAILURE, REFUSED
from anew.cli.lazy import CommandGroup
from anew.cli.output import one_line, show_json, show_table
from anew.cli.settings import load

if TYPE_CHECKING:
    from anew.app.importing import Refusal, Report, Tally

MOST_LISTED: Final = 1_000
"""Jobs that cannot be read and are in the JSON answer; stderr has all of them."""

STEP: Final = 10_000
"""Progress is told about every so many jobs."""


@click.group("import", cls=CommandGroup)
def import_group() -> None:
    """Bring the jobs of another job queue into a store on this machine."""


@import_group.command("faktory", short_help="Move the jobs of a Faktory that has stopped.")
@click.argument("source")
@click.option(
    "--root-dir", metavar="PATH", help="Data directory of the server. [ANEW_ROOT_DIR, anew.toml; anew-data]"
)
@click.option("--dry-run", is_flag=True, help="Count what would be imported, and write nothing.")
@click.option("--start-over", is_flag=True, help="Import again what an earlier run has imported.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def faktory(source: str, root_dir: str | None, dry_run: bool, start_over: bool, as_json: bool) -> int:
    """Move all jobs of Faktory 1.10 into a store: queues, scheduled, retries, dead, and those that were running.

    SOURCE is Faktory's data directory (it has faktory.rdb; needs redis-server), or the address of its Redis:
    unix:///PATH/redis.sock, redis://:PASSWORD@HOST:6379/0. Faktory must have stopped; its data is only read. A server may
    run on the store meanwhile.

    Jobs keep ids, arguments, times, failures and retries; running ones stay reserved for as long as they were. A run that
    ended midway is gone on with: run it again. Jobs that cannot be read are named on stderr and left out.
    Needs redis-py: pip install 'anew[faktory]'.

    \b
    Exit codes: 0 all is moved and the counts agree, 1 they do not or it failed,
    2 no data of Faktory 1.10, 3 no Redis answers, 4 no such directory,
    5 refused: Faktory runs, or some jobs cannot be read.

    \b
    Examples:
      anew import faktory /var/lib/faktory/db --dry-run
      anew import faktory /var/lib/faktory/db --root-dir /var/lib/anew
      anew import faktory unix:///var/lib/faktory/db/redis.sock --json
    """
    from anew.app.faktory_data import opened  # only here: help starts fast
    from anew.app.importing import import_faktory

    settings = load({"root_dir": root_dir}).settings
    left_out: list[dict[str, Any]] = []

    def refused(refusal: Refusal) -> None:
        if len(left_out) < MOST_LISTED:
            key = {"key": refusal.place, "number": refusal.number}
            left_out.append(key | {"reason": refusal.reason, "data": refusal.data})
        click.echo(one_line(f"{refusal.place} {refusal.number}: {refusal.reason}: {refusal.data}"), err=True)

    with opened(source) as data:
        report = import_faktory(
            data,
            settings,
            dry_run=dry_run,
            start_over=start_over,
            refused=refused,
            progress=_progress(as_json),
        )
    if as_json:
        show_json(_document(report, dry_run) | {"unreadable": left_out})
    else:
        _print(report, data.name, dry_run)
    if not report.agrees():
        click.echo("Error: the counts do not agree", err=True)
        return FAILURE
    return REFUSED if report.refused() else 0


def _document(report: Report, dry_run: bool) -> dict[str, Any]:
    places = {place: asdict(tally) for place, tally in report.tallies.items()}
    number, names = report.others
    return {
        "dry_run": dry_run,
        "agrees": report.agrees(),
        "places": places,
        "queues": report.queues,
        "paused": report.paused,
        "not_moved": {"custom": dict(report.untied), "other_keys": number, "some_keys": names},
    }


def _print(report: Report, name: str, dry_run: bool) -> None:
    tallies = report.tallies
    rows = [_row(place, tally) for place, tally in tallies.items()]
    sums = [sum(getattr(tally, part) for tally in tallies.values()) for part in _PARTS]
    rows.append(("total", *map(str, sums)))
    show_table(("FROM", "THERE", "READ", "TO IMPORT" if dry_run else "IMPORTED", "SKIPPED", "REFUSED"), rows)
    if report.paused:
        click.echo(one_line(f"paused: {', '.join(report.paused)}"))
    for member, n in report.untied.items():
        click.echo(f"{n} jobs name {member}, which is kept in custom and has no effect on them here")
    number, names = report.others
    if number:
        more = ", ..." if number > len(names) else ""
        click.echo(
            one_line(f"not moved: {number} keys that are not Faktory 1.10's: {', '.join(names)}{more}")
        )
    if dry_run:
        click.echo("Nothing was written.")


_PARTS: Final = ("there", "read", "imported", "skipped", "refused")


def _row(place: str, tally: Tally) -> tuple[str, ...]:
    return (place, *(str(getattr(tally, part)) for part in _PARTS))


def _progress(as_json: bool) -> Callable[[int, int], None]:
    """Say on a terminal how far it is."""
    if as_json or not sys.stderr.isatty():
        return lambda done, there: None
    said = 0

    def show(done: int, there: int) -> None:
        nonlocal said
        if done < there and done - said < STEP:
            return
        said = done
        click.echo(f"\r{done} of {there} jobs{chr(10) if done == there else ''}", err=True, nl=False)

    return show
