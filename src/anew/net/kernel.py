"""What the kernel holds of a connection: bounded for a peer that does not read, and counted.

Send buffers grow by themselves to several megabytes. Without a bound a thousand jobs vanish into one that nobody
reads, and the transport, whose own buffer stays empty, sees nothing wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from fcntl import ioctl
from termios import FIONREAD, TIOCOUTQ

send_buffer = 256 << 10
"""Bytes that the kernel may keep of one stream; Linux doubles it for its own bookkeeping."""


def bound(transport: asyncio.Transport) -> None:
    """Let the kernel keep no more of a stream than `send_buffer`."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)


def unsent(transport: asyncio.Transport) -> int:
    """Count the bytes that the kernel has taken and the peer has not; 0 if that cannot be told.

    Source:
        tcp(7), SIOCOUTQ, which is TIOCOUTQ by another name.
    """
    return _asked(transport, TIOCOUTQ) or 0


def is_quiet(transport: asyncio.Transport) -> bool:
    """Tell for sure that all was handed to the kernel, and that nothing the peer has sent is unread.

    To close then sends no reset, which could destroy what is still on its way (RFC 9112, 9.6).
    """
    return not transport.get_write_buffer_size() and _asked(transport, FIONREAD) == 0


def _asked(transport: asyncio.Transport, what: int) -> int | None:
    """Ask the kernel for a number of bytes; None if it does not say."""
    sock = transport.get_extra_info("socket")
    if sock is None or transport.is_closing():
        return None
    try:
        return int.from_bytes(ioctl(sock.fileno(), what, bytes(4)), sys.byteorder)
    except OSError:
        return None
