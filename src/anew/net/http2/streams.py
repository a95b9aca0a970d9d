"""The open streams of one connection, and all the ways in which a stream ends.

Source:
    RFC 9113 sections 5.1, 5.4 and 8.1.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from anew.net.http2.exchange import Http2Exchange
from anew.net.http2.frames import (
    CANCEL,
    NO_ERROR,
    PROTOCOL_ERROR,
    STREAM_CLOSED,
    ConnectionFault,
    StreamFault,
    rst_stream,
)
from anew.net.http2.send import Sender
from anew.net.http2.watch import Budgets
from anew.net.seam import WireCounters

if TYPE_CHECKING:
    from anew.net.http2.connection import Http2Connection

resets_remembered = 512
"""Streams that we have cut off and whose late frames are passed over in silence."""

gaps_remembered = 16
"""Ranges of stream numbers that a peer has skipped; they are told apart from closed ones, the last few at
least."""


class StreamTable:
    """Keeps and ends the streams of one connection.

    Args:
        connection: Whose.
        sender: Where answers and resets go.
        counters: Refusals are counted here.
        budgets: What the peer may still do this second.

    Attributes:
        open: Exchanges by stream number.
        last: Highest stream number seen.
        draining: True if new streams are refused, and the connection ends with the last open one.
    """

    __slots__ = (
        "_budgets",
        "_connection",
        "_counters",
        "_gaps",
        "_held",
        "_limits",
        "_lingering",
        "_resets",
        "_sender",
        "draining",
        "last",
        "open",
    )

    def __init__(
        self, connection: Http2Connection, sender: Sender, counters: WireCounters, budgets: Budgets
    ) -> None:
        self._connection = connection
        self._sender = sender
        self._counters = counters
        self._budgets = budgets
        self._limits = connection.limits
        self._held = 0  # bytes of unfinished bodies
        self._resets: dict[int, None] = {}
        self._lingering: dict[int, bool] = {}  # answered, request still coming; True once a sweep has seen it
        self._gaps: list[range] = []
        self.open: dict[int, Http2Exchange] = {}
        self.last = 0
        self.draining = False

    # -- which streams there are

    def reach(self, stream_id: int) -> None:
        """Take note of a new highest stream number; those passed over can never be used (section 5.1.1)."""
        skipped = self.last + 2 if self.last else 1
        if stream_id != skipped:
            self._gaps = [*self._gaps[1 - gaps_remembered :], range(skipped, stream_id, 2)]
        self.last = stream_id

    def is_idle(self, stream_id: int) -> bool:
        """Tell whether a stream was never opened: too high, even, or skipped over."""
        if stream_id > self.last or not stream_id & 1:
            return True
        return bool(self._gaps) and any(stream_id in gap for gap in self._gaps)

    def awaits_body(self, stream_id: int) -> bool:
        """Tell whether a stream is open for DATA."""
        exchange = self.open.get(stream_id)
        return exchange is not None and not exchange.ended

    def judge_stray(self, stream_id: int, ends: int) -> None:
        """Judge HEADERS or DATA for a stream that is not open.

        Args:
            stream_id: The stream.
            ends: Non-zero if END_STREAM was set.

        Raises:
            ConnectionFault: We did not cut the stream off, so the peer should know better.
        """
        if stream_id in self._resets:
            self._budgets.spend_idle()
            if ends:
                self._lingering.pop(stream_id, None)
        elif self.is_idle(stream_id):
            raise ConnectionFault(PROTOCOL_ERROR, "a frame for an idle stream")
        else:
            raise ConnectionFault(STREAM_CLOSED, "a frame for a closed stream")

    # -- what bodies may hold

    def hold(self, exchange: Http2Exchange, size: int) -> None:
        """Count bytes of an unfinished body; refuse it if it, or all of them together, are too large."""
        self._held += size
        self._counters.unfinished += size
        gathered = exchange.gathered
        if gathered is not None and gathered.tell() > self._limits.max_body:
            self.refuse_body(exchange)
        elif self._held > 2 * self._limits.max_body:
            self.refuse(exchange, 503, "too many unfinished bodies on this connection", "bodies")
        elif self._counters.unfinished > self._limits.max_unfinished:
            self.refuse(exchange, 503, "too many bodies are coming in; try again in a second", "bodies")

    def release(self, exchange: Http2Exchange) -> None:
        """Let go of a body's pieces."""
        if exchange.gathered is not None:
            self._held -= exchange.gathered.tell()
            self._counters.unfinished -= exchange.gathered.tell()
            exchange.gathered = None

    # -- refusals

    def refuse(self, exchange: Http2Exchange, status: int, error: str, reason: str) -> None:
        """Answer in the application's place; the rest of the request is dropped."""
        self._counters.refuse(reason)
        self.release(exchange)
        extra = ((b"retry-after", b"1"),) if status == 503 else ()
        exchange.reply(status, json.dumps({"error": error}).encode(), extra=extra)

    def refuse_body(self, exchange: Http2Exchange) -> None:
        """Answer 413."""
        self.refuse(exchange, 413, f"a request body has at most {self._limits.max_body} bytes", "body_size")

    # -- how streams end

    def finished(self, exchange: Http2Exchange) -> None:
        """Take note that the answer is out; a request that is still coming will be cut off without blame."""
        self._remove(exchange)
        exchange.stream = None
        if not exchange.ended:
            # Not at once: curl and others forget the answer when RST_STREAM comes in the same read.
            self._ignore(exchange.id)
            self._lingering[exchange.id] = False
        self._end_if_drained()

    def reset(self, exchange: Http2Exchange, code: int) -> None:
        """Cut a stream off; its owner is told."""
        self._cut(exchange.id, code)
        self._lose(exchange)
        self._end_if_drained()

    def fail(self, fault: StreamFault) -> None:
        """Reset the stream that broke a rule; too many of them and the connection has to go.

        Raises:
            ConnectionFault: ENHANCE_YOUR_CALM.
        """
        exchange = self.open.get(fault.stream_id)
        if exchange is None:
            self._cut(fault.stream_id, fault.code)
        else:
            self.reset(exchange, fault.code)
        self._budgets.spend_reset()

    def was_reset(self, stream_id: int) -> None:
        """Take note of the peer's RST_STREAM."""
        self._lingering.pop(stream_id, None)
        exchange = self.open.get(stream_id)
        if exchange is not None:
            self._lose(exchange)
            self._end_if_drained()

    def lose_all(self) -> None:
        """End every stream because the connection is gone."""
        while self.open:
            self._lose(next(iter(self.open.values())))

    def hang_up(self) -> None:
        """End what a peer that sends no more can no longer complete, or would not notice the end of."""
        for exchange in list(self.open.values()):
            if not exchange.ended or exchange.stream is not None:
                self._lose(exchange)

    def end_streams(self) -> None:
        """End the answers that have no end of their own, after their owners' last words."""
        for exchange in list(self.open.values()):
            if exchange.stream is not None and not exchange.ending:
                self._tell(exchange)
                if not exchange.gone and not exchange.ending:
                    self._sender.body(exchange, b"", True)

    def has_endless(self) -> bool:
        """Tell whether an answer is open that has no end of its own."""
        return any(exchange.stream is not None for exchange in self.open.values())

    def settle_all(self) -> None:
        """Tell every stream whether the peer is behind."""
        for exchange in list(self.open.values()):
            exchange.settle_writable()

    def _end_if_drained(self) -> None:
        if self.draining and not self.open:
            self._connection.drained()

    def _remove(self, exchange: Http2Exchange) -> None:
        self.open.pop(exchange.id, None)
        exchange.gone = True
        if exchange.gathered is not None:
            self.release(exchange)

    def _lose(self, exchange: Http2Exchange) -> None:
        self._remove(exchange)
        self._sender.forget(exchange)
        self._tell(exchange)

    def _cut(self, stream_id: int, code: int) -> None:
        self._ignore(stream_id)
        self._sender.control(rst_stream(stream_id, code))

    def _ignore(self, stream_id: int) -> None:
        if len(self._resets) >= resets_remembered:
            oldest = next(iter(self._resets))
            del self._resets[oldest]
            self._lingering.pop(oldest, None)
        self._resets[stream_id] = None

    def _tell(self, exchange: Http2Exchange) -> None:
        stream, exchange.stream = exchange.stream, None
        if stream is not None:
            stream.lost()

    # -- time

    def sweep(self, now_ms: int, tail_bytes: int) -> None:
        """Cut off what has been too slow; not to be called while we are not reading.

        Args:
            now_ms: Monotonic milliseconds.
            tail_bytes: Bytes of a frame that is not complete yet; they count for whatever body is coming.
        """
        for stream_id, seen in list(self._lingering.items()):
            if seen:
                del self._lingering[stream_id]
                self._sender.control(rst_stream(stream_id, NO_ERROR))
            else:
                self._lingering[stream_id] = True
        for exchange in list(self.open.values()):
            if not exchange.ended and not exchange.answered:
                self._watch_body(exchange, now_ms, tail_bytes)
            elif exchange.pending:
                self._watch_answer(exchange, now_ms)

    def _watch_body(self, exchange: Http2Exchange, now_ms: int, tail_bytes: int) -> None:
        limits = self._limits
        if exchange.began_at is None:
            exchange.began_at = now_ms
        seen = tail_bytes + (exchange.gathered.tell() if exchange.gathered is not None else 0)
        allowed_ms = limits.header_timeout_ms + seen * 1000 // limits.body_rate
        if now_ms - exchange.began_at >= allowed_ms:
            self.refuse(
                exchange, 408, f"a body arrives with at least {limits.body_rate} bytes a second", "slow_body"
            )

    def _watch_answer(self, exchange: Http2Exchange, now_ms: int) -> None:
        if exchange.stalled_at is None:
            exchange.stalled_at = now_ms
        elif now_ms - exchange.stalled_at >= self._limits.stall_timeout_ms:
            self._counters.refuse("stalled_reader")
            self.reset(exchange, CANCEL)
