"""Keys that have a limit, and the jobs of each, as a store keeps them; `anew.jobs.key_limits` has the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from anew.jobs.key_limits import KeyLimit, KeyStanding, Place


class LimitedJob(NamedTuple):
    """A job that a key bounds, and how it stands with it."""

    key: int
    name: str
    standing: KeyStanding
    queue: str
    priority: int


class KeyLimitRows(Protocol):
    """The verbs on them, inside the open transaction."""

    def limits(self, names: Sequence[str]) -> dict[str, KeyLimit]:
        """Read the limits of keys; those that have none are left out."""

    def write_limits(self, limits: Sequence[KeyLimit]) -> None:
        """Write limits, new ones and others."""

    def drop_limits(self, names: Sequence[str]) -> None:
        """Remove keys."""

    def looks(self, now: int, limit: int) -> list[str]:
        """List keys that are to be looked at by now, the one that waits longest first."""

    def next_look(self) -> int | None:
        """Give when the next one is to be looked at, epoch ms."""

    def add(self, jobs: Sequence[LimitedJob]) -> None:
        """Note the keys of new jobs."""

    def among(self, keys: Sequence[int]) -> list[LimitedJob]:
        """Read those of some jobs that have a key."""

    def running(self, names: Sequence[str]) -> Mapping[str, int]:
        """Count the jobs of keys that run; keys without one are left out."""

    def blocked_queues(self, name: str) -> list[str]:
        """List the queues in which jobs of a key are blocked."""

    def first(self, name: str, standing: KeyStanding, queue: str, limit: int) -> list[Place]:
        """Give the first places of the jobs of a key in one queue that stand so: BLOCKED or UNBLOCKED."""

    def any_of(self, name: str) -> bool:
        """Report whether a job of a key is stored."""

    def run(self, keys: Sequence[int]) -> None:
        """Note that jobs run, which are in flight."""

    def block(self, keys: Sequence[int], *, taken: bool) -> None:
        """Block jobs that are ready, or were taken in this transaction: they are ready, in no line, and held by nobody."""

    def unblock(self, keys: Sequence[int]) -> int:
        """Put those of some jobs that are blocked into their queues' lines; report how many."""

    def leave(self, keys: Sequence[int]) -> list[str]:
        """Note that jobs are neither blocked, unblocked nor running any more; give their keys."""

    def remove(self, keys: Sequence[int]) -> list[str]:
        """Forget jobs that are removed; give their keys."""

    def mend(self) -> list[str]:
        """Make anew what is derived of jobs' standings; give the keys that are to be looked at then."""


COUNTED_OF_A_KEY: Final = 1_000
"""Jobs of one key that are counted for somebody who looks."""


class LimitedKey(NamedTuple):
    """The limit of a key, and what it holds back.

    Attributes:
        limit: Its bounds, bucket and gate.
        running, blocked: Its jobs that run, and those that wait for it, up to `COUNTED_OF_A_KEY` of each.
    """

    limit: KeyLimit
    running: int
    blocked: int


class LimitedKeys(NamedTuple):
    """Some keys by name, and the name behind which there may be more; None: there are none."""

    keys: list[LimitedKey]
    stopped_at: str | None
