"""The real server on a clock that is moved, and, for control runs, with one classic bug planted in what jobs are tied to.

    python tests/reliability/moved.py CLOCK_MS BUG serve --root-dir D --port 0

CLOCK_MS is by how much its clock differs from the machine's, in milliseconds. BUG is ``none`` or one of `BUGS`: a write that no
longer happens in the transaction of what causes it, but a few transactions later. Whoever kills such a server and finds
nothing wrong has a rig that proves nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from anew.cli import main
from anew.clock import SystemClock
from anew.engine.hooks import Hooks
from anew.store.sql import SqlStore
from anew.store.sql.crontab import Crontab
from anew.store.sql.hooks import SqlHooks
from anew.store.sql.slots import Slots

LATER = 20
"""Transactions by which a planted bug puts its write off: a server under load makes them within tens of milliseconds."""

BUGS: dict[str, tuple[type[Any], str]] = {
    "locks": (SqlHooks, "release_locks"),
    "batches": (SqlHooks, "write_batches"),
    "callbacks": (Hooks, "_call_back"),
    "slots": (Slots, "occupy"),
    "crons": (Crontab, "write"),
}


def move(by_ms: int) -> None:
    """Have the server's clock differ from the machine's."""
    SystemClock.now = lambda self: time.time_ns() // 1_000_000 + by_ms  # type: ignore[method-assign]


def plant(owner: type[Any], name: str) -> None:
    """Put the calls of a method off until some transactions later."""
    late, begin = getattr(owner, name), SqlStore.begin
    owed: list[tuple[int, Callable[[], object]]] = []
    count = 0

    def put_off(self: Any, *given: Any) -> None:
        owed.append((count + LATER, lambda: late(self, *given)))

    def pay_first(self: SqlStore, *, synced: bool) -> bool:
        nonlocal count
        count += 1
        began = begin(self, synced=synced)
        while owed and owed[0][0] <= count:
            owed.pop(0)[1]()
        return began

    setattr(owner, name, put_off)
    SqlStore.begin = pay_first  # type: ignore[method-assign]


if __name__ == "__main__":
    move(int(sys.argv.pop(1)))
    bug = sys.argv.pop(1)
    if bug != "none":
        plant(*BUGS[bug])
    main()
