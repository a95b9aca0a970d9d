"""What peers have not taken of their answers, counted over all connections.

An answer that nobody reads stays in memory until its peer is cut off. A few hundred connections that ask for long pages and
read none would fill the memory within seconds, so the sum decides what may still be rendered.
"""

from __future__ import annotations

from anew.net.seam import WireCounters


class Debt:
    """One connection's part of `WireCounters.unsent`.

    Brought up to date where much may change (the transport fills up or has emptied, an answer has to wait for a window) and by the
    sweep, not with every answer: short ones are taken before it could matter.

    Attributes:
        size: Bytes of it that are counted now.
    """

    __slots__ = ("_counters", "size")

    def __init__(self, counters: WireCounters) -> None:
        self._counters = counters
        self.size = 0

    def becomes(self, size: int) -> None:
        """Count so many bytes from now on."""
        self._counters.unsent += size - self.size
        self.size = size
