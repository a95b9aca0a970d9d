"""``anew worker``."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click

from anew.cli.exit_codes import FAILURE
from anew.logs import LEVELS
from anew.units import counted, parse_duration_with_unit, parse_size, refused

if TYPE_CHECKING:
    from anew.tasks.app import Anew
    from anew.tasks.worker import Worker

_MOST_RUNS: Final = 1_000
_MOST_COROUTINES: Final = 100_000
_MOST_WARNINGS: Final = 5

log = logging.getLogger("anew.tasks")


@click.command()
@click.argument("app", envvar="ANEW_APP", metavar="MODULE:APP")
@click.option(
    "--queue",
    "-q",
    "queues",
    multiple=True,
    metavar="QUEUE[:N],...",
    help="Take from these queues; with :N it has N runs of its own. [all]",
)
@click.option(
    "--concurrency",
    "-c",
    type=click.IntRange(1, _MOST_RUNS),
    default=8,
    metavar="N",
    help="Runs of plain functions and processes at once. [8]",
)
@click.option(
    "--coroutines",
    type=click.IntRange(1, _MOST_COROUTINES),
    default=100,
    metavar="N",
    help="Runs of async functions at once. [100]",
)
@click.option("--drain-timeout", metavar="TIME", help="How long runs may go on after a stop. [25s]")
@click.option("--burst", is_flag=True, help="Stop when no job is ready any more.")
@click.option("--max-jobs", type=click.IntRange(min=1), metavar="N", help="Stop after so many runs.")
@click.option(
    "--process-jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Replace a process of a process=True task after so many runs.",
)
@click.option("--process-memory", metavar="SIZE", help="Replace one that has grown beyond this: 500MB.")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Serve metrics for Prometheus there; 0 takes a free port. [off]",
)
@click.option("--metrics-host", default="127.0.0.1", metavar="ADDRESS", help="Address for it. [127.0.0.1]")
@click.option("--insecure", is_flag=True, help="Allow an address beyond loopback: nothing asks for a token.")
@click.option(
    "--reload", is_flag=True, help="Restart when a .py file of the project changes: for development."
)
@click.option("--log-level", type=click.Choice([*LEVELS]), help="[info; warn below a status line]")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", help="[text]")
@click.option("--json", "as_json", is_flag=True, help="The same as --log-format json.")
def worker(
    app: str,
    queues: tuple[str, ...],
    concurrency: int,
    coroutines: int,
    drain_timeout: str | None,
    burst: bool,
    max_jobs: int | None,
    process_jobs: int | None,
    process_memory: str | None,
    metrics_port: int | None,
    metrics_host: str,
    insecure: bool,
    reload: bool,
    log_level: str | None,
    log_format: str,
    as_json: bool,
) -> int:
    """Run the tasks of a Python application. (A program for each job is run by: anew work)

    MODULE:APP is where the application is: tasks:app, shop.jobs:app, path/to/tasks.py:app, or without :app where the
    module has one application; ANEW_APP if it is left out. Modules of the working directory are found.

    Plain functions run in threads, async functions in an event loop, process=True tasks in processes. With
    --queue mail:4,default the mail queue has 4 runs of its own and default as many as --concurrency says;
    without numbers all queues share --concurrency.

    SIGTERM, Ctrl-C or a closed terminal: takes no more, lets what runs finish for --drain-timeout, and gives back the
    rest, which is not counted as a failure. Twice: gives back at once. SIGTSTP: takes no more and waits for the stop
    (not at a terminal, where Ctrl-Z suspends).

    Logs go to stderr, one line a run and never a payload; on a terminal a status line shows the runs instead, and
    failures are logged above it.

    \b
    Exit codes: 0 by --burst or --max-jobs, 1 failure (the disk, above all, or too many
    runs that never end), 2 usage, or the application cannot be imported, 129/130/143
    ended by a signal.

    \b
    Examples:
      anew worker tasks:app
      anew worker shop/tasks.py --queue mail:4,default --concurrency 16
      anew worker tasks:app --burst --json
      anew worker tasks:app --reload
    """
    from anew.tasks.finding import find_app, read_place

    numbers = queues_of(queues, concurrency)
    options = {
        "queues": numbers,
        "concurrency": concurrency,
        "coroutines": coroutines,
        "drain": drain_of(drain_timeout),
        "burst": burst,
        "most_jobs": max_jobs,
        "process_jobs": process_jobs,
        "process_memory": None
        if process_memory is None
        else parse_size(process_memory, field="--process-memory"),
    }
    from anew.cli.reloading import end_with_parent, run_reloading

    place = read_place(app)
    if reload:
        return run_reloading(place.folder, lambda text: click.echo(text, err=True))
    metrics = None if metrics_port is None else (metrics_port, metrics_host, insecure)
    end_with_parent()
    log_form = "json" if as_json else log_format
    return _run(find_app(place), app, options, metrics, log_form, log_level)


def queues_of(given: Sequence[str], concurrency: int) -> Mapping[str, int] | list[str]:
    """Read ``--queue``: names, or names and numbers where any has one.

    Args:
        given: Each is ``mail``, ``mail:4``, or several with commas between.
        concurrency: The number of those without one.

    Raises:
        InvalidInput: A name is missing or comes twice, or a number does not fit.
    """
    numbers: dict[str, int | None] = {}
    for part in ",".join(given).split(",") if given else ():
        name, colon, number = part.strip().rpartition(":")
        if not (colon and number.isascii() and number.isdigit()):
            name, number = part.strip(), ""
        if not name or name in numbers:
            raise refused("--queue", part, "names that differ, such as mail:4,default")
        if number and not 1 <= int(number[:9]) <= _MOST_RUNS:
            raise refused("--queue", part, f"a number from 1 to {_MOST_RUNS:,}")
        numbers[name] = int(number) if number else None
    if not any(numbers.values()):
        return [*numbers]
    return {name: number or concurrency for name, number in numbers.items()}


def drain_of(given: str | None) -> float:
    """Read ``--drain-timeout`` as seconds; 25 unless it is given."""
    return 25.0 if given is None else parse_duration_with_unit(given, "--drain-timeout") / 1_000


def _run(
    app: Anew,
    named: str,
    options: dict[str, Any],
    metrics: tuple[int, str, bool] | None,
    log_format: str,
    log_level: str | None,
) -> int:
    from anew.app.running import SWITCH_INTERVAL_S, show_stacks_when_asked, tell_systemd
    from anew.cli.status_line import worker_line
    from anew.tasks.worker import Worker

    # The exchanging thread gives the interpreter's lock up at each statement of SQLite, and a handler that calculates keeps it for
    # this long: 5 ms each time, as Python has it, would slow the store down a hundred times.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    show_stacks_when_asked()
    at_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and log_format == "text"
    level = log_level or ("warn" if at_terminal else "info")
    worker = Worker(app, **options)
    url = None if metrics is None else _serve_metrics(app, *metrics)
    if not sys.stdin.isatty():
        signal.signal(signal.SIGTSTP, lambda *_: worker.be_quiet())
    started_s = time.monotonic()
    if at_terminal:
        click.echo(started_text(app, options), err=True)
        if url is not None:
            click.echo(f"metrics at {url}", err=True)
        with worker_line(worker, started_s):
            _set_up_logs(log_format, level, short=True)
            warn_of_policies(app, named)
            worker.run(partial(tell_systemd, "READY=1"))
    else:
        _set_up_logs(log_format, level, short=False)
        warn_of_policies(app, named)
        facts = _started(app, options) | {"metrics": url}

        def started() -> None:
            tell_systemd("READY=1")
            log.info("worker started", extra=facts)  # whoever reads this may stop it

        worker.run(started)
        log.info("worker stopped", extra=dict(worker.done) | {"given_back": worker.given_back})
    tell_systemd("STOPPING=1")
    return _leave(app, worker)


def warn_of_policies(app: Anew, named: str) -> None:
    """Tell, in a few lines, what the policies of tasks do that their author may not have meant."""
    from anew.cli.policy import lint_input, lint_report

    document, _ = lint_input.policies_of_tasks(app)
    found = lint_report.warnings_of(lint_report.look_at([document], {"select": (), "ignore": ()}))
    for line in found[:_MOST_WARNINGS]:
        log.warning("a policy: %s", line)
    if found:
        more = f"{len(found) - _MOST_WARNINGS:,} more; " if len(found) > _MOST_WARNINGS else ""
        log.warning("%swhat to do about policies: anew policy lint %s", more, named)


def _serve_metrics(app: Anew, port: int, host: str, insecure: bool) -> str:
    """Answer Prometheus until this process ends; give the address."""
    from anew.prometheus import serve

    server = serve(app, port, host=host, insecure=insecure)
    return f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics"


def _leave(app: Anew, worker: Worker) -> int:
    code = 0 if worker.stopped_by is None else 128 + worker.stopped_by
    if worker.has_given_up and worker.stopped_by is None:
        code = FAILURE
    app.close()
    if worker.given_back:
        # Python would wait for threads that handlers have started (asyncio.to_thread does), and the time for that is over.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _set_up_logs(log_format: str, level: str, *, short: bool) -> None:
    from anew import logs

    style = "json" if log_format == "json" else "pretty" if short else "compact"
    logs.set_up(style, level, handler=logging.StreamHandler(sys.stderr))


def started_text(app: Anew, options: Mapping[str, Any]) -> str:
    """Give the line that greets whoever starts a worker at a terminal."""
    facts = _started(app, options)
    return f"{counted(facts['tasks'], 'task')}, jobs in {facts['store']}, queues: {facts['queues']} (Ctrl-C stops)"


def _started(app: Anew, options: Mapping[str, Any]) -> dict[str, Any]:
    queues = options["queues"]
    pairs = [f"{name}:{number}" for name, number in queues.items()] if isinstance(queues, Mapping) else queues
    return {
        "tasks": len(app.tasks),
        "store": store_text(app.location),
        "queues": ",".join(pairs) or "all",
        "concurrency": options["concurrency"],
        "pid": os.getpid(),
    }


def store_text(location: str) -> str:
    """Give where jobs are, without what an address may hold that is secret."""
    if "://" not in location:
        return location
    parts = urlsplit(location)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
