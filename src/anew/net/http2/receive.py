"""The frames that a peer sends, read one after another: heads and bodies go to the intake, the rest to their rules.

A frame is never an object: its head is unpacked where it lies and its payload sliced out where it is used.

Source:
    RFC 9113 sections 3.4, 4 and 6.
"""

from __future__ import annotations

from anew.net.http2.control import ControlFrames
from anew.net.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FRAME_SIZE_ERROR,
    HEADERS,
    PADDED,
    PRIORITISED,
    PROTOCOL_ERROR,
    SETTINGS,
    ConnectionFault,
    StreamFault,
    frame_head,
    frame_head_bytes,
    max_frame_bytes,
    max_window,
    preface,
    unpad,
    word,
)
from anew.net.http2.intake import Intake
from anew.net.http2.send import Sender
from anew.net.http2.streams import StreamTable
from anew.net.http2.watch import Budgets

max_block_bytes = 1 << 16
"""Bytes of a header block over all its frames; above the limit of a head, so that 431 can be said."""

max_block_frames = 32
"""Frames of one header block (CVE-2024-27316 and its kin)."""


class Receiver:
    """Reads one connection's frames.

    Args:
        intake: Gets header blocks and DATA.
        streams: The open streams.
        sender: Gets our side of SETTINGS, PING and WINDOW_UPDATE.
        budgets: What the peer may still do this second.

    Attributes:
        greeted: True once preface and first SETTINGS have come.
        frames: Frames read so far.
    """

    __slots__ = (
        "_block",
        "_block_flags",
        "_block_frames",
        "_block_stream",
        "_handlers",
        "_intake",
        "_streams",
        "_tail",
        "_unknown",
        "frames",
        "greeted",
    )

    def __init__(self, intake: Intake, streams: StreamTable, sender: Sender, budgets: Budgets) -> None:
        self._intake = intake
        self._streams = streams
        self._tail = b""
        self._block: bytearray | None = None
        self._block_stream = self._block_flags = self._block_frames = 0
        self.greeted = False
        self.frames = 0
        control = ControlFrames(intake, streams, sender, budgets)
        self._unknown = control.unknown
        self._handlers = control.handlers | {CONTINUATION: self._continuation}

    @property
    def tail_bytes(self) -> int:
        """Bytes of the frame that has not come completely."""
        return len(self._tail)

    def awaited(self) -> object:
        """Give a mark of the head or frame whose rest is owed; None if nothing must come soon."""
        if self._block is not None:
            return -self._block_stream
        if not self.greeted or (self._tail and not self._tail_is_body()):
            return self.frames
        return None

    def _tail_is_body(self) -> bool:
        # The clock of its request watches over a body.
        tail = self._tail
        if len(tail) < frame_head_bytes or tail[3] != DATA:
            return False
        return self._streams.awaits_body(int.from_bytes(tail[5:9], "big") & max_window)

    def feed(self, data: bytes) -> None:
        """Take what has arrived.

        Raises:
            ConnectionFault: A rule of the connection is broken; nothing more may be fed.
        """
        if self._tail:
            data = self._tail + data
            self._tail = b""
        at = 0 if self.greeted else self._greet(data)
        end = len(data)
        intake = self._intake
        while end - at >= frame_head_bytes:
            high, low, kind, flags, stream_id = frame_head.unpack_from(data, at)
            size = high << 16 | low
            if size > max_frame_bytes:
                raise ConnectionFault(FRAME_SIZE_ERROR, "a frame is larger than 16384 bytes")
            start = at + frame_head_bytes
            after = start + size
            if after > end:
                break
            at = after
            self.frames += 1
            stream_id &= max_window
            payload = data[start:after]
            try:
                if self._block is not None and (kind != CONTINUATION or stream_id != self._block_stream):
                    raise ConnectionFault(PROTOCOL_ERROR, "a header block is interrupted")
                if kind == DATA:
                    intake.data(stream_id, flags, payload)
                elif kind == HEADERS:
                    self._headers(stream_id, flags, payload)
                else:
                    self._handlers.get(kind, self._unknown)(stream_id, flags, payload)
            except StreamFault as fault:
                self._streams.fail(fault)
        if at < end:
            self._tail = data[at:]

    def _greet(self, data: bytes) -> int:
        """Look for preface and SETTINGS; give how many bytes to skip."""
        if data[: len(preface)] != preface[: len(data)]:
            raise ConnectionFault(PROTOCOL_ERROR, "this is not HTTP/2's preface")
        if len(data) < len(preface) + frame_head_bytes:
            self._tail = data
            return len(data)
        if data[len(preface) + 3] != SETTINGS or data[len(preface) + 4] & ACK:
            raise ConnectionFault(PROTOCOL_ERROR, "the first frame is not SETTINGS")
        self.greeted = True
        return len(preface)

    # -- header blocks

    def _headers(self, stream_id: int, flags: int, payload: bytes) -> None:
        if not stream_id & 1:
            raise ConnectionFault(PROTOCOL_ERROR, "a client's streams have odd numbers")
        if flags & (PADDED | PRIORITISED):
            if flags & PADDED:
                payload = unpad(payload)
            if flags & PRIORITISED:
                if len(payload) < 5:
                    raise ConnectionFault(FRAME_SIZE_ERROR, "HEADERS is too short for its priority")
                if word.unpack_from(payload)[0] & max_window == stream_id:
                    # By the letter a stream's error; but its block would go unread.
                    raise ConnectionFault(PROTOCOL_ERROR, "a stream depends on itself")
                payload = payload[5:]
        if flags & END_HEADERS:
            self._intake.headers(stream_id, flags & END_STREAM, payload)
        else:
            self._block = bytearray(payload)
            self._block_stream, self._block_flags, self._block_frames = stream_id, flags, 0

    def _continuation(self, stream_id: int, flags: int, payload: bytes) -> None:
        block = self._block
        if block is None:
            raise ConnectionFault(PROTOCOL_ERROR, "CONTINUATION without HEADERS")
        block += payload
        self._block_frames += 1
        if len(block) > max_block_bytes or self._block_frames > max_block_frames:
            raise ConnectionFault(ENHANCE_YOUR_CALM, "a header block is too large or in too many pieces")
        if flags & END_HEADERS:
            self._block = None
            self._intake.headers(stream_id, self._block_flags & END_STREAM, bytes(block))
