"""Folding: a new job is merged into a waiting job of the same key instead of being stored.

A key has one open job at most; keys are global, over all queues. Who is open is remembered as the lock of a unique key of scope
OPEN is, so `anew.jobs.unique` says what closes an open job; nothing opens it again. What the expressions mean is defined by their
language; this module says when they are evaluated, and what follows.

A new job may bring a `FoldRule`: then it is a call, of a program that debounces or merges its calls, and its own rule holds. Else
the open job's expressions do.
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b
from typing import Protocol

from anew.errors import InvalidExpression, MalformedRequest, TooLarge
from anew.jobs.codec import LAST_INSTANT, FoldRule
from anew.jobs.payload_limits import judging
from anew.jobs.state import State
from anew.jobs.unique import DIGEST_BYTES, parts_digest

ALWAYS = "true"
"""The condition of a call, which has none."""

MOST_CALLS = 1_000
MOST_MERGED_CALLS = 100
"""Calls of one list that may be folded, and those of them that have an expression: everybody else waits for their transaction."""


MOST_CALL_BYTES = 1 << 20
"""Bytes of the payload of a call that may be folded: to write one in place of another takes a transaction 10 ms a MiB."""


class FoldEntry(StrEnum):
    """How a new job with a fold key comes in.

    APART: it is stored and never folded into. OPEN: it is stored and becomes the key's open job. ASK: the open job's own condition
    decides, with both payloads: true, the new job is folded into it; else OPEN, and the old one is sealed. A call has no condition:
    it is folded unless its expression cannot be evaluated on payloads that long, or takes too long.
    """

    APART = "apart"
    OPEN = "open"
    ASK = "ask"


class Expressions(Protocol):
    """What evaluates the expressions."""

    @property
    def most_bytes(self) -> int:
        """Bytes of two payloads together, up to which they are folded."""

    def folded(self, when: str, fold: str, existing: bytes, new: bytes) -> bytes | None:
        """Give the payload that two become, as JSON in one line; None if the condition does not hold.

        Args:
            when: The open job's condition; one that fails, says nothing or takes too long does not hold.
            fold: The open job's expression for the payload.
            existing: The open job's payload.
            new: The new job's.

        Raises:
            InvalidInput: `fold` fails on these two, or gives none or several values.
            Overloaded: Nothing can be evaluated now.
        """

    def check_fold(self, when: str, fold: str, payload: bytes, what: str = "batch") -> bytes:
        """Try both with one payload for both variables, before a transaction waits for them; give what `fold` gives.

        Raises:
            InvalidInput: One of them does not do; names it as an expression of `what`.
            Overloaded: Nothing can be evaluated now.
        """

    def close(self) -> None:
        """Let go of what it takes; later calls raise Overloaded."""


def check_folded(payload: bytes, where: str = "fold") -> None:
    """Refuse what a fold gives if no producer could send it as a payload: it nests too deeply, or has a number out of range.

    Args:
        payload: JSON; nothing is no payload, and fits.
        where: What errors begin with.

    Raises:
        InvalidExpression: It is so.
    """
    try:
        for _ in judging(payload, "payload"):
            pass
    except MalformedRequest as error:
        raise InvalidExpression(f"{where}: {error}", field="fold") from None


def fold_digest(key: str) -> bytes:
    """Give the digest of a fold key; any text, the empty one too. It never meets the digest of a unique key."""
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES, person=b"fold").digest()


def call_digest(task: str, queue: str, text: bytes) -> bytes:
    """Give the digest that calls with a `FoldRule` are folded by. It meets no other digest.

    Args:
        task: Whose calls they are.
        queue: Theirs; "" where `text` is a key that says all.
        text: The key, or the arguments in one written form.
    """
    return parts_digest(task, queue, text, use=b"call")


def check_call(payload_bytes: int) -> None:
    """Refuse a call with so long a payload that others would wait for it to take the place of another.

    Raises:
        TooLarge: It has.
    """
    if payload_bytes > MOST_CALL_BYTES:
        raise TooLarge(
            f"payload: {payload_bytes} bytes; expected at most {MOST_CALL_BYTES} of a call that is debounced or merged; "
            "store them elsewhere and pass where",
            field="payload",
        )


def entry_of(ready_at: int | None, holder: State | None, now: int, *, is_call: bool = False) -> FoldEntry:
    """Decide how a new job with a fold key comes in.

    Args:
        ready_at: When the new job may run, epoch ms; None means now. A scheduled job never takes part, its time come or not,
            unless it is a call.
        holder: State of the key's open job; None if there is none, or its record is gone.
        now: Epoch ms.
        is_call: It has a `FoldRule`.
    """
    if is_call:
        return FoldEntry.ASK if holder in (State.READY, State.SCHEDULED) else FoldEntry.OPEN
    if ready_at is not None and ready_at > now:
        return FoldEntry.APART
    return FoldEntry.ASK if holder is State.READY else FoldEntry.OPEN


def due_of(
    rule: FoldRule, asked_at: int | None, now: int, *, first_at: int, due_at: int | None = None
) -> int | None:
    """Decide when the job of some calls may run, after one more; epoch ms, None means now.

    Args:
        rule: The latest call's.
        asked_at: When that call is to run by itself; None means now.
        now: Epoch ms.
        first_at: When the first call came.
        due_at: When the job may run without this call; None: this is the first.
    """
    if rule.quiet_ms is not None:
        latest = LAST_INSTANT if rule.most_ms is None else first_at + rule.most_ms
        return min(now + rule.quiet_ms, latest, LAST_INSTANT)
    if due_at is None:
        return asked_at
    return min(due_at, now if asked_at is None else asked_at)


def expires_of(job: int | None, call: int | None) -> int | None:
    """Decide when the job of some calls expires, after one more: when the last of them would; None: never."""
    return None if job is None or call is None else max(job, call)
