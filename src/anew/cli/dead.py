"""``anew dead``: jobs that have used up their retries."""

from __future__ import annotations

from typing import Final

import click

from anew.cli.jobs import each
from anew.cli.jobview import error_text, when
from anew.cli.lazy import CommandGroup
from anew.cli.output import now_ms, show_json, show_table
from anew.cli.remote import ClientSession, filter_options, remote, require_one_choice
from anew.client import Filters, JobView, Page
from anew.units import format_duration, parse_duration_with_unit

_ERROR_SHOWN: Final = 100


@click.group(cls=CommandGroup)
def dead() -> None:
    """List dead jobs, and bring them back.

    \b
    Examples:
      anew dead list --queue web
      anew dead retry --queue web --spread 10m
    """


@dead.command("list", short_help="List dead jobs with their last errors.")
@filter_options(status=False)
@click.option(
    "--limit", type=click.IntRange(1, 2000), default=50, metavar="N", help="At most so many, up to 2000. [50]"
)
@remote
def list_dead(session: ClientSession, filters: Filters, limit: int) -> None:
    """List dead jobs, the newest first, with the error that ended each. Cancelled and expired jobs are among them.

    --json gives each job as "anew jobs list --json" does, and its last failure as "last_error" beside.

    \b
    Examples:
      anew dead list
      anew dead list --queue web --limit 10 --json
    """
    chosen = filters.also(status="dead")
    found: list[JobView] = []
    page: Page | None = session.client.page(chosen, limit=limit, order="desc", last_errors=True)
    while page is not None:
        found += page
        if len(found) >= limit:
            break
        page = page.next()  # a page may end early: large payloads, or a filter that takes long
    more = page is not None and (len(found) > limit or page.next_path is not None)
    found = found[:limit]
    if session.as_json:
        show_json({"jobs": [job.document for job in found]})
        return
    if not found:
        click.echo("No dead jobs.")
        return
    now = now_ms()
    rows = [
        (
            job.id,
            job.type,
            job.queue,
            str(job.attempts),
            when(job, now),
            "" if job.last_error is None else error_text(job.last_error)[:_ERROR_SHOWN],
        )
        for job in found
    ]
    show_table(("ID", "TYPE", "QUEUE", "FAILURES", "WHEN", "LAST ERROR"), rows)
    if more:
        click.echo(f"There are more; --limit more than {limit} shows them.", err=True)


@dead.command("retry", short_help="Make dead jobs ready again.")
@click.argument("job_ids", nargs=-1, metavar="[ID...]")
@filter_options(status=False)
@click.option("--all", "everything", is_flag=True, help="Every dead job there is.")
@click.option("--cancelled", is_flag=True, help="Those that were cancelled or have expired, and no others.")
@click.option("--spread", metavar="TIME", help="Spread them evenly over this time: 10m. [all at once]")
@click.option("--reset-attempts", is_flag=True, help="Let them begin again, with all their retries.")
@click.option("--dry-run", is_flag=True, help="Only tell how many they are.")
@remote
def retry_dead(
    session: ClientSession,
    job_ids: tuple[str, ...],
    filters: Filters,
    everything: bool,
    cancelled: bool,
    spread: str | None,
    reset_attempts: bool,
    dry_run: bool,
) -> int:
    """Make dead jobs ready again: those named, those that match, or all.

    Jobs that were cancelled or have expired are left alone unless they are named, or --cancelled is given.
    Without --reset-attempts their failures stay counted: one that was out of retries runs once more, and is dead
    again if that fails. Expired jobs expire no more. After an outage, --spread keeps the jobs that return from
    overloading the same service again.

    \b
    Examples:
      anew dead retry 03h9zfi18gdfi0z62rygn7z6c
      anew dead retry --queue web --spread 10m
      anew dead retry --error-type TimeoutError --dry-run
      anew dead retry --all --reset-attempts --json
    """
    require_one_choice(job_ids, filters, everything=everything)
    if job_ids and spread is None and not (reset_attempts or cancelled or dry_run):
        return each(session, job_ids, session.client.retry, "is ready again")
    spread_ms = None if spread is None else parse_duration_with_unit(spread, "--spread")
    chosen = filters.also(id=job_ids)
    if cancelled or not job_ids:
        chosen = chosen.also(state="cancelled" if cancelled else "dead")
    if dry_run:
        meant = session.client.count(chosen)
        show_json({"retried": 0, "meant": meant}) if session.as_json else click.echo(
            f"{meant} would be made ready"
        )
        return 0
    retried = session.client.redrive(chosen, spread=spread, reset_attempts=reset_attempts)
    if session.as_json:
        show_json({"retried": retried})
    else:
        over = f", spread over {format_duration(spread_ms)}" if spread_ms and retried else ""
        click.echo(f"{retried} made ready{over}")
    return 0
