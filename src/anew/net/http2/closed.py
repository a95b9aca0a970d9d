"""Streams that are over, or never were: which frames that still come are ignored, and which are the peer's fault.

Source:
    RFC 9113 sections 5.1 and 5.1.1.
"""

from __future__ import annotations

from anew.net.http2.frames import Code, ConnectionFault

cuts_remembered = 512
"""Streams that we have cut off and whose remaining frames are ignored."""

gaps_remembered = 16
"""Ranges of stream numbers that a peer has skipped and that are not taken for closed streams; the last few at least."""


class ClosedStreams:
    """What one connection knows of the streams that are not open.

    Attributes:
        last: Highest stream number seen.
    """

    __slots__ = ("_answered", "_cut", "_gaps", "last")

    def __init__(self) -> None:
        self.last = 0
        self._gaps: list[range] = []
        self._cut: dict[int, None] = {}
        self._answered: dict[int, bool] = {}  # while the request is still coming; True once `due` has seen it

    def reach(self, stream_id: int) -> None:
        """Take note of a new highest stream number; those passed over can never be used."""
        skipped = self.last + 2 if self.last else 1
        if stream_id != skipped:
            self._gaps = [*self._gaps[1 - gaps_remembered :], range(skipped, stream_id, 2)]
        self.last = stream_id

    def is_idle(self, stream_id: int) -> bool:
        """Whether a stream was never opened: too high, even, or skipped over."""
        if stream_id > self.last or not stream_id & 1:
            return True
        return bool(self._gaps) and any(stream_id in gap for gap in self._gaps)

    def cut(self, stream_id: int) -> None:
        """Take note that we have cut a stream off."""
        if len(self._cut) >= cuts_remembered:
            oldest = next(iter(self._cut))
            del self._cut[oldest]
            self._answered.pop(oldest, None)
        self._cut[stream_id] = None

    def answered(self, stream_id: int) -> None:
        """Take note that a request was answered before its end, and is cut off unless it ends soon.

        Not at once: curl and others forget the answer when RST_STREAM comes in the same read.
        """
        self.cut(stream_id)
        self._answered[stream_id] = False

    def ended(self, stream_id: int) -> None:
        """Take note that the peer has ended or reset its side."""
        self._answered.pop(stream_id, None)

    def due(self) -> list[int]:
        """Give the streams that were answered before the last call of this, and whose requests still come."""
        due = [stream_id for stream_id, seen in self._answered.items() if seen]
        self._answered = {stream_id: True for stream_id, seen in self._answered.items() if not seen}
        return due

    def pass_over(self, stream_id: int, ends: int) -> None:
        """Judge HEADERS or DATA for a stream that is not open.

        Args:
            stream_id: The stream.
            ends: Non-zero if END_STREAM was set.

        Raises:
            ConnectionFault: We did not cut the stream off, so the peer should know better.
        """
        if stream_id in self._cut:
            if ends:
                self.ended(stream_id)
        elif self.is_idle(stream_id):
            raise ConnectionFault(Code.PROTOCOL_ERROR, "a frame for an idle stream")
        else:
            raise ConnectionFault(Code.STREAM_CLOSED, "a frame for a closed stream")
