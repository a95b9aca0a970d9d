"""What most tests of the engine begin with; a module with other needs has a fixture of its own under the same name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anew.store.sqlite import open_sqlite

from .grouped import Group
from .rig import Rig


@pytest.fixture
def rig() -> Rig:
    """An engine on a store in memory."""
    return Rig()


@pytest.fixture(params=["in the loop", "in a thread"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Group commits apply their batches in the loop's thread, or in one beside it."""
    monkeypatch.setattr(Group, "remote", request.param == "in a thread")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Rig, Rig]]:
    """The engines of two processes on one store; one clock."""
    one = Rig(open_sqlite(tmp_path))
    other = Rig(open_sqlite(tmp_path, exclusive=False), clock=one.clock)
    yield one, other
    one.store.close()
    other.store.close()
