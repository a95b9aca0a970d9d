"""The processes that have one store open: who writes next, what each of them holds, and how they wake each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from anew.errors import StoreBusy


class Session(NamedTuple):
    """A process that may hold jobs.

    Attributes:
        alive: Whether it still runs.
    """

    id: int
    pid: int
    started_at: int
    alive: bool


class Turns(Protocol):
    """Who writes next: one process at a time. Outside of transactions."""

    def busy(self) -> StoreBusy:
        """Say who has kept the store busy for too long, for whoever is refused for it."""

    def when_free(self, call: Callable[[], None]) -> None:
        """After a StoreBusy: call a function once, from some thread, when `begin` is worth trying again."""

    def wait_until_free(self, timeout_s: float) -> bool:
        """After a StoreBusy, in a thread that may wait: report whether `begin` is worth trying again within this time."""

    def let_go(self) -> None:
        """Give a turn that `when_free` has brought, and that is not wanted any more, to the next process."""

    def has_changed(self) -> bool:
        """Report whether another process has written since the last transaction; outside of one."""


class Processes(Protocol):
    """The processes that have one store open. `sessions`, `held_by`, `begun` and `drop` are called inside the open transaction."""

    def sessions(self) -> list[Session]:
        """List the processes that have this store open, and those that died while they had it open."""

    def held_by(self, session: int | None, limit: int) -> list[int]:
        """List jobs in flight that a session holds; None: whose session has no row. Reservations are left out."""

    def drop(self, session: int) -> None:
        """Remove a dead session that holds nothing any more."""

    def note_begun(self, slot: int, key: int) -> None:
        """Note which job this process runs in one of its slots; 0: none.

        It outlives the process, not a power cut, and costs a system call. From any thread, outside of transactions.
        """

    def begun(self, session: int) -> frozenset[int] | None:
        """Give the jobs that a session had begun with, as it has noted; None if it never has."""

    def listen(self) -> int | None:
        """Begin to be woken when another process commits ready jobs; gives a descriptor to wait on, if there is one."""

    def poke_self(self) -> None:
        """Wake whoever of this process waits at the descriptor of `listen`."""

    def hear(self) -> None:
        """Take what has come to the descriptor of `listen`."""
