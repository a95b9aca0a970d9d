"""What a store needs of its engine: one connection that writes, in transactions, and word of the other processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from anew.clock import Clock
from anew.errors import AnewError
from anew.store.processes import Turns
from anew.store.protocol import Device, Identity, OutboxRows
from anew.store.sql.reader import ReadLink
from anew.store.sql.statements import Run, Statements

MOST_SLOTS = 4_096
"""Slots of a process whose jobs `note_begun` notes: more than it runs at one time."""


class Link(Turns, Protocol):
    """A process's way to one store. What has no text here is said in `anew.store.protocol.Store` and `anew.store.processes`.

    Attributes:
        identity: What the store keeps about itself.
        session: This process's number; 0 where nobody else can have the store open.
        remote, clock: See `Store`.
        statements: All that it can run, in its engine's words.
        run: Runs a named statement on the connection that writes; its rows must be fetched before the next one runs.
        run_apart: The same with a cursor of its own.
        run_write: The same for statements that give nothing.
    """

    identity: Identity
    session: int
    remote: bool
    clock: Clock
    statements: Statements
    run: Run
    run_apart: Run
    run_write: Run

    def execute(self, text: str, bound: Any = (), /) -> Any:
        """Run a text that is in the engine's words already."""

    @property
    def outbox(self) -> OutboxRows | None: ...

    @property
    def device(self) -> Device | None: ...

    # -- transactions

    def begin(self, *, synced: bool) -> bool: ...

    def commit(self, *, made_ready: bool) -> None:
        """Make the transaction last; `made_ready`: whoever waits for ready jobs in other processes is told."""

    def sync(self) -> None: ...

    def rollback(self, forget: Callable[[], None]) -> None:
        """Undo the transaction, if one is open; then `forget` is called, before anybody else may write."""

    def is_open(self) -> bool: ...

    def explain(self, error: Exception) -> AnewError | None: ...

    # -- reading

    def reading(self) -> ReadLink:
        """Read on the connection that writes, in the open transaction; its `close` leaves it open."""

    def open_reading(self) -> ReadLink | None:
        """Open a connection that reads; None where the one that writes is the only one."""

    # -- other processes

    def is_alive(self, session: int) -> bool:
        """Report whether the process of a session still runs."""

    def note_begun(self, slot: int, key: int) -> None: ...

    def begun(self, session: int) -> frozenset[int] | None: ...

    def forget(self, session: int) -> None:
        """Remove what a dead session has left outside of the rows."""

    def listen(self) -> int | None: ...

    def poke_self(self) -> None: ...

    def hear(self) -> None: ...

    # -- the end

    def abandon(self, reason: str) -> None: ...

    def enter_to_close(self) -> None:
        """Wait, for a while, for the turn in which this process ends its session."""

    def close(self, end_session: Callable[[], None]) -> None:
        """Let go of everything; before that, unless the store was abandoned, `end_session` is called."""

    def close_in_child(self) -> None:
        """In a forked child: let go of what would keep the parent's session alive, and refuse everything from now on."""
