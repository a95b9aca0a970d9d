"""The processes that have the store open: a row each, and what their engine's link knows of them."""

from __future__ import annotations

from anew.store.processes import Session
from anew.store.sql.link import Link


class SqlProcesses:
    """The processes of one store. What has no text here is said in `anew.store.processes.Processes`.

    Args:
        link: The store's.
    """

    def __init__(self, link: Link) -> None:
        self._link, self._run = link, link.run

    def sessions(self) -> list[Session]:
        rows = self._run("sessions").fetchall()
        return [Session(id_, pid, started_at, self._link.is_alive(id_)) for id_, pid, started_at in rows]

    def held_by(self, session: int | None, limit: int) -> list[int]:
        if session is None:
            rows = self._run("held_by_nobody", (limit,)).fetchall()
        else:
            rows = self._run("held_by", (session, limit)).fetchall()
        return [key for (key,) in rows]

    def drop(self, session: int) -> None:
        self.drop_row(session)
        self._link.forget(session)

    def drop_row(self, session: int) -> None:
        """Remove the row of a process that holds nothing any more."""
        self._run("close_session", (session,))

    def note_begun(self, slot: int, key: int) -> None:
        self._link.note_begun(slot, key)

    def begun(self, session: int) -> frozenset[int] | None:
        return self._link.begun(session)

    def listen(self) -> int | None:
        return self._link.listen()

    def poke_self(self) -> None:
        self._link.poke_self()

    def hear(self) -> None:
        self._link.hear()
