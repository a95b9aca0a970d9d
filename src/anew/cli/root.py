"""The command ``anew`` itself: finds the subcommand, and turns errors into words and exit codes."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Final

import click

from anew import __version__
from anew.cli.exit_codes import FAILURE, exit_code, explained
from anew.cli.lazy import LazyGroup
from anew.errors import AnewError

_COMMANDS: Final = {
    "serve": ("anew.cli.serve", "Run the server."),
    "enqueue": ("anew.cli.enqueue", "Put a job into a queue."),
    "worker": ("anew.cli.worker", "Run the tasks of a Python application."),
    "work": ("anew.cli.work", "Run a program for each job of a queue."),
    "jobs": ("anew.cli.jobs", "List, show, change, replan, retry, cancel and delete jobs."),
    "queues": ("anew.cli.queues", "Show the queues and what is in them; pause and resume them."),
    "health": ("anew.cli.status", "Ask whether the server answers."),
    "top": ("anew.cli.top", "Watch a server's jobs on the terminal."),
    "dead": ("anew.cli.dead", "List dead jobs, and bring them back."),
    "cron": ("anew.cli.cron", "List cron entries, and see when an expression fires."),
    "topic": ("anew.cli.topics.topic", "Create, list, change and remove topics."),
    "sub": ("anew.cli.topics.subscription", "Subscribe webhooks and queues to topics, and look after them."),
    "publish": ("anew.cli.topics.topic", "Publish a message: every subscriber gets it."),
    "delivery": ("anew.cli.topics.delivery", "Look at deliveries, and send them again."),
    "replay": ("anew.cli.topics.delivery", "Send a subscription what has failed, or what it has missed."),
    "deliver": ("anew.cli.deliver", "Deliver what is published on topics to webhooks."),
    "listen": ("anew.cli.listen", "Receive webhooks on this machine, and show them."),
    "fwp": ("anew.cli.fwp", "Ask a server by the Faktory Work Protocol."),
    "policy": ("anew.cli.policy", "See what a retry policy will do."),
    "lab": ("anew.cli.lab", "Simulate, compare, draw and fit retry policies; open the lab in a browser."),
    "import": ("anew.cli.importing:import_group", "Bring the jobs of another job queue over."),
    "doctor": ("anew.cli.doctor", "Check a store, and rebuild its counters."),
    "backup": ("anew.cli.doctor", "Copy a store while its server goes on."),
    "compact": ("anew.cli.compact", "Have a server remove what is needed no more, now."),
    "restore": ("anew.cli.doctor", "Put a copy made by backup in a store's place."),
    "tls": ("anew.cli.tls", "Make certificates for servers and clients."),
    "token": ("anew.cli.token", "Make tokens with roles, and show those of a file."),
    "config": ("anew.cli.config", "Show the settings and where they come from."),
    "completion": ("anew.cli.completion", "Let the shell complete commands and options."),
}
"""Subcommands: see `LazyGroup`."""

_LONGEST: Final = 1_000
"""Characters of a line of an error; what is longer repeats an argument that nobody wants to read again."""


@click.group(
    cls=LazyGroup,
    table=_COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="anew %(version)s")
@click.pass_context
def root(ctx: click.Context) -> None:
    """Anew: a durable job queue. Jobs fail; Anew tries again, well.

    \b
    Try it:
      anew serve                                            in one terminal
      anew enqueue greet --queue hello '{"name": "Ada"}'    in another
      anew work --queue hello -- cat

    \b
    Each command has its own --help with examples. Options such as --url and
    --json stand behind the command; ANEW_URL and ANEW_TOKEN hold for all.

    \b
    Exit codes: 0 done, 1 failure, 2 usage, 3 no server answered, 4 not found,
    5 refused, 129/130/143 ended by a signal.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Words after the program's name; None takes this process's own.

    Returns:
        The exit code.
    """
    try:
        result = root.main(
            args=None if arguments is None else [*arguments], prog_name="anew", standalone_mode=False
        )
    except click.UsageError as error:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            error.show()
        else:
            from anew.cli import usage  # only where something is wrong: help starts fast

            words = sys.argv[1:] if arguments is None else arguments
            _complain(f"Error: {usage.explained(error, root, words)}")
        return error.exit_code
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        _complain(shown.getvalue().rstrip("\n"))
        return error.exit_code
    except click.Abort:
        return 130
    except AnewError as error:
        _complain(f"Error: {explained(error)}")
        return exit_code(error)
    except MemoryError:
        _complain("Error: this needs more memory than there is")
        return FAILURE
    return result if isinstance(result, int) else 0


def _complain(text: str) -> None:
    """Write an error, without what a terminal would obey: it repeats what somebody gave."""
    from anew.cli.output import one_line  # only where something is wrong: help starts fast

    click.echo("\n".join(_shortened(one_line(line)) for line in text.split("\n")), err=True)


def _shortened(line: str) -> str:
    """Leave the middle out of a line that repeats a huge argument."""
    half = _LONGEST // 2
    return line if len(line) <= _LONGEST else f"{line[:half]} ... {line[-half:]}"
