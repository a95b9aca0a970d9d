"""``anew work``."""

from __future__ import annotations

import shutil
import signal
import sys
from types import FrameType
from typing import Final

import click
import msgspec

from anew.app.running import show_stacks_when_asked, stop_signals
from anew.cli.exit_codes import FAILURE
from anew.cli.output import clock_time, coloured, moment, now_ms, one_line, paint, write_on
from anew.cli.remote import ClientSession, remote
from anew.errors import InvalidInput
from anew.units import format_duration, parse_duration_with_unit, refused
from anew.worker import CommandWorker, Notice, Share, WorkOptions

_MOST_RUNS: Final = 1_000


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--queue", "-q", "queues", multiple=True, metavar="QUEUE", help="Take from these queues. [all]")
@click.option(
    "--concurrency",
    "-c",
    default="1",
    metavar="N|QUEUE=N,...",
    help="Runs at once, of all queues together; or of each queue: mail=4,web=2. [1]",
)
@click.option(
    "--timeout",
    metavar="TIME",
    help="Longest run of one job, such as 30s; then it is killed and has failed. [no limit]",
)
@click.option("--drain", is_flag=True, help="Stop when no job is ready any more.")
@click.option("--once", is_flag=True, help="Stop after one job; exit code 1 unless it completed.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@remote
def work(
    session: ClientSession,
    queues: tuple[str, ...],
    concurrency: str,
    timeout: str | None,
    drain: bool,
    once: bool,
    command: tuple[str, ...],
) -> int:
    """Run a program for each job of a queue. (The tasks of a Python application are run by: anew worker)

    The payload is the program's stdin, byte for byte; ANEW_JOB_ID, ANEW_JOB_TYPE, ANEW_JOB_QUEUE and
    ANEW_JOB_ATTEMPTS (failures so far) are in its environment. Exit 0 is success. Anything else is a failure,
    with the end of its stderr as the message; the job's policy then decides when to try again.

    Anew's own secrets (ANEW_TOKEN, ANEW_KEY and other variables of ANEW_ or ZIZQ_ with TOKEN, PASSWORD, SECRET or
    KEY in the name) are kept from the program. One that needs them gets them by name: -- env ANEW_TOKEN=@file CMD

    With --concurrency mail=4,web=2 each queue has runs of its own, so that a full one leaves the others theirs;
    a queue of --queue without a number has one.

    SIGTERM, Ctrl-C or a closed terminal: takes no more, lets what runs finish for 25 s. Twice: kills what runs; those jobs
    return to the queue, and no failure is counted. One line is logged to stderr per job, never a
    payload; with --json as JSON.

    \b
    Examples:
      anew work --queue hello -- cat
      anew work --queue mail --concurrency 8 --timeout 30s -- ./send-mail --fast
      anew work --concurrency mail=4,web=2 -- ./handle
      anew work --queue mail --drain -- sh -c 'jq -r .to'
    """
    if shutil.which(command[0]) is None:
        raise InvalidInput(f"{command[0]}: no such program; expected a program on the PATH or its path")
    options = WorkOptions(
        command=command,
        shares=shares_of(
            tuple(part for queue in queues for part in queue.split(",")), concurrency, once=once
        ),
        timeout_ms=None if timeout is None else parse_duration_with_unit(timeout, "--timeout") or None,
        once=once,
        drain=drain,
    )
    worker = CommandWorker(session.client, options, _json_log if session.as_json else _text_log)
    received: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        if received and number == signal.SIGHUP:
            return  # a closed terminal's comes twice: from the kernel, and from the shell
        received.append(number)
        worker.stop()

    for number in stop_signals():
        signal.signal(number, stop)
    show_stacks_when_asked()
    # A parent may have left it ignored; the kernel then drops our programs' exit codes.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    completed = worker.run()
    if received:
        return 128 + received[0]
    return FAILURE if once and not completed else 0


def shares_of(queues: tuple[str, ...], concurrency: str, *, once: bool) -> tuple[Share, ...]:
    """Read ``--concurrency``.

    Args:
        queues: What ``--queue`` names; none means all.
        concurrency: A number, or numbers by queue: ``mail=4,web=2``.
        once: Run a single job of all of them.

    Raises:
        InvalidInput: It is neither, or names a queue that is not among those of ``--queue``.
    """
    numbers: dict[str, int] = {}
    if "=" not in concurrency:
        total = _runs(concurrency, concurrency)
        return (Share(queues=queues, concurrency=1 if once else total),)
    for part in concurrency.split(","):
        name, _, number = part.rpartition("=")
        if not name or name in numbers:
            raise _refused_concurrency(concurrency)
        if queues and name not in queues:
            raise refused("--concurrency", name, "a queue of --queue, or no --queue at all")
        numbers[name] = _runs(number, concurrency)
    numbers = {name: numbers.get(name, 1) for name in (queues or numbers)}
    if sum(numbers.values()) > _MOST_RUNS:
        raise _refused_concurrency(concurrency)
    if once:
        return (Share(queues=tuple(numbers)),)
    return tuple(Share(queues=(name,), concurrency=number) for name, number in numbers.items())


def _runs(number: str, given: str) -> int:
    if not (number.isascii() and number.isdigit()) or not 1 <= int(number[:9]) <= _MOST_RUNS:
        raise _refused_concurrency(given)
    return int(number)


def _refused_concurrency(given: str) -> InvalidInput:
    expected = (
        f"a number from 1 to {_MOST_RUNS:,}, or one for each queue, {_MOST_RUNS:,} in all: mail=4,web=2"
    )
    return refused("--concurrency", given, expected)


def _text_log(notice: Notice) -> None:
    now = now_ms()
    what = paint(notice.what.ljust(11), _colour_of(notice), colour=coloured(sys.stderr))
    job = f"{notice.job.id} {notice.job.type} " if notice.job else ""
    rest = one_line(f"{job}{describe(notice, now)}")
    write_on(sys.stderr, f"{clock_time(now, now)} {what} {rest}".rstrip() + "\n")


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
    write_on(sys.stderr, msgspec.json.encode(record).decode() + "\n")
