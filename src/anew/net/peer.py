"""What a connection knows of its peer: where it is, what it has not read yet, how fast its body comes in.

Answers that nobody reads are bounded twice. Send buffers of the kernel grow by themselves to several megabytes: without a bound a
thousand jobs vanish into one that nobody reads, while the transport, whose own buffer stays empty, sees nothing wrong. And a few
hundred connections that ask for long pages and read none would fill the memory, so the sum over all of them is counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections import deque
from fcntl import ioctl
from termios import FIONREAD, TIOCOUTQ

from anew.net.seam import WireCounters, WireLimits

send_buffer = 256 << 10
"""Bytes that the kernel may keep of one stream; Linux doubles it for its own bookkeeping."""

pace_window_ms = 5_000
"""Over how long the rate of a body is judged: who sends most of one and then stops is noticed as soon as who never began."""


def bound_send_buffer(transport: asyncio.Transport) -> None:
    """Let the kernel keep no more of a stream than `send_buffer`."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)


def unsent(transport: asyncio.Transport) -> int:
    """Count the bytes that the kernel has taken and the peer has not; 0 if the kernel does not say.

    Source:
        tcp(7), SIOCOUTQ, which is TIOCOUTQ by another name.
    """
    return _asked(transport, TIOCOUTQ) or 0


def sent(transport: asyncio.Transport, written: int) -> int:
    """Count the bytes that a transport has been given to send, as those are counted that wait: with what TLS has added.

    Args:
        transport: The connection's transport.
        written: The bytes that were written to it.
    """
    overhead: int = transport.get_extra_info("tls_overhead", 0)
    return written + overhead


def came(transport: asyncio.Transport, received: int) -> int:
    """Count the bytes that have come from a peer, with those that TLS cannot decrypt yet: a record has up to 16 KiB.

    Without them who sends one at a slow but sufficient rate would seem to send nothing for seconds.

    Args:
        transport: The connection's transport.
        received: The bytes that it has given.
    """
    undecrypted: int = transport.get_extra_info("tls_undecrypted", 0)
    return received + undecrypted


def is_quiet(transport: asyncio.Transport) -> bool:
    """Say for sure that all was handed to the kernel, and that nothing the peer has sent is unread.

    To close then sends no reset, which could destroy what is still on its way (RFC 9112, 9.6).
    """
    return not transport.get_write_buffer_size() and _asked(transport, FIONREAD) == 0


def silent_ms(transport: asyncio.Transport) -> int | None:
    """Give how long ago the kernel received the last bytes of a peer, read or not; None if it does not say.

    Source:
        tcp(7), TCP_INFO: `tcpi_last_data_recv`, the twelfth of the words behind eight bytes.
    """
    sock = transport.get_extra_info("socket")
    if sys.platform != "linux" or sock is None or transport.is_closing():
        return None  # other systems have no such option, or other words in it
    try:
        told = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 56)
    except OSError:
        return None
    return int.from_bytes(told[52:56], sys.byteorder) if len(told) == 56 else None


def _asked(transport: asyncio.Transport, what: int) -> int | None:
    """Ask the kernel for a number of bytes; None if it does not say."""
    sock = transport.get_extra_info("socket")
    if sock is None or transport.is_closing():
        return None
    try:
        return int.from_bytes(ioctl(sock.fileno(), what, bytes(4)), sys.byteorder)
    except OSError:
        return None


class Unsent:
    """One connection's part of `WireCounters.unsent`.

    Brought up to date where much may change (the transport fills up or has emptied, an answer has to wait for a window) and by
    the sweep, not with every answer: short ones are taken before it could matter.

    Attributes:
        size: Bytes of it that are counted now.
    """

    __slots__ = ("_counters", "_held", "size")

    def __init__(self, counters: WireCounters) -> None:
        self._counters = counters
        self._held = 0  # bytes of long answers of which some wait to be sent
        self.size = 0

    def hold(self, size: int) -> None:
        """Note a long answer, which is written next: the transport holds it whole until its last byte has left."""
        self._held += size

    def waits(self, size: int, besides: int = 0) -> None:
        """Count so many bytes that wait to be sent, with the whole of long answers among them, and what is held besides."""
        if not size:
            self._held = 0
        self.becomes(max(size, self._held) + besides if size else 0)

    def becomes(self, size: int) -> None:
        """Count so many bytes from now on."""
        self._counters.unsent += size - self.size
        self.size = size


class Waiting:
    """How long something has stood still, by the sweep's clock: none is read where bytes are handled."""

    __slots__ = ("_mark", "_since")

    def __init__(self) -> None:
        self._mark: object = None
        self._since = 0

    def stands_for(self, now_ms: int, mark: object) -> int:
        """Give for how many milliseconds the mark has been the same; None: nothing is awaited."""
        if mark is None or mark != self._mark:
            self._mark = mark
            self._since = now_ms
        return now_ms - self._since


class Pace:
    """How fast a body comes in, over the last seconds.

    Args:
        now_ms: When the body begins, by the monotonic clock.
    """

    __slots__ = ("_began_ms", "_seen")

    def __init__(self, now_ms: int) -> None:
        self._began_ms = now_ms
        self._seen = deque([(now_ms, 0)])

    def is_slow(self, now_ms: int, received: int, limits: WireLimits) -> bool:
        """Judge the rate, by what has come in altogether until now; to be asked at least once a second."""
        seen = self._seen
        while len(seen) > 1 and seen[1][0] <= now_ms - pace_window_ms:
            seen.popleft()
        since_ms, had = seen[0]
        if now_ms - seen[-1][0] >= pace_window_ms // 10:
            seen.append((now_ms, received))
        grace_ms = limits.header_timeout_ms
        if now_ms - self._began_ms < grace_ms or now_ms - since_ms < min(grace_ms, pace_window_ms):
            return False
        return (received - had) * 1000 < (now_ms - since_ms) * limits.body_rate

    def pause(self, paused_ms: int, now_ms: int, received: int) -> None:
        """Leave out the time in which we did not read, which is not the peer's: the window begins anew.

        Args:
            paused_ms: How long that was.
            now_ms: The monotonic clock.
            received: What had come in until then.
        """
        self._began_ms += paused_ms
        self._seen = deque([(now_ms, received)])
