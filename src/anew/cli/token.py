"""``anew token``: makes tokens with roles, and shows which a file has."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from anew.cli.lazy import CommandGroup
from anew.cli.output import show_json, show_table
from anew.config.token_file import ROLES, add_line, line_of, new_token, read_tokens

_json: Final = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")


@click.group(cls=CommandGroup)
def token() -> None:
    """Make tokens with roles, and show those of a file.

    A server that is started with --tokens-file takes each of its tokens for what its roles allow: admin may do everything, read
    looks, producer enqueues and publishes, worker takes jobs and reports how they have ended. The file has no token, only the
    SHA-256 of each.

    \b
    Examples:
      anew token new --role producer --name web-app --file /etc/anew/tokens
      anew token list /etc/anew/tokens
      anew serve --tokens-file /etc/anew/tokens
    """


@token.command("new")
@click.option(
    "--role", "roles", multiple=True, required=True, type=click.Choice(ROLES), help="What it is for; may be given again."
)  # fmt: skip
@click.option("--name", required=True, metavar="NAME", help="Whose it is, for people who read the file.")
@click.option(
    "--file", metavar="FILE", help="File to add its line to; made if it is missing. [it is printed]"
)
@_json
def new(roles: tuple[str, ...], name: str, file: str | None, as_json: bool) -> None:
    """Make a token, and print it: it cannot be shown again.

    With --file its line is added to the file, and a running server knows it after SIGHUP. Without, the line is printed
    below the token. To replace a token, make a new one, give it to its clients, then remove the line of the old one.

    \b
    Examples:
      anew token new --role producer --name web-app --file /etc/anew/tokens
      anew token new --role worker --role producer --name mailer
    """
    made = new_token()
    line = line_of(made, dict.fromkeys(roles), name)
    if file is not None:
        add_line(Path(file), line)
    if as_json:
        show_json({"token": made, "line": line, "file": file})
        return
    click.echo(made)
    if file is None:
        click.echo(line)
        click.echo("The first line is the token, the second belongs in the file of --tokens-file.", err=True)
    else:
        click.echo(f"{file} has its line; a server that runs reads it at SIGHUP.", err=True)


@token.command("list")
@click.argument("file", metavar="FILE")
@_json
def list_tokens(file: str, as_json: bool) -> None:
    """List the tokens of a file: their names, their roles, and how their SHA-256 begins.

    \b
    Examples:
      anew token list /etc/anew/tokens
    """
    tokens = [
        {"name": one.name, "roles": sorted(one.roles), "sha256": one.digest.hex()}
        for one in read_tokens(Path(file))
    ]
    if as_json:
        show_json({"tokens": tokens})
        return
    show_table(
        ("name", "roles", "sha256"),
        [(str(one["name"]), ",".join(one["roles"]), f"{one['sha256'][:12]}…") for one in tokens],
    )
