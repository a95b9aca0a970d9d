"""How much of a failed attempt's record is kept: every bound is in bytes of UTF-8, which is what a store holds."""

from __future__ import annotations

MESSAGE_BYTES = 64 << 10
ERROR_TYPE_BYTES = 1 << 10
BACKTRACE_BYTES = 256 << 10
"""Most bytes that are kept of each text of a failure report."""


def cut_middle(text: str, most_bytes: int) -> str:
    """Bound a text: what is too much is cut out of the middle, and a note in its place says how much that was.

    The beginning of a message says what happened, and the end of a backtrace where.

    Args:
        text: Any text. A lone surrogate, which UTF-8 cannot hold, becomes a question mark if the text is cut.
        most_bytes: Bytes of UTF-8 that the result may have. Where not even the note fits, the text's beginning is kept alone.

    Returns:
        The text itself if it fits, else ``beginning[... 123 bytes cut ...]end``, cut between characters.
    """
    if 3 * len(text) <= most_bytes or (text.isascii() and len(text) <= most_bytes):
        return text
    data = text.encode("utf-8", "replace")
    if len(data) <= most_bytes:
        return data.decode("utf-8")
    # The number of bytes that are cut has as many digits as the whole length at most, so the note never gets longer.
    left = most_bytes - len(_note(len(data)))
    if left < 0:
        return _text(data[:most_bytes])
    head = _text(data[: left - left // 2])
    tail = _text(data[len(data) - left // 2 :])
    kept = len(head.encode("utf-8")) + len(tail.encode("utf-8"))
    return f"{head}{_note(len(data) - kept)}{tail}"


def _note(cut: int) -> str:
    return f"[... {cut} bytes cut ...]"


def _text(data: bytes) -> str:
    """Give the whole characters in a part of UTF-8; what is cut off at its ends goes."""
    return data.decode("utf-8", "ignore")
