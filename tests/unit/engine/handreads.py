"""Reads beside the loop that are done when the test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anew.errors import AnewError, Overloaded
from anew.store.protocol import Reader


class HandReads:
    """Does what it is asked for at once, or holds it until `release`.

    Attributes:
        holding: Hold what is asked for.
        refusing: Refuse it.
        failing: What the next reads give in place of their results.
        done: How many were done.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.held: list[tuple[Callable[[Any], Any], Callable[[Any], None]]] = []
        self.holding = self.refusing = False
        self.failing: AnewError | None = None
        self.done = 0

    def later(self, function: Callable[[Any], Any], then: Callable[[Any], None]) -> None:
        if self.refusing:
            raise Overloaded("planned")
        if self.holding:
            self.held.append((function, then))
            return
        self.done += 1
        then(function(self._reader) if self.failing is None else self.failing)

    def release(self) -> None:
        """Do what was held."""
        held, self.held, self.holding = self.held, [], False
        for function, then in held:
            self.later(function, then)
