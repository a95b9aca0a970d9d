"""``anew jobs``: look at jobs, change them, and act on them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal
from urllib.parse import quote

import click

from anew.cli.exit_codes import exit_code, explained
from anew.cli.jobview import HEADING, STATUS_COLUMN, describe_job, row
from anew.cli.lazy import CommandGroup
from anew.cli.output import now_ms, one_line, show_json, show_table
from anew.cli.remote import ClientSession, confirm, filter_options, remote, require_one_choice
from anew.cli.values import job_options, read_policy
from anew.client import Client, DueView, Filters, JobView, Page, PlanView
from anew.client.views import read_job
from anew.errors import Conflict, InvalidInput, NotFound, NotSupported
from anew.units import format_duration, parse_duration_with_unit

_PAGE: Final = 1_000

_CLEARED: Final = {
    "ready-at": "ready_at",
    "retry-limit": "retry_limit",
    "policy": "policy",
    "retention": "retention",
}
"""What ``--clear`` takes, and the member of the request that it means."""

_KEPT: Final = {
    "named": "left alone: a worker or a person has named the time",
    "spent": "left alone: this policy has no retry left for them",
}


@click.group(cls=CommandGroup)
def jobs() -> None:
    """List, show, change, replan, retry, cancel and delete jobs.

    \b
    Examples:
      anew jobs list --queue web --status retrying
      anew jobs show 03h9zfi18gdfi0z62rygn7z6c
    """


@jobs.command("list")
@filter_options()
@click.option("--id", "job_ids", multiple=True, metavar="ID", help="Only this job; may be repeated.")
@click.option("--limit", type=click.IntRange(1), default=50, metavar="N", help="At most so many. [50]")
@click.option("--all", "everything", is_flag=True, help="No limit.")
@click.option("--newest", is_flag=True, help="The newest first.")
@click.option("--count", is_flag=True, help="Only their number.")
@remote
def list_jobs(
    session: ClientSession,
    filters: Filters,
    job_ids: tuple[str, ...],
    limit: int,
    everything: bool,
    newest: bool,
    count: bool,
) -> None:
    """List jobs, the oldest first.

    \b
    Examples:
      anew jobs list
      anew jobs list --queue web,mail --status scheduled --attempts 3..
      anew jobs list --status dead --newest --limit 10 --json
      anew jobs list --jid 7b5f4f2c9d1e4a0b8c3d2e1f
      anew jobs list --queue web --count
      anew jobs list --queue web --filter '.user_id == 42'
    """
    chosen = filters.also(id=job_ids)
    if count:
        number = session.client.count(chosen)
        show_json({"count": number}) if session.as_json else click.echo(str(number))
        return
    found = fetch(session.client, chosen, None if everything else limit, newest=newest)
    if session.as_json:
        show_json({"jobs": [job.document for job in found]})
        return
    show_jobs(found)
    if everything or len(found) < limit:
        return
    if chosen.filter is not None:  # to count them may take half a minute
        click.echo(f"There may be more; --all shows all, --limit more than {limit}.", err=True)
    elif session.client.count(chosen) > limit:
        click.echo(f"There are more; --all shows all, --limit more than {limit}.", err=True)


@jobs.command("show")
@click.argument("job_id", metavar="ID")
@click.option("--backtrace", is_flag=True, help="Also the backtraces of the failures.")
@remote
def show_job(session: ClientSession, job_id: str, backtrace: bool) -> None:
    """Show one job: its payload, its failures, and why it waits. ID may be the one that its producer gave it.

    \b
    Examples:
      anew jobs show 03h9zfi18gdfi0z62rygn7z6c
      anew jobs show 03h9zfi18gdfi0z62rygn7z6c --json
      anew jobs show 7b5f4f2c9d1e4a0b8c3d2e1f
    """
    job = _found(session.client, job_id)
    # The job may go between the two calls; what we have seen is still worth showing.
    errors = []
    with contextlib.suppress(NotFound):
        errors = [] if job.failed_at is None else list(session.client.errors(job.id))
    if session.as_json:
        show_json({"job": job.document, "errors": [error.document for error in errors]})
        return
    for line in describe_job(job, errors, now_ms(), backtrace=backtrace):
        click.echo(one_line(line))


def _found(client: Client, job_id: str) -> JobView:
    """Fetch a job by its id, else by its producer's.

    Raises:
        NotFound: No job has it, or several have it from their producers.
    """
    try:
        return _get(client, job_id)
    except NotFound:
        # A filter cannot name an id with a comma, and a server that is no Anew refuses to filter by it.
        with contextlib.suppress(InvalidInput):
            found = fetch(client, Filters(jid=job_id), 2, newest=True)
            if len(found) == 1:
                return _get(client, found[0].id)
            if found:
                raise NotFound(
                    f"several jobs have the id {job_id} of their producers; list them with: anew jobs list --jid {job_id}"
                ) from None
        raise


def _get(client: Client, job_id: str) -> JobView:
    """Fetch a job with its state by Anew's own name, if the server has those."""
    try:
        return read_job(client.request("GET", f"/v1/jobs/{quote(job_id, safe='')}"))
    except NotSupported:
        return client.get(job_id)


