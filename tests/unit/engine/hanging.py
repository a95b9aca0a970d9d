"""A store across a network that hangs when told to, beside a group commit whose loop goes on meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from anew.engine import GroupCommit
from anew.store.sqlite import open_sqlite

from .grouped import Group
from .rig import FaultyStore, Once

AT_HOME = frozenset({"when_free", "let_go", "poke_self", "abandon", "is_open"})
"""What waits for no network."""

SOON_S = 30.0
"""The longest that a test waits for what is bound to happen."""


class RemoteStore(FaultyStore):
    """A store across a network: no call may be made in the loop's thread, and the next call of a verb hangs when told to.

    Attributes:
        forbidden: The thread in which nobody may wait for the network; None: it is not looked at.
        reached: Set when a call hangs.
        go: Set it to let the call go on.
        abandoned: Why the store was given up.
        on_the_way: Called, in the thread, with each call that waits for the network.
        wakes: The descriptor that other processes wake this one by.
    """

    remote = True

    def __init__(self, inner: Any = None) -> None:
        super().__init__(inner or open_sqlite())
        self.forbidden: int | None = None
        self.reached, self.go = threading.Event(), threading.Event()
        self.abandoned: list[str] = []
        self.on_the_way: Callable[[], object] = lambda: None
        self.wakes = 0  # a loop that is moved by hand does not look at it
        self._hangs: str | None = None

    def hang_in(self, verb: str) -> None:
        """Have the next call of a verb hang."""
        self.reached.clear()
        self.go.clear()
        self._hangs = verb

    def listen(self) -> int:
        """Other processes would wake this one."""
        return self.wakes

    def hear(self) -> None:
        """Nothing has come."""

    def abandon(self, reason: str) -> None:
        self.abandoned.append(reason)

    def planned(self, name: str, value: Any) -> Any:
        value = super().planned(name, value)
        if not callable(value) or name in AT_HOME:
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            assert threading.get_ident() != self.forbidden, f"{name} is called in the loop's thread"
            if name == self._hangs:
                self._hangs = None
                self.reached.set()
                assert self.go.wait(SOON_S)
            self.on_the_way()
            return value(*args, **kwargs)

        return call


class Hanging(Group):
    """A group commit on such a store. Its loop waits for the thread in each turn, unless something hangs."""

    store: RemoteStore
    commit: GroupCommit

    def __init__(self, **given: Any) -> None:
        self.store = RemoteStore()
        super().__init__(self.store, **given)
        assert self.thread is not None
        self.loop.settle()
        self.store.forbidden = threading.get_ident()

    def hang_in(self, verb: str, *ops: Any) -> list[Once]:
        """Have a batch hang that some operations are in."""
        self.store.hang_in(verb)
        self.loop.awaits = lambda: False
        answers = [self.submit(op) for op in ops]
        if not ops:
            self.commit._wake()
        self.loop.settle()
        assert self.store.reached.wait(SOON_S)
        return answers

    def go_on(self) -> None:
        """Let it go on, to its end."""
        self.store.go.set()
        assert self.thread is not None
        self.loop.awaits = lambda: self.thread.busy  # type: ignore[union-attr]
        self.loop.settle()

    def broken_rules(self) -> list[str]:
        """See `Rig.broken_rules`, which reads the store."""
        self.store.forbidden, before = None, self.store.forbidden
        try:
            return self.rig.broken_rules()
        finally:
            self.store.forbidden = before
