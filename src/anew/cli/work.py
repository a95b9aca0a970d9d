"""``anew work``."""

from __future__ import annotations

import shutil
import signal
import sys
from types import FrameType

import click
import msgspec

from anew.cli.output import clock_time, coloured, moment, now_ms, one_line, paint
from anew.cli.remote import Session, remote
from anew.errors import InvalidInput
from anew.units import format_duration, parse_duration_with_unit
from anew.worker import CommandWorker, Notice, WorkOptions


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--queue", "-q", "queues", multiple=True, metavar="QUEUE", help="Take from these queues. [all]")
@click.option(
    "--concurrency", "-c", type=click.IntRange(1, 1000), default=1, metavar="N", help="Runs at once. [1]"
)
@click.option(
    "--timeout",
    metavar="TIME",
    help="Longest run of one job, such as 30s; then it is killed and has failed. [no limit]",
)
@click.option("--drain", is_flag=True, help="Stop when no job is ready any more.")
@click.option("--once", is_flag=True, help="Stop after one job.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@remote
def work(
    session: Session,
    queues: tuple[str, ...],
    concurrency: int,
    timeout: str | None,
    drain: bool,
    once: bool,
    command: tuple[str, ...],
) -> int:
    """Run a program for each job of a queue.

    The payload is the program's stdin, byte for byte; ANEW_JOB_ID, ANEW_JOB_TYPE, ANEW_JOB_QUEUE and
    ANEW_JOB_ATTEMPTS (failures so far) are in its environment. Exit 0 is success. Anything else is a failure,
    with the end of its stderr as the message; the job's policy then decides when to try again.

    SIGTERM or Ctrl-C: takes no more, lets what runs finish for 25 s. Twice: kills what runs; those jobs
    return to the queue, and no failure is counted. One line is logged to stderr per job, never a
    payload; with --json as JSON.

    \b
    Examples:
      anew work --queue hello -- cat
      anew work --queue mail --concurrency 8 --timeout 30s -- ./send-mail --fast
      anew work --queue mail --drain -- sh -c 'jq -r .to'
    """
    if shutil.which(command[0]) is None:
        raise InvalidInput(f"{command[0]}: no such program; expected a program on the PATH or its path")
    options = WorkOptions(
        queues=tuple(part for queue in queues for part in queue.split(",")),
        command=command,
        concurrency=1 if once else concurrency,
        timeout_ms=None if timeout is None else parse_duration_with_unit(timeout, "--timeout") or None,
        once=once,
        drain=drain,
    )
    worker = CommandWorker(session.client, options, _json_log if session.as_json else _text_log)
    received: list[int] = []

    def told(number: int, _: FrameType | None) -> None:
        received.append(number)
        worker.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, told)
    worker.run()
    return 128 + received[0] if received else 0


def _text_log(notice: Notice) -> None:
    now = now_ms()
    what = paint(notice.what.ljust(11), _colour_of(notice), colour=coloured(sys.stderr))
    job = f"{notice.job.id} {notice.job.type} " if notice.job else ""
    rest = one_line(f"{job}{describe(notice, now)}")
    click.echo(f"{clock_time(now, now)} {what} {rest}".rstrip(), err=True)


def describe(notice: Notice, now: int) -> str:
    """Give the rest of a log line: what happened, how long it took, what comes next."""
    parts = [notice.text] if notice.text else []
    if notice.ended is not None:
        parts.append(f"after {format_duration(notice.ended.took_ms)}")
    text = " ".join(parts)
    if notice.after is not None:
        text += f"; failure {notice.after.attempts}"
        if notice.after.status == "scheduled":
            text += f", retry {moment(notice.after.ready_at, now)}"
    return text


def _colour_of(notice: Notice) -> str:
    return "dead" if notice.level == "error" else notice.what


def _json_log(notice: Notice) -> None:
    record: dict[str, object] = {"at": now_ms(), "level": notice.level, "event": notice.what}
    if notice.text:
        record["reason"] = notice.text
    if notice.job is not None:
        record |= {"job_id": notice.job.id, "type": notice.job.type, "queue": notice.job.queue}
    if notice.ended is not None:
        record["took_ms"] = notice.ended.took_ms
    if notice.after is not None:
        record |= {"attempts": notice.after.attempts, "status": notice.after.status}
        if notice.after.status == "scheduled":
            record["next_at"] = notice.after.ready_at
    click.echo(msgspec.json.encode(record).decode(), err=True)