@jobs.command("patch", short_help="Change jobs that have not ended.")
@click.argument("job_ids", nargs=-1, metavar="[ID...]")
@filter_options(prefix="where-")
@click.option("--all", "everything", is_flag=True, help="Every job that has not ended.")
@click.option("--queue", "-q", metavar="QUEUE", help="Move to this queue.")
@job_options("--ready-at")
@click.option(
    "--clear",
    "cleared",
    multiple=True,
    type=click.Choice([*_CLEARED]),
    help="Go back to the server's default; ready-at: run now. May be repeated.",
)
@remote
def patch_jobs(
    session: ClientSession,
    job_ids: tuple[str, ...],
    filters: Filters,
    everything: bool,
    queue: str | None,
    settings: dict[str, Any],
    cleared: tuple[str, ...],
) -> int:
    """Change jobs that have not ended: those named, those that match, or all.

    What is not given stays as it is. The options that choose jobs begin with --where-, because --queue and --priority
    are new values here. A job in flight finishes its run as it began; the change holds from then on.

    \b
    Examples:
      anew jobs patch 03h9zfi18gdfi0z62rygn7z6c --priority 10 --delay 5m
      anew jobs patch 03h9zfi18gdfi0z62rygn7z6c --clear ready-at
      anew jobs patch --where-queue web --where-status scheduled --queue slow --policy even --json
      anew jobs patch --where-queue web --where-filter '.user_id == 42' --priority 10
    """
    require_one_choice(job_ids, filters, everything=everything, prefix="where-")
    changes = settings if queue is None else {"queue": queue} | settings
    for option in cleared:
        if _CLEARED[option] in changes:
            raise InvalidInput(
                f"--clear {option}: a new value is given too; expected one of them", field="clear"
            )
        changes[_CLEARED[option]] = None
    if not changes:
        raise InvalidInput("which change? expected at least one, such as --priority 10")
    if job_ids:
        return each(session, job_ids, lambda job_id: session.client.patch(job_id, changes), "is changed")
    patched = session.client.patch_many(changes, filters, everything=everything)
    show_json({"patched": patched}) if session.as_json else click.echo(f"{patched} changed")
    return 0


