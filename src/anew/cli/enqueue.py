"""``anew enqueue``."""

from __future__ import annotations

from typing import Any

import click

from anew.cli.output import moment, now_ms, one_line, show_json
from anew.cli.remote import ClientSession, remote
from anew.cli.values import job_options, read_payload
from anew.client import Draft, JobView

_BULK = 1_000


@click.command()
@click.argument("job_type", metavar="TYPE")
@click.argument("payload", default="null", metavar="[PAYLOAD|-|@FILE]")
@click.option("--queue", "-q", required=True, metavar="QUEUE", help="Queue of the job.")
@job_options("--at")
@click.option(
    "--count", type=click.IntRange(min=1), default=1, metavar="N", help="Enqueue it so many times. [1]"
)
@click.option("--unique-key", metavar="KEY", help="Enqueue nothing while another job holds this key.")
@click.option(
    "--unique-while",
    type=click.Choice(["queued", "active", "exists"]),
    help="How long a job holds its key: while it waits, until it ends, while it is kept. [queued]",
)
@remote
def enqueue(
    session: ClientSession,
    job_type: str,
    payload: str,
    queue: str,
    settings: dict[str, Any],
    count: int,
    unique_key: str | None,
    unique_while: str | None,
) -> None:
    """Put a job into a queue.

    PAYLOAD is any JSON and is kept byte for byte; - reads it from stdin, @FILE from a file; without one it is null. A
    POLICY can be looked at first: anew policy explain POLICY.

    \b
    Examples:
      anew enqueue greet --queue hello '{"name": "Ada"}'
      anew enqueue report --queue nightly --at 2026-12-24T18:00 @report.json
      anew enqueue call --queue web 42 --policy even --retry-limit 8
      anew enqueue call --queue web 42 --policy '{"base_ms": 500, "exponent": 2, "jitter_ms": 0}'
      anew enqueue invoice --queue mail 7 --unique-key 'invoice 7' --unique-while active
      anew enqueue ping --queue web --delay 5m --json
    """
    if unique_key is not None and count > 1:
        raise click.UsageError("--unique-key and --count cannot be combined: there is one job of a key.")
    settings |= {"unique_key": unique_key, "unique_while": unique_while}
    draft = Draft(type=job_type, queue=queue, payload=read_payload(payload), **settings)
    if count == 1:
        _show(session, session.client.enqueue(**draft.fields()))
        return
    ids: list[str] = []
    try:
        for start in range(0, count, _BULK):
            ids += [job.id for job in session.client.enqueue_many([draft] * min(_BULK, count - start))]
    finally:  # also of a request that failed: what those before it have stored
        if ids and session.as_json:
            show_json({"enqueued": len(ids), "ids": ids})
        elif ids:
            few = len(ids) < count
            many = f"{len(ids)} of {count}" if few else f"{count}"
            click.echo(f"{many} jobs enqueued, {ids[0]} to {ids[-1]}", err=few)


def _show(session: ClientSession, job: JobView) -> None:
    if session.as_json:
        show_json(job.document)
        return
    now = now_ms()
    there = "not enqueued, as this job holds its key: " if job.duplicate else ""
    when = f"runs {moment(job.ready_at, now)}" if job.status == "scheduled" else job.status
    click.echo(one_line(f"{there}{job.id}  {job.type} on {job.queue}, {when}"))
