"""Notes of how far imports from other servers have come, among what the store keeps of itself."""

from __future__ import annotations

from anew.store.sql.statements import Run


class SqlImportNotes:
    """The notes of one store; `anew.store.import_notes.ImportNotes` says what its verbs do.

    Args:
        run: Runs a statement on the writer's connection.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def all(self) -> dict[str, str]:
        return dict(self._run("notes").fetchall())

    def read(self, name: str) -> str | None:
        rows: list[tuple[str]] = self._run("read_one_meta", (f"moved/{name}",)).fetchall()
        return rows[0][0] if rows else None

    def write(self, name: str, text: str) -> None:
        self._run("write_meta", (f"moved/{name}", text))

    def drop_all(self) -> None:
        self._run("forget_notes")