@jobs.command("replan", short_help="Give waiting retries the times of another policy.")
@click.argument("job_ids", nargs=-1, metavar="[ID...]")
@filter_options()
@click.option("--all", "everything", is_flag=True, help="Every job that waits for a retry.")
@click.option("--policy", required=True, metavar="POLICY", help="Retry policy: JSON, a preset's name, @file.")
@click.option("--spread", metavar="TIME", help="Spread over this time what would be due at once: 10m.")
@click.option("--dry-run", is_flag=True, help="Only show the new times.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@remote
def replan_jobs(
    session: ClientSession,
    job_ids: tuple[str, ...],
    filters: Filters,
    everything: bool,
    policy: str,
    spread: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Give jobs that wait for a retry the times that another policy gives them: those named, those that match, or all.

    The new times are shown before anything is changed. They count from each job's last failure, and its failures stay
    counted; what is overdue by the new policy is ready now. The policy is the job's own from then on. A time that a worker or a
    person has named stands, and no job ends: one that has no retry left under the policy keeps its time.

    \b
    Examples:
      anew jobs replan --queue web --policy even --dry-run
      anew jobs replan --type call --policy '{"curve": {"constant": "5m"}}' --spread 10m --yes
      anew jobs replan 03h9zfi18gdfi0z62rygn7z6c --policy @policy.json
    """
    require_one_choice(job_ids, filters, everything=everything)
    law = read_policy(policy)
    if spread is not None:
        parse_duration_with_unit(spread, "--spread")
    chosen = filters.also(id=job_ids)

    def replan(*, dry: bool) -> PlanView:
        return session.client.replan(chosen, law, spread=spread, dry_run=dry, everything=everything)

    if session.as_json and not dry_run:
        confirm("Give jobs other times", yes=yes)
    elif dry_run or not yes:
        plan = replan(dry=True)
        _show_plan(plan, session)
        if dry_run or not plan.replanned:
            return
        confirm(f"Give {plan.replanned} job(s) these times", yes=False)
    _show_plan(replan(dry=False), session)


def _show_plan(plan: PlanView, session: ClientSession) -> None:
    """Print what new times came to, or would come to."""
    if session.as_json:
        show_json(plan.document)
        return
    would = "would be " if plan.dry_run else ""
    same = f", {plan.unchanged} at the same time" if plan.unchanged else ""
    click.echo(f"{plan.replanned} {would}planned again: {plan.sooner} sooner, {plan.later} later{same}")
    for why, text in _KEPT.items():
        if count := plan.kept.get(why, 0):
            click.echo(f"{count} {text}")
    rows = [(_within(due), str(due.before), str(due.after)) for due in plan.due if due.before or due.after]
    if rows:
        show_table(("DUE", "BEFORE", "AFTER"), rows)


def _within(due: DueView) -> str:
    if due.within_ms is None:
        return "later"
    return f"within {format_duration(due.within_ms)}" if due.within_ms else "now"


@jobs.command("retry")
@click.argument("job_ids", nargs=-1, required=True, metavar="ID...")
@remote
def retry_jobs(session: ClientSession, job_ids: tuple[str, ...]) -> int:
    """Make dead jobs ready now, cancelled and expired ones too. Those expire no more.

    Their failures stay counted: one that was out of retries runs once more, and is dead again if that fails. To bring
    back many at once, or with all their retries, see: anew dead retry --help

    \b
    Examples:
      anew jobs retry 03h9zfi18gdfi0z62rygn7z6c
    """
    return each(session, job_ids, session.client.retry, "is ready again")


@jobs.command("cancel")
@click.argument("job_ids", nargs=-1, required=True, metavar="ID...")
@remote
def cancel_jobs(session: ClientSession, job_ids: tuple[str, ...]) -> int:
    """End jobs before their time.

    They are kept as long as dead ones, and can be brought back like them: anew jobs retry. A Python worker that
    runs one stops the run within about a second; other workers learn it when they report.

    \b
    Examples:
      anew jobs cancel 03h9zfi18gdfi0z62rygn7z6c
    """
    return each(session, job_ids, session.client.cancel, "is cancelled")


@jobs.command("delete")
@click.argument("job_ids", nargs=-1, metavar="[ID...]")
@filter_options()
@click.option("--all", "everything", is_flag=True, help="Every job there is.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@remote
def delete_jobs(
    session: ClientSession, job_ids: tuple[str, ...], filters: Filters, everything: bool, yes: bool
) -> int:
    """Remove jobs in whatever state, with their records. This cannot be undone.

    \b
    Examples:
      anew jobs delete 03h9zfi18gdfi0z62rygn7z6c --yes
      anew jobs delete --queue web --status dead
      anew jobs delete --queue web --filter '.tags | index("old")' --yes
      anew jobs delete --all --yes
    """
    require_one_choice(job_ids, filters, everything=everything)
    if job_ids:
        confirm(f"Delete {len(job_ids)} job(s)", yes=yes)
        return each(session, job_ids, session.client.delete, "is deleted")
    if not yes:
        confirm(f"Delete {session.client.count(filters)} job(s)", yes=False)
    deleted = session.client.delete_many(filters, everything=everything)
    show_json({"deleted": deleted}) if session.as_json else click.echo(f"{deleted} deleted")
    return 0


def fetch(client: Client, filters: Filters, limit: int | None, *, newest: bool) -> list[JobView]:
    """Fetch the jobs that match.

    Args:
        client: The server's client.
        filters: Which jobs.
        limit: At most so many; None means all.
        newest: The newest first.
    """
    order: Literal["asc", "desc"] = "desc" if newest else "asc"
    size = min(limit or _PAGE, _PAGE)
    try:
        page: Page | None = client.page(filters, limit=size, order=order, last_errors=True)
    except NotSupported:  # a server that is no Anew has no states of its own
        return list(itertools.islice(client.list(filters, order=order, page=size), limit))
    found: list[JobView] = []
    while page is not None and (limit is None or len(found) < limit):
        found += page
        page = page.next()
    return found[:limit]


def show_jobs(found: Iterable[JobView]) -> None:
    """Print a table of jobs."""
    now = now_ms()
    rows = [row(job, now) for job in found]
    if rows:
        show_table(HEADING, rows, status_column=STATUS_COLUMN)
    else:
        click.echo("No jobs.")


def each(session: ClientSession, job_ids: Iterable[str], act: Callable[[str], object], done: str) -> int:
    """Do the same to several jobs, and go on where it is refused for one of them.

    Returns:
        0, or the exit code of the first refusal.
    """
    results: list[dict[str, object]] = []
    code = 0
    for job_id in job_ids:
        try:
            act(job_id)
        except (NotFound, Conflict) as error:
            code = code or exit_code(error)
            results.append({"id": job_id, "ok": False, "error": str(error), "code": error.code})
            click.echo(f"{job_id}: {explained(error)}", err=True)
        else:
            results.append({"id": job_id, "ok": True})
            if not session.as_json:
                click.echo(f"{job_id} {done}")
    if session.as_json:
        show_json({"jobs": results})
    return code
