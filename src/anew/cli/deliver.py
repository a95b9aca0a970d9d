"""``anew deliver``."""

from __future__ import annotations

from typing import Any

import click

from anew.cli.settings import SettingsCommand, load, options_of


@click.command(cls=SettingsCommand)
@options_of("store", "webhooks", "log")
def deliver(**options: Any) -> int:
    """Deliver what is published on topics to webhooks, until a signal stops it (SIGTERM or Ctrl-C; twice: at once).

    `anew serve` runs one such process itself; more of them, on the same machine, share the work. It needs the
    store, and no server: the same variables and the same anew.toml say what holds.

    \b
    Examples:
      anew deliver
      anew deliver --root-dir /var/lib/anew --deliverer-slots 500
      anew deliver --webhook-allow-http --webhook-allow-cidrs 127.0.0.1/32      to try it on one machine

    \b
    Exit codes: 0 stopped by a signal, 1 the store failed, 2 a setting does not fit.
    """
    loaded = load(options)
    from anew.app.deliver import deliver as deliver_until_stopped

    return deliver_until_stopped(loaded)
