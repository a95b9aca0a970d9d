"""``anew fwp``: ask a server by the Faktory Work Protocol."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from anew.cli.lazy import CommandGroup
from anew.cli.output import one_line, show_json, show_table
from anew.cli.remote import certificate_options
from anew.client.fwp import FwpClient
from anew.client.transport import DEFAULT_URL
from anew.config import find_file, fwp_url, load_connect
from anew.errors import InvalidInput
from anew.units import format_duration_about, reason_of


@click.group(cls=CommandGroup)
def fwp() -> None:
    """Ask a server by the Faktory Work Protocol whether and how it is.

    The address is --url, else FAKTORY_URL (or the variable that FAKTORY_PROVIDER names), else fwp-port and fwp-host
    of ./anew.toml. Its password stands in it, tcp://:PASSWORD@HOST:7419, or in FAKTORY_PASSWORD; a value that begins
    with a slash is the path of a file.

    \b
    Examples:
      anew fwp ping
      anew fwp info --url tcp://queue.example.org:7419
      anew fwp ping --url tcp+tls://queue.example.org:7419 --ca ca-cert.pem
    """


def _connected(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--url``, certificates and ``--json``, and a connection and the latter as its arguments."""

    @click.option(
        "--url", metavar="URL", help="Address of the server. [FAKTORY_URL, anew.toml, tcp://127.0.0.1:7419]"
    )
    @certificate_options
    @click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
    @functools.wraps(function)
    def command(url: str | None, as_json: bool, **files: str | None) -> Any:
        place, password = url or address(os.environ), _password(os.environ)
        # The HTTP address beside them in the same file and variables does not concern this command.
        flags = {"client.url": DEFAULT_URL} | {f"client.{name}": file for name, file in files.items()}
        given = load_connect(flags, os.environ, find_file(None, os.environ))
        with FwpClient(place, password=password, ca=given.ca, cert=given.cert, key=given.key) as client:
            return function(client, as_json)

    return command


@fwp.command("ping")
@_connected
def ping(client: FwpClient, as_json: bool) -> None:
    """Say HELLO, and ask for one answer.

    Exit code 0 if the server answers, 3 if none does, 5 if it asks for another password.

    \b
    Examples:
      anew fwp ping
      anew fwp ping --url tcp://queue.example.org:7419
    """
    began = time.monotonic()
    server = client.info()["server"]
    took_ms = (time.monotonic() - began) * 1_000
    name = f"{server.get('description', 'unknown')} {server.get('faktory_version', '')}".strip()
    if as_json:
        show_json({"status": "ok", "url": client.address, "server": name, "took_ms": round(took_ms, 3)})
    else:
        click.echo(one_line(f"ok  {client.address}  {name}  {took_ms:.1f} ms"))


@fwp.command("info")
@_connected
def info(client: FwpClient, as_json: bool) -> None:
    """Show the server, its queues and its sets, as INFO gives them.

    \b
    Examples:
      anew fwp info
      anew fwp info --json
      FAKTORY_URL=tcp://queue.example.org:7419 anew fwp info
    """
    found = client.info()
    if as_json:
        show_json(found)
        return
    faktory, server = found["faktory"], found["server"]
    click.echo(one_line(f"{server.get('description')} {server.get('faktory_version')} at {client.address}"))
    uptime = server.get("uptime")
    up = format_duration_about(uptime * 1_000) if isinstance(uptime, int) else "-"
    click.echo(
        one_line(
            f"up {up}, {server.get('connections')} connections, {server.get('command_count')} commands, "
            f"{server.get('used_memory_mb')} MB; processed {faktory.get('total_processed')}, "
            f"failed {faktory.get('total_failures')}"
        )
    )
    for heading, name in (("SET", "sets"), ("QUEUE", "queues")):
        rows = [(str(key), str(count)) for key, count in _members(faktory, name).items()]
        if rows:
            click.echo()
            show_table((heading, "JOBS"), rows)


def _members(faktory: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = faktory.get(name)
    return value if isinstance(value, dict) else {}


def address(environ: Mapping[str, str]) -> str:
    """Give the server's address as Faktory's clients find it, else that of the server that would start here.

    Raises:
        InvalidInput: FAKTORY_PROVIDER holds an address, and not the name of the variable that does.
        InvalidConfig: The file of settings cannot be read.
    """
    provider = environ.get("FAKTORY_PROVIDER", "")
    if ":" in provider:
        raise InvalidInput(
            "FAKTORY_PROVIDER: the value is not valid; expected the name of the variable that holds the address",
            field="FAKTORY_PROVIDER",
        )
    given = environ.get(provider or "FAKTORY_URL")
    return given or fwp_url(environ, find_file(None, environ))


def _password(environ: Mapping[str, str]) -> str:
    given = environ.get("FAKTORY_PASSWORD", "")
    if not given.startswith("/"):
        return given
    try:
        return Path(given).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"FAKTORY_PASSWORD: the file cannot be read: {reason_of(error)}", field="FAKTORY_PASSWORD"
        ) from error
