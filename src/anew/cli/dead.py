"""``anew dead``: jobs that have used up their retries."""

from __future__ import annotations

import contextlib

import click
import msgspec

from anew.cli.jobs import each, fetch
from anew.cli.jobview import error_text, when
from anew.cli.lazy import Group
from anew.cli.output import now_ms, show_json, show_table
from anew.cli.remote import Session, filter_options, remote
from anew.client import ErrorView, Filters, JobView
from anew.errors import InvalidInput, NotFound
from anew.units import format_duration, parse_duration_with_unit


@click.group(cls=Group)
def dead() -> None:
    """List dead jobs, and bring them back."""


@dead.command("list", short_help="List dead jobs with their last errors.")
@filter_options(status=False)
@click.option("--limit", type=click.IntRange(1), default=50, metavar="N", help="At most so many. [50]")
@remote
def list_dead(session: Session, filters: Filters, limit: int) -> None:
    """List dead jobs, the newest first, with the error that ended each. Cancelled jobs are among them.

    --json gives each job as "anew jobs list --json" does, and its last failure as "error" beside.

    \b
    Examples:
      anew dead list
      anew dead list --queue web --limit 10 --json
    """
    chosen = filters.also(status=("dead",))
    found = fetch(session.client, chosen, limit, newest=True)
    last = {job.id: _last_error(session, job.id) for job in found}
    if session.as_json:
        show_json({"jobs": [_with_error(job, last[job.id]) for job in found]})
        return
    if not found:
        click.echo("No dead jobs.")
    else:
        now = now_ms()
        rows = [
            (job.id, job.type, job.queue, str(job.attempts), when(job, now), _shortened(last[job.id]))
            for job in found
        ]
        show_table(("ID", "TYPE", "QUEUE", "FAILURES", "WHEN", "LAST ERROR"), rows)
    if len(found) == limit and session.client.count(chosen) > limit:
        click.echo(f"There are more; --limit more than {limit} shows them.", err=True)


@dead.command("retry", short_help="Make dead jobs ready again.")
@click.argument("job_ids", nargs=-1, metavar="[ID...]")
@filter_options(status=False)
@click.option("--all", "everything", is_flag=True, help="Every dead job there is.")
@click.option("--spread", metavar="TIME", help="Spread them evenly over this time: 10m. [all at once]")
@click.option("--reset-attempts", is_flag=True, help="Let them begin anew, with all their retries.")
@remote
def retry_dead(
    session: Session,
    job_ids: tuple[str, ...],
    filters: Filters,
    everything: bool,
    spread: str | None,
    reset_attempts: bool,
) -> int:
    """Make dead jobs ready again: the ones named, the ones that match, or all.

    Without --reset-attempts their failures stay counted: one that was out of retries runs once more, and is dead again
    if that fails. After an outage, --spread keeps the jobs that come back from knocking the same service over once more.

    \b
    Examples:
      anew dead retry 03h9zfi18gdfi0z62rygn7z6c
      anew dead retry --queue web --spread 10m
      anew dead retry --all --reset-attempts --json
    """
    if sum((bool(job_ids), bool(filters.given()), everything)) != 1:
        raise InvalidInput("which jobs? expected either ids, or filters such as --queue, or --all")
    if job_ids and spread is None and not reset_attempts:
        return each(session, job_ids, session.client.retry, "is ready again")
    spread_ms = None if spread is None else parse_duration_with_unit(spread, "--spread")
    retried = session.client.redrive(
        filters.also(id=job_ids), spread_ms=spread_ms, reset_attempts=reset_attempts
    )
    if session.as_json:
        show_json({"retried": retried})
    else:
        over = f", spread over {format_duration(spread_ms)}" if spread_ms and retried else ""
        click.echo(f"{retried} made ready{over}")
    return 0


def _last_error(session: Session, job_id: str) -> ErrorView | None:
    with contextlib.suppress(NotFound):
        return next(session.client.errors(job_id, order="desc", limit=1), None)
    return None


def _with_error(job: JobView, error: ErrorView | None) -> dict[str, object]:
    # The job's fields stand where `anew jobs list --json` has them, so that one filter reads both.
    fields = msgspec.json.decode(job.document, type=dict[str, msgspec.Raw])
    return {**fields, "error": error.document if error else None}


def _shortened(error: ErrorView | None) -> str:
    return "" if error is None else error_text(error)[:100]
