"""Runs a coroutine on the fastest loop there is: what stops it, and words for the address that it serves."""

from __future__ import annotations

import faulthandler
import gc
import os
import re
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

from anew.errors import Unavailable
from anew.net.listener import raise_descriptor_limit

SWITCH_INTERVAL_S = 0.0005
"""How long a busy thread keeps the interpreter's lock when another wants it: the reader's thread must not make the loop's thread
wait the usual 5 ms at each of its steps."""


COLLECTED_AT = 10_000
"""New containers after which the collector looks for rings among them. With the usual 700 it looks several times in each batch of
two hundred operations, and finds nothing: a request's objects are gone with its answer."""


def run_loop(main: Any) -> int:
    """Run a server's coroutine on the fastest loop there is, with as many descriptors as this process may have."""
    raise_descriptor_limit()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()  # what was imported stays; the collector need not visit it again and again
    gc.set_threshold(COLLECTED_AT)
    try:
        import uvloop
    except ImportError:
        import asyncio

        return int(asyncio.run(main))
    return int(uvloop.run(main))


def stop_signals() -> tuple[signal.Signals, ...]:
    """Give the signals that mean stop: SIGTERM, Ctrl-C, and SIGHUP of a terminal that is closed.

    The latter two are not among them where whoever started this process has it ignore them, as a shell has for Ctrl-C in its
    background jobs, and ``nohup`` for SIGHUP.
    """
    heeded = [n for n in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
    return (signal.SIGTERM, *heeded)


def show_stacks_when_asked() -> None:
    """Have SIGTTIN print the stacks of all threads to stderr, and nothing else: its usual effect would stop the process."""
    if sys.__stderr__ is not None:
        faulthandler.register(signal.SIGTTIN, sys.__stderr__, all_threads=True)


def tell_systemd(state: str) -> None:
    """Tell whoever has started this process how it gets on, as systemd wants it of services of the type ``notify``.

    Args:
        state: ``READY=1`` or ``STOPPING=1``.

    Source:
        sd_notify(3): a datagram to the socket that NOTIFY_SOCKET names, where an ``@`` stands for a null byte.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.setblocking(False)
        manager.sendto(state.encode(), re.sub("^@", "\0", address))


_WITHOUT = {
    "--fwp-": ", --no-fwp leaves the Faktory protocol out",
    "--admin-": ", --no-admin leaves the admin listener out",
}


def address_of(host: str, port: int) -> str:
    """Write an address as a URL has it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def cannot_listen(host: str, port: int, error: OSError, prefix: str = "--") -> Unavailable:
    """Build the error that says what could not be listened on, why, and what would do.

    Args:
        host, port: The address.
        error: What the system said.
        prefix: What the flags begin with that name it.
    """
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    without = _WITHOUT.get(prefix, "")
    return Unavailable(
        f"cannot listen on {prefix}host {host} {prefix}port {port} ({reason}); expected an address of this machine and "
        f"a port that no other program has ({prefix}port 0 takes a free one{without})"
    )
