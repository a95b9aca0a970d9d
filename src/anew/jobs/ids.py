"""Public ids: 25 characters ``[0-9a-z]`` that sort in order of creation.

A job's key in the store is one 63-bit integer: the millisecond of creation above, a counter below. The public id is the
store's own nine-character tag, fixed for its life, followed by that integer as sixteen hexadecimal digits. So an id tells a
store its own jobs from another's, needs no index beside the integer, and costs a tenth of a microsecond to write. The width
is that of SCRU128's text form, which clients of Zizq expect.
"""

from __future__ import annotations

import re

COUNTER_BITS = 20
"""Bits of the counter: 2^20 ids a millisecond before an id runs ahead of the clock."""

MAX_KEY = (1 << 63) - 1


class IdText:
    """Writes and reads the public ids of one store.

    Args:
        tag: The store's tag, nine characters ``[0-9a-z]``.
    """

    __slots__ = ("_match", "tag", "tag_bytes")

    def __init__(self, tag: str) -> None:
        if not re.fullmatch(r"[0-9a-z]{9}", tag):
            raise ValueError(f"a store's tag is nine characters [0-9a-z], not {tag!r}")
        self.tag = tag
        self.tag_bytes = tag.encode("ascii")
        # A key has 63 bits, so the first of its digits ends at 7.
        self._match = re.compile(f"{tag}([0-7][0-9a-f]{{15}})").fullmatch

    def write(self, key: int) -> str:
        """Give the public id of a key."""
        return f"{self.tag}{key:016x}"

    def write_bytes(self, key: int) -> bytes:
        """Give the public id of a key in ASCII."""
        return b"%b%016x" % (self.tag_bytes, key)

    def write_batch(self, key: int) -> str:
        """Give the public id of a batch: that of its key behind ``b-``."""
        return f"b-{self.write(key)}"

    def read(self, text: str) -> int:
        """Give the key of a public id, or -1 if the text is no id of this store."""
        found = self._match(text)
        return -1 if found is None else int(found[1], 16)

    def lower_bound(self, cursor: str) -> int:
        """Give the greatest key whose id sorts at or before any text, for paging; -1 if all ids sort after it."""
        head = cursor[:9]
        if head != self.tag[: len(head)] or len(cursor) <= 9:
            return MAX_KEY if head > self.tag else -1
        return min(_greatest_key_at_or_before(cursor[9:]), MAX_KEY)

    def is_exact(self, cursor: str) -> bool:
        """Report whether the text is an id of this store, letter for letter."""
        return self.read(cursor) >= 0


def _greatest_key_at_or_before(rest: str) -> int:
    """Find the greatest number whose sixteen digits sort at or before an arbitrary text."""
    digits = ""
    for char in rest[:16]:
        if char in "0123456789abcdef":
            digits += char
            continue
        return _fill(digits, char)
    if len(digits) == 16:
        return int(digits, 16)
    return int(digits.ljust(16, "0"), 16) - 1  # a proper prefix sorts before all ids that go on


def _fill(digits: str, char: str) -> int:
    """Find the last number with these leading digits that sorts before a non-digit in the next place."""
    below = [d for d in "0123456789abcdef" if d < char]
    if not below:
        return int(digits.ljust(16, "0"), 16) - 1
    return int((digits + below[-1]).ljust(16, "f"), 16)
