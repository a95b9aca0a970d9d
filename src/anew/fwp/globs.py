"""Which jobs a MUTATE is about: ids, a type, a pattern over a job's text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from anew.errors import MalformedRequest
from anew.fwp.json_text import unescaped
from anew.net.chunks import Work

MAX_PATTERN: Final = 4096
"""Bytes of a pattern: the work for a text is at most this times the text's length."""

STEPS: Final = 200_000
"""Comparisons of a byte that are made in one go: 1 ms, where all are with sets."""


class Glob:
    """A pattern as Redis has them, which has to match the whole text, byte by byte.

    ``*`` is any run of bytes, ``?`` any byte, ``[abc]``, ``[a-z]`` and ``[^a]`` one of a set, and a backslash takes the meaning
    off the next character. Between two stars each part matches where it first can: since every part has a fixed length, no
    other place could do better, and no place is tried twice. A text is searched some places at a time: a part with sets in it may
    be compared at each place to its end, which in a megabyte takes seconds.

    Args:
        pattern: At most `MAX_PATTERN` bytes.

    Raises:
        MalformedRequest: It is longer.
    """

    __slots__ = ("_fewest", "_first", "_last", "_last_length", "_middle")

    def __init__(self, pattern: str) -> None:
        data = pattern.encode()
        if len(data) > MAX_PATTERN:
            raise MalformedRequest(f"a pattern has at most {MAX_PATTERN} bytes, not {len(data)}")
        parts = _parts(data)
        searches = [re.compile(b"".join(part), re.DOTALL) for part in parts]
        self._fewest = sum(map(len, parts))
        self._first = searches[0]
        self._middle = [
            (search, len(part), _places(part)) for search, part in zip(searches, parts, strict=True)
        ][1:-1]
        self._last = searches[-1] if len(searches) > 1 else None
        self._last_length = len(parts[-1])

    def matching(self, text: bytes) -> Work[bool]:
        """Report whether the pattern matches the whole text."""
        if len(text) < self._fewest:
            return False
        if self._last is None:
            return self._first.fullmatch(text) is not None
        found = self._first.match(text)
        end = len(text) - self._last_length
        if not found or not self._last.match(text, end):
            return False
        at = found.end()
        for search, length, places in self._middle:
            found = None
            while found is None:
                found = search.search(text, at, min(at + places + length - 1, end))
                if found is None:
                    at += places
                    if at + length > end:
                        return False
                    yield
            at = found.end()
        return True


def _places(part: list[bytes]) -> int:
    """Give at how many places of a text a part is looked for in one go: of a literal one no byte is looked at twice."""
    literal = all(expression[:1] not in b".[(" for expression in part)
    return STEPS if literal else max(STEPS // len(part), 1)


def _parts(pattern: bytes) -> list[list[bytes]]:
    """Cut a pattern at its stars; each part is a list of expressions for one byte each."""
    parts: list[list[bytes]] = [[]]
    at = 0
    while at < len(pattern):
        byte = pattern[at : at + 1]
        at += 1
        if byte == b"*":
            parts.append([])
        elif byte == b"?":
            parts[-1].append(b".")
        elif byte == b"[":
            expression, at = _set(pattern, at)
            parts[-1].append(expression)
        else:
            if byte == b"\\" and at < len(pattern):
                byte = pattern[at : at + 1]
                at += 1
            parts[-1].append(re.escape(byte))
    return parts


def _set(pattern: bytes, at: int) -> tuple[bytes, int]:
    """Read a set from after its bracket; one that is never closed ends with the pattern."""
    negated = pattern[at : at + 1] == b"^"
    at += negated
    members = bytearray()
    while at < len(pattern) and pattern[at : at + 1] != b"]":
        if pattern[at : at + 1] == b"\\" and at + 1 < len(pattern):
            members.append(pattern[at + 1])
            at += 2
        elif pattern[at + 1 : at + 2] == b"-" and at + 2 < len(pattern):
            low, high = sorted((pattern[at], pattern[at + 2]))
            members += bytes(range(low, high + 1))
            at += 3
        else:
            members.append(pattern[at])
            at += 1
    if not members:
        return (b"." if negated else b"(?!.)."), at + 1
    listed = b"".join(re.escape(bytes((member,))) for member in sorted(set(members)))
    return (b"[^%b]" if negated else b"[%b]") % listed, at + 1


class JobFilter:
    """Which jobs a MUTATE is about.

    Args:
        jids: Of these ids; if there are any, nothing else counts.
        regexp: A pattern over the job's text; "" for none.
        jobtype: Of this type; "" for any.

    Attributes:
        jids: As given: a store finds them without a search.
        jobtype: As given.
        everything: Every job is meant.
        reads_text: It takes a job's whole text to know whether that job is meant.
    """

    __slots__ = ("_glob", "everything", "jids", "jobtype", "reads_text")

    def __init__(self, jids: list[str], regexp: str, jobtype: str) -> None:
        self.jids = frozenset(jids)
        self.jobtype = jobtype
        self._glob = Glob(regexp) if regexp else None
        self.everything = not (jids or regexp or jobtype)
        self.reads_text = self._glob is not None and not jids

    def judging(self, jid: str, jobtype: str, text: Callable[[], bytes]) -> Work[bool]:
        """Report whether a job is meant.

        Ids and types are compared as values, not looked for in the text: a job that names another's id in its arguments is not
        meant by it.

        Args:
            jid: The job's.
            jobtype: The job's.
            text: Writes the job as `anew.fwp.jobs.rendered` does; called only if there is a pattern.
        """
        if self.jids:
            return jid in self.jids
        if self.jobtype and jobtype != self.jobtype:
            return False
        return self._glob is None or (yield from self._glob.matching(unescaped(text())))
