"""Cuts a stream of bytes into request lines, however the bytes are split."""

from __future__ import annotations

from io import BytesIO

MAX_LINE = 64 << 20
"""Bytes of a line, without its terminator, unless the server's settings say otherwise."""


class LineSplitter:
    """Collects the bytes of one connection and gives out whole lines.

    A line ends with LF; one CR before it belongs to the terminator. Each byte is copied a fixed number of times, in however small
    reads a line comes. At most one unfinished line is kept, of at most `max_line` bytes.

    Args:
        max_line: Bytes that a line may have, without its terminator, >= 1.

    Attributes:
        too_long: A line was longer. It and all that comes after it are dropped: the lines before it are answered, then
            comes the error, then the end of the connection.
    """

    __slots__ = ("_max_line", "_partial", "_size", "too_long")

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._partial: BytesIO | None = None
        self._size = 0
        self.too_long = False

    @property
    def unfinished(self) -> int:
        """Bytes kept of a line whose end has not come."""
        return self._size

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; return the lines that they complete, in order, without terminators."""
        if self.too_long:
            return []
        end = data.find(b"\n")
        if end < 0:
            self._keep(data)
            return []
        if self._partial is None:
            if end == len(data) - 1 <= self._max_line:  # one line, as usual
                return [data[:-2] if data[-2:-1] == b"\r" else data[:-1]]
            lines = _split(data)
        else:
            first = self._finished(data[:end])
            lines = _split(data[end + 1 :])
            lines.insert(0, first)
        rest = lines.pop()
        if len(data) + len(lines[0]) > self._max_line:  # else no line can be too long
            lines = self._short(lines)
        self._keep(rest)
        return lines

    def _keep(self, data: bytes) -> None:
        """Keep the beginning of a line; its last byte may be the CR of its terminator."""
        if self.too_long or not data:
            return
        self._size += len(data)
        if self._size > self._max_line and (self._size > self._max_line + 1 or data[-1:] != b"\r"):
            self._stop()
            return
        if self._partial is None:
            self._partial = BytesIO()  # its value is taken without a copy, unlike that of a bytearray
        self._partial.write(data)

    def _finished(self, data: bytes) -> bytes:
        """Add the last bytes of the kept line, and take it."""
        partial = self._partial
        assert partial is not None
        partial.write(data)
        self._partial, self._size = None, 0
        partial.seek(-1, 2)
        if partial.read() == b"\r":
            partial.seek(-1, 2)
            partial.truncate()
        return partial.getvalue()

    def _short(self, lines: list[bytes]) -> list[bytes]:
        for at, line in enumerate(lines):
            if len(line) > self._max_line:
                self._stop()
                return lines[:at]
        return lines

    def _stop(self) -> None:
        self.too_long = True
        self._partial, self._size = None, 0


def _split(data: bytes) -> list[bytes]:
    """Split at each LF, and take one CR off the lines that end with one; the last part is no line and stays as it is."""
    pairs = data.count(b"\r\n")
    if not pairs:
        return data.split(b"\n")
    if pairs == data.count(b"\n"):
        return data.split(b"\r\n")
    lines = data.split(b"\n")
    rest = lines.pop()
    lines = [line[:-1] if line.endswith(b"\r") else line for line in lines]
    lines.append(rest)
    return lines
