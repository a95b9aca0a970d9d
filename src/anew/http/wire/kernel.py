"""What the kernel holds of a stream for a peer that does not read: bounded, and counted.

Send buffers grow by themselves to several megabytes. Without a bound a thousand jobs vanish into one that nobody
reads, and the transport, whose own buffer stays empty, sees nothing wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys

try:
    from fcntl import ioctl
    from termios import TIOCOUTQ
except ImportError:  # Windows does not tell; there the transport's own buffer must do
    ioctl = None  # type: ignore[assignment]

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
    sock = transport.get_extra_info("socket")
    if sock is None or ioctl is None or transport.is_closing():
        return 0
    try:
        return int.from_bytes(ioctl(sock.fileno(), TIOCOUTQ, bytes(4)), sys.byteorder)
    except OSError:
        return 0
