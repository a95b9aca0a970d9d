"""The frames of HTTP/2: their numbers and limits, the bytes of those that we send, and what a broken rule costs.

Source:
    RFC 9113, "HTTP/2", sections 4, 6 and 7.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

frame_head_bytes = 9
max_frame_bytes = 1 << 14  # what we accept, RFC 9113's own default
max_window = (1 << 31) - 1
default_window = (1 << 16) - 1

# Length in two parts (1 + 2 bytes), type, flags, stream. A frame is never an object.
frame_head = Struct(">BHBBL")
pair = Struct(">HL")  # one setting: identifier, value
word = Struct(">L")

# Types and flags are plain numbers: they are compared for every frame.
DATA = 0
HEADERS = 1
PRIORITY = 2
RST_STREAM = 3
SETTINGS = 4
PUSH_PROMISE = 5
PING = 6
GOAWAY = 7
WINDOW_UPDATE = 8
CONTINUATION = 9

END_STREAM = 0x1
ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITISED = 0x20


class Code(IntEnum):
    """Why a stream or a connection ends (section 7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class Setting(IntEnum):
    """What SETTINGS can set (section 6.5.2)."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class ConnectionFault(Exception):
    """The peer broke a rule of the connection: GOAWAY and close.

    Args:
        code: Sent with GOAWAY.
        reason: What was wrong, a fixed text of ours; travels as GOAWAY's debug data.
    """

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class StreamFault(Exception):
    """The peer broke a rule of one stream: RST_STREAM, the connection goes on.

    Args:
        stream_id: The stream.
        code: Sent with RST_STREAM.
        reason: What was wrong, a fixed text of ours.
    """

    def __init__(self, stream_id: int, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.stream_id = stream_id
        self.code = code


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Build one frame; the payload must fit the peer's frame size."""
    length = len(payload)
    return frame_head.pack(length >> 16, length & 0xFFFF, kind, flags, stream_id) + payload


def settings(values: dict[Setting, int]) -> bytes:
    """Build a SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join([pair.pack(key, value) for key, value in values.items()]))


settings_ack = frame(SETTINGS, ACK, 0)


def ping_ack(payload: bytes) -> bytes:
    """Build the answer to a PING with its 8 bytes."""
    return frame(PING, ACK, 0, payload)


def window_update(stream_id: int, increment: int) -> bytes:
    """Build a WINDOW_UPDATE; stream 0 is the connection."""
    return frame(WINDOW_UPDATE, 0, stream_id, word.pack(increment))


def rst_stream(stream_id: int, code: Code) -> bytes:
    """Build a RST_STREAM."""
    return frame(RST_STREAM, 0, stream_id, word.pack(code))


def goaway(last_stream_id: int, code: Code, reason: str = "") -> bytes:
    """Build a GOAWAY with a short reason as its debug data."""
    return frame(GOAWAY, 0, 0, word.pack(last_stream_id) + word.pack(code) + reason.encode())


def unpad(payload: bytes) -> bytes:
    """Take the padding off a DATA or HEADERS payload.

    Raises:
        ConnectionFault: The padding is as long as the payload or longer (RFC 9113 section 6.1).
    """
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(Code.PROTOCOL_ERROR, "padding is longer than its frame")
    return payload[1 : len(payload) - payload[0]]
