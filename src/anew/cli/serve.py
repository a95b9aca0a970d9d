"""``anew serve``."""

from __future__ import annotations

from typing import Any

import click

from anew.cli.exit_codes import REFUSED
from anew.cli.settings import SettingsCommand, load, setting_options
from anew.config import require_safe_bind
from anew.errors import InvalidConfig


@click.command(cls=SettingsCommand)
@setting_options
def serve(**options: Any) -> int:
    """Run the server until a signal stops it (SIGTERM or Ctrl-C; twice: at once).

    SIGHUP reads certificates, tokens, cron entries and throttles again.

    Every option is a variable too (--max-body is ANEW_MAX_BODY; the variables of Zizq, ZIZQ_PORT and so on,
    are read as well), and a key of anew.toml, under [server]. The option counts before the variable, the
    variable before the file. FAKTORY_PASSWORD and Faktory's own files count too (docs/faktory.md).
    Times are written 500ms, 15s, 1h30m, 7d; a bare number is milliseconds in variables,
    in the file and in the options that Zizq has too, and is refused in the others. Sizes are written 64MiB, 256MB.
    What only tunes Zizq's own storage is accepted and has no effect.

    \b
    Examples:
      anew serve
      anew serve --root-dir /var/lib/anew --default-policy even
      ANEW_TOKEN=@/etc/anew/token anew serve --host 0.0.0.0 --tls-cert server.pem --tls-key server.key
      anew serve --tokens-file /etc/anew/tokens            tokens with roles: anew token new makes them
      FAKTORY_PASSWORD=/etc/anew/faktory anew serve --fwp-host 0.0.0.0 --fwp-tls-cert server.pem --fwp-tls-key server.key
      ANEW_TOKEN=@/etc/anew/token anew serve --host 10.0.0.5 --insecure     behind a proxy that ends TLS
      anew config show --origin            what all of it comes to

    \b
    Exit codes: 0 stopped by a signal, 1 failure (the disk, above all), 2 a setting does not fit,
    5 refused (unsafe bind, store in use).
    """
    loaded = load(options)
    try:
        require_safe_bind(loaded.settings)
    except InvalidConfig as error:
        click.echo(f"Error: {error}", err=True)
        return REFUSED
    from anew.app.server import serve as serve_until_stopped

    return serve_until_stopped(loaded, lambda: load(options))
