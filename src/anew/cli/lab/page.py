"""``anew lab open``: the lab's page in a browser, served by this machine alone."""

from __future__ import annotations

from typing import Any, Final

import click

from anew.cli.exit_codes import REFUSED
from anew.config import load_settings, require_safe_bind
from anew.errors import InvalidConfig

PORT: Final = 7891


@click.command("open")
@click.option("--host", metavar="ADDRESS", help="Address to bind. [127.0.0.1]")
@click.option("--port", metavar="N", help=f"Port; 0 takes a free one. [{PORT}]")
@click.option(
    "--token", metavar="TOKEN", help="Password that browsers must give, with any name; @path reads it."
)
@click.option(
    "--tls-cert", metavar="PEM", help="Certificate: the page comes by https. anew tls init makes one."
)
@click.option("--tls-key", metavar="PEM", help="Its private key.")
@click.option(
    "--insecure", is_flag=True, help="Allow a bind beyond loopback without TLS, or without a token."
)
@click.option(
    "--allowed-hosts",
    metavar="NAMES",
    help="Comma list of names that browsers may use beside the loopback ones.",
)
def open_lab(**options: Any) -> int:
    """Serve the lab's page until Ctrl-C, without any store. Plain anew lab does the same.

    The page shows what retry policies do: curves, herds of jobs, the load on what they call. It keeps its
    whole state in the address, so a link is all that there is to share. anew serve has the page too, at /lab.

    \b
    Examples:
      anew lab
      anew lab open --port 8080
      anew lab --host 0.0.0.0 --token @lab.token --tls-cert lab.pem --tls-key lab.key
    """
    given = {name.replace("_", "-"): value for name, value in options.items() if value not in (None, False)}
    # No variables and no file: those are the server's, and this is another one.
    listen = load_settings({"port": str(PORT), "no-fwp": True} | given, {}, None).settings
    try:
        require_safe_bind(listen)
    except InvalidConfig as error:
        click.echo(f"Error: {error}", err=True)
        return REFUSED
    from anew.app.lab import serve_lab

    return serve_lab(listen.listen, lambda url: click.echo(f"The lab: {url}  (end it with Ctrl-C)"))
