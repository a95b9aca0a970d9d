"""What the commands that call a server share: options, filters, the connection."""

from __future__ import annotations

import datetime
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from anew.client import Client, Filters
from anew.config import find_file, load_connect, load_webhooks
from anew.errors import InvalidInput
from anew.units import is_database, shown

if TYPE_CHECKING:
    from anew.client.admin import AdminClient

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSession:
    """A command's connection and the form of its answer.

    Attributes:
        client: The server's client.
        as_json: Whether a program reads the answer.
    """

    client: Client
    as_json: bool


def remote(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that reach a server, ``--json``, and a `ClientSession` as its first argument."""

    @click.option(
        "--url",
        metavar="URL",
        help="Address of the server, or where the jobs are: jobs.db, postgresql://... [ANEW_URL, anew.toml, http://127.0.0.1:7890]",
    )
    @click.option("--token", metavar="TOKEN", help="Bearer token; @path reads it from a file. [ANEW_TOKEN]")
    @certificate_options
    @click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
    @functools.wraps(function)
    def command(*args: Any, as_json: bool, **options: Any) -> Any:
        flags = {f"client.{name}": options.pop(name) for name in ("url", "token", "ca", "cert", "key")}
        with _client(flags) as client:
            return function(ClientSession(client=client, as_json=as_json), *args, **options)

    return command


def certificate_options(function: F) -> F:
    """Give a command ``--ca``, ``--cert`` and ``--key``; Zizq's names for them are taken too."""
    for names, text in reversed(
        (
            (("--ca", "--ca-cert"), "Certificates to trust, PEM. [ANEW_CA, the system's]"),
            (("--cert", "--client-cert"), "Client certificate, PEM. [ANEW_CERT]"),
            (("--key", "--client-key"), "Its private key, PEM. [ANEW_KEY, in the file of --cert]"),
        )
    ):
        function = click.option(*names, names[0].lstrip("-"), metavar="FILE", help=text)(function)
    return function


@contextmanager
def _client(flags: dict[str, Any]) -> Iterator[Client]:
    """Give the client of the server that options and variables name; of one for this command alone where they name a store."""
    file = find_file(None, os.environ)
    with ExitStack() as beside:
        path = store_of(flags["client.url"] or os.environ.get("ANEW_URL"))
        if path is not None:
            from anew.app.beside import (
                served,  # only here: help starts fast, and so do commands that call a server
            )

            url, token = beside.enter_context(served(path, load_webhooks(os.environ, file)))
            flags = {"client.url": url, "client.token": token}
        settings = load_connect(flags, os.environ, file)
        client = Client(
            settings.url,
            token=settings.token,
            timeout=datetime.timedelta(milliseconds=settings.timeout_ms),
            ca=settings.ca,
            cert=settings.cert,
            key=settings.key,
            retry=None,
        )
        with client:
            yield client


def admin(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that reach a server's admin listener, and an `AdminClient` as its first argument."""

    @admin_url
    @click.option("--token", metavar="TOKEN", help="Bearer token; @path reads it from a file. [ANEW_TOKEN]")
    @certificate_options
    @functools.wraps(function)
    def command(*args: Any, **options: Any) -> Any:
        names = {"admin-url": "admin_url", **{name: name for name in ("token", "ca", "cert", "key")}}
        flags = {f"client.{setting}": options.pop(option) for setting, option in names.items()}
        return function(admin_client(flags), *args, **options)

    return command


def admin_url(function: F) -> F:
    """Give a command the option that names the admin listener."""
    text = "Address of the server's admin listener. [ANEW_ADMIN_URL, anew.toml, http://127.0.0.1:8901]"
    return click.option("--url", "--admin-url", "admin_url", metavar="URL", help=text)(function)


def admin_client(flags: Mapping[str, Any]) -> AdminClient:
    """Give a client of the admin listener that options and variables name."""
    from anew.client.admin import AdminClient  # only here: most commands have no use for it

    settings = load_connect(flags, os.environ, find_file(None, os.environ))
    files = {"ca": settings.ca, "cert": settings.cert, "key": settings.key}
    return AdminClient(settings.admin_url, settings.token, settings.timeout_ms, **files)


def store_of(location: str | None) -> Path | str | None:
    """Give the store that stands in an address's place, as `anew.Anew` takes it; None: it is a server's address, or nothing."""
    if location and is_database(location):
        return location
    if not location or "://" in location:
        return None
    path = Path(location)
    return path if path.suffix in _FILE_ENDINGS or path.exists() else None


_FILE_ENDINGS: Final = (".db", ".sqlite", ".sqlite3")


def filter_options(*, status: bool = True, prefix: str = "") -> Callable[[F], F]:
    """Give a command the options that choose jobs; it receives them as one `Filters`.

    Args:
        status: Whether ``--status`` is among them.
        prefix: Put before each name: ``where-`` for a command whose ``--queue`` is a new value.
    """
    offered = {name: options for name, options in _FILTERS.items() if status or name != "status"}

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def command(*args: Any, **options: Any) -> Any:
            given: dict[str, Any] = {
                name.replace("-", "_"): options.pop(f"filter_{name.replace('-', '_')}") for name in offered
            }
            several = {name: _split(value) for name, value in given.items() if isinstance(value, tuple)}
            filters = Filters(**_with_retrying(given | several, prefix))
            return function(*args, filters=filters, **options)

        wrapped: Any = command
        for name, details in reversed(offered.items()):
            short = () if prefix else _SHORT.get(name, ())
            taken = f"filter_{name.replace('-', '_')}"
            wrapped = click.option(f"--{prefix}{name}", *short, taken, **details)(wrapped)
        result: F = wrapped
        return result

    return decorate


_FILTERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "status": {
        "multiple": True,
        "metavar": "STATUS",
        "help": "Only these: scheduled, ready, in_flight, completed, dead; several with commas. "
        "Or retrying: scheduled, and failed before; or cancelled, which are among the dead.",
    },
    "queue": {"multiple": True, "metavar": "QUEUE", "help": "Only these queues."},
    "type": {"multiple": True, "metavar": "TYPE", "help": "Only these types."},
    "jid": {"multiple": True, "metavar": "JID", "help": "Only jobs with these ids of their producers."},
    "error-type": {
        "multiple": True,
        "metavar": "CLASS",
        "help": "Only jobs whose latest failure is of these classes: TimeoutError.",
    },
    "priority": {"metavar": "RANGE", "help": "Only these priorities: 7, 10..20, ..5 or 9.."},
    "attempts": {"metavar": "RANGE", "help": "Only these numbers of failures: 0, ..2 or 3.."},
    "filter": {
        "metavar": "JQ",
        "help": "Only jobs whose payload this expression of jq selects: '.user_id == 42'.",
    },
}
_SHORT: Final = {"status": ("-s",), "queue": ("-q",), "type": ("-t",)}


_STATES: Final = {"scheduled": ("scheduled", "retrying"), "dead": ("dead", "cancelled")}
"""By status of the API: Anew's states where there are several."""


def _with_retrying(given: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Give the filters as the API knows them: there, a job that is retrying is scheduled and has failures.

    A cancelled one is dead there, and only Anew's own states tell it from others.

    Raises:
        InvalidInput: ``retrying`` stands beside another status or a number of failures, which one filter cannot say.
    """
    if "cancelled" in given.get("status", ()):
        states = dict.fromkeys(state for name in given["status"] for state in _STATES.get(name, (name,)))
        return given | {"status": (), "state": tuple(states)}
    if "retrying" not in given.get("status", ()):
        return given
    if set(given["status"]) != {"retrying"} or given["attempts"] is not None:
        raise InvalidInput(
            f"--{prefix}status retrying: expected it alone, without another status and without --{prefix}attempts",
            field="status",
            value="retrying",
        )
    return given | {"status": ("scheduled",), "attempts": "1.."}


def require_one_choice(
    job_ids: Sequence[str], filters: Filters, *, everything: bool, prefix: str = ""
) -> None:
    """Make sure that jobs are chosen in exactly one way.

    Raises:
        InvalidInput: They are not chosen, or in two ways.
    """
    if sum((bool(job_ids), bool(filters.given()), everything)) != 1:
        raise InvalidInput(f"which jobs? expected either ids, or filters such as --{prefix}queue, or --all")


def _split(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(part for value in values for part in value.split(","))


def confirm(question: str, *, yes: bool) -> None:
    """Let a person confirm what cannot be undone.

    Args:
        question: Without the question mark.
        yes: Whether ``--yes`` was given.

    Raises:
        InvalidInput: Nobody is there to ask.
        click.Abort: The answer was no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInput(f"{question}: add --yes to say so where nobody can be asked", field="yes")
    click.confirm(question, abort=True)


def given_text(value: str, at_most: int | None = None, *, expected: str = "a file that can be read") -> bytes:
    """Read an argument that may point elsewhere: ``@file`` is the file's content, ``-`` is stdin's.

    Args:
        value: The argument.
        at_most: Bytes that make sense; of a file or a stream without end no more is read.
        expected: What a file should have been, for the error.

    Raises:
        InvalidInput: The file cannot be read, or there are more bytes.
    """
    size = -1 if at_most is None else at_most + 1
    if value == "-":
        content = sys.stdin.buffer.read(size)
    elif value.startswith("@"):
        try:
            with open(value[1:], "rb") as file:
                content = file.read(size)
        except OSError as error:
            message = f"{value}: {error.strerror}; expected {expected}"
            raise InvalidInput(message, field="file", value=value) from error
    else:
        content = value.encode(errors="surrogateescape")
    if at_most is not None and len(content) > at_most:
        what = shown(value)[1:-1]
        raise InvalidInput(
            f"{what}: is too long; expected at most {at_most:,} bytes", field="file", value=value
        )
    return content
