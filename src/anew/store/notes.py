"""Notes of how far moves from elsewhere have come, as a store keeps them."""

from __future__ import annotations

from typing import Protocol


class Notes(Protocol):
    """The verbs on them, inside the open transaction."""

    def all(self) -> dict[str, str]:
        """Give the notes of how far moves from elsewhere have come, by name."""

    def read(self, name: str) -> str | None:
        """Give one of them, if there is one."""

    def write(self, name: str, text: str) -> None:
        """Write one of them."""

    def forget(self) -> None:
        """Remove them all."""
