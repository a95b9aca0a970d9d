"""The real server with one classic bug planted: answers leave before the commit that they promise.

    python tests/reliability/planted.py serve --root-dir D --port 0

A group's transaction stays open until the next group begins, while its clients have long been told that all
is well. Whoever kills this server under load and finds nothing wrong has a rig that proves nothing.
"""

from __future__ import annotations

import functools
from typing import Any

from anew.cli import main
from anew.store.sql import SqlStore


def plant(store: type[Any]) -> None:
    """Put commits off: the one patch of this module.

    Args:
        store: The class whose `commit` ends a group's transaction.
    """
    commit = store.commit
    owing: set[int] = set()

    def put_off(self: Any) -> None:
        owing.add(id(self))

    def pay_first(verb: Any) -> Any:
        @functools.wraps(verb)
        def with_debt(self: Any, *given: Any, **named: Any) -> Any:
            if id(self) in owing:
                owing.discard(id(self))
                commit(self)
            return verb(self, *given, **named)

        return with_debt

    store.commit = put_off
    store.begin = pay_first(store.begin)
    store.close = pay_first(store.close)


if __name__ == "__main__":
    plant(SqlStore)
    main()
