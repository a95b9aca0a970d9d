"""Notes of how far imports from other servers have come, as a store keeps them."""

from __future__ import annotations

from typing import Protocol


class ImportNotes(Protocol):
    """Notes of imports, read and written inside the open transaction."""

    def all(self) -> dict[str, str]:
        """Give all notes, by name."""

    def read(self, name: str) -> str | None:
        """Give one of them, if there is one."""

    def write(self, name: str, text: str) -> None:
        """Write one of them."""

    def drop_all(self) -> None:
        """Remove them all."""
