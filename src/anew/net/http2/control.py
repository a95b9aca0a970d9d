"""The frames that carry no request: settings, windows, resets, pings. Each is judged by the rules of its type.

Source:
    RFC 9113 sections 5.1, 5.5 and 6.
"""

from __future__ import annotations

from collections.abc import Callable

from anew.net.http2.frames import (
    ACK,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    GOAWAY,
    PING,
    PRIORITY,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    SETTINGS_ENABLE_PUSH,
    SETTINGS_HEADER_TABLE_SIZE,
    SETTINGS_INITIAL_WINDOW_SIZE,
    SETTINGS_MAX_FRAME_SIZE,
    WINDOW_UPDATE,
    ConnectionFault,
    StreamFault,
    max_frame_bytes,
    max_window,
    pair,
    ping_ack,
    settings_ack,
    word,
)
from anew.net.http2.hpack import default_table_bytes
from anew.net.http2.intake import Intake
from anew.net.http2.send import Sender
from anew.net.http2.streams import StreamTable
from anew.net.http2.watch import Budgets, tiny_step


class ControlFrames:
    """Takes one connection's frames of all types but HEADERS, CONTINUATION and DATA.

    Args:
        intake: Told when the peer knows our settings.
        streams: The open streams.
        sender: Gets the peer's side of SETTINGS, PING and WINDOW_UPDATE.
        budgets: What the peer may still do this second.

    Attributes:
        handlers: What takes a frame, by its type: called with the stream's number, the flags and the payload, it
            raises StreamFault or ConnectionFault where a rule is broken.
    """

    __slots__ = ("_budgets", "_intake", "_sender", "_streams", "handlers")

    def __init__(self, intake: Intake, streams: StreamTable, sender: Sender, budgets: Budgets) -> None:
        self._intake = intake
        self._streams = streams
        self._sender = sender
        self._budgets = budgets
        self.handlers: dict[int, Callable[[int, int, bytes], None]] = {
            PRIORITY: self._priority,
            RST_STREAM: self._rst_stream,
            SETTINGS: self._settings,
            PUSH_PROMISE: self._push_promise,
            PING: self._ping,
            GOAWAY: self._goaway,
            WINDOW_UPDATE: self._window_update,
        }

    def _priority(self, stream_id: int, _flags: int, payload: bytes) -> None:
        self._budgets.spend_idle()
        if not stream_id:
            raise ConnectionFault(PROTOCOL_ERROR, "PRIORITY without a stream")
        if len(payload) != 5:
            raise StreamFault(stream_id, FRAME_SIZE_ERROR, "PRIORITY has 5 bytes")
        if word.unpack_from(payload)[0] & max_window == stream_id:
            raise StreamFault(stream_id, PROTOCOL_ERROR, "a stream depends on itself")

    def _rst_stream(self, stream_id: int, _flags: int, payload: bytes) -> None:
        if not stream_id or self._streams.is_idle(stream_id):
            raise ConnectionFault(PROTOCOL_ERROR, "RST_STREAM for an idle stream")
        if len(payload) != 4:
            raise ConnectionFault(FRAME_SIZE_ERROR, "RST_STREAM has 4 bytes")
        self._budgets.spend_reset()
        self._streams.was_reset(stream_id)

    def _settings(self, stream_id: int, flags: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(PROTOCOL_ERROR, "SETTINGS on a stream")
        if len(payload) % pair.size or (flags & ACK and payload):
            raise ConnectionFault(FRAME_SIZE_ERROR, "SETTINGS has 6 bytes for each value, none with ACK")
        self._budgets.spend_idle()
        if flags & ACK:
            self._intake.acknowledged()
            return
        for key, value in pair.iter_unpack(payload):
            self._setting(key, value)
        self._sender.control(settings_ack)
        self._sender.pump()

    def _setting(self, key: int, value: int) -> None:
        sender = self._sender
        if key == SETTINGS_INITIAL_WINDOW_SIZE:
            if value > max_window:
                raise ConnectionFault(FLOW_CONTROL_ERROR, "SETTINGS_INITIAL_WINDOW_SIZE is above 2^31 - 1")
            sender.set_initial_window(value, self._streams.open.values())
        elif key == SETTINGS_MAX_FRAME_SIZE:
            if not max_frame_bytes <= value < 1 << 24:
                raise ConnectionFault(
                    PROTOCOL_ERROR, "SETTINGS_MAX_FRAME_SIZE is not within 2^14 and 2^24 - 1"
                )
        elif key == SETTINGS_ENABLE_PUSH:
            if value > 1:
                raise ConnectionFault(PROTOCOL_ERROR, "SETTINGS_ENABLE_PUSH is neither 0 nor 1")
        elif key == SETTINGS_HEADER_TABLE_SIZE and value < default_table_bytes:
            sender.table_shrunk = True

    def _push_promise(self, _stream_id: int, _flags: int, _payload: bytes) -> None:
        raise ConnectionFault(PROTOCOL_ERROR, "clients do not push")

    def _ping(self, stream_id: int, flags: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(PROTOCOL_ERROR, "PING on a stream")
        if len(payload) != 8:
            raise ConnectionFault(FRAME_SIZE_ERROR, "PING has 8 bytes")
        self._budgets.spend_idle()
        if not flags & ACK:
            self._sender.control(ping_ack(payload))

    def _goaway(self, stream_id: int, _flags: int, payload: bytes) -> None:
        # We open no streams, so there is nothing to stop; the client closes when it has its answers.
        self._budgets.spend_idle()
        if stream_id:
            raise ConnectionFault(PROTOCOL_ERROR, "GOAWAY on a stream")
        if len(payload) < 8:
            raise ConnectionFault(FRAME_SIZE_ERROR, "GOAWAY has 8 bytes or more")

    def _window_update(self, stream_id: int, _flags: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(FRAME_SIZE_ERROR, "WINDOW_UPDATE has 4 bytes")
        increment = word.unpack(payload)[0] & max_window
        if increment < tiny_step:
            self._budgets.spend_idle()
        if not stream_id:
            if not increment:
                raise ConnectionFault(PROTOCOL_ERROR, "WINDOW_UPDATE by zero")
            self._sender.grow(increment)
            return
        if self._streams.is_idle(stream_id):
            raise ConnectionFault(PROTOCOL_ERROR, "WINDOW_UPDATE for an idle stream")
        exchange = self._streams.open.get(stream_id)
        if exchange is None:
            return  # it has just ended on our side
        if not increment:
            raise StreamFault(stream_id, PROTOCOL_ERROR, "WINDOW_UPDATE by zero")
        self._sender.grow_stream(exchange, increment)

    def unknown(self, _stream_id: int, _flags: int, _payload: bytes) -> None:
        """Pass over a frame of an unknown type (RFC 9113 section 5.5)."""
        self._budgets.spend_idle()
