"""What most tests of the engine begin with; a module with other needs has a fixture of its own under the same name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anew.store.sqlite import open_sqlite

from .rig import Rig


@pytest.fixture
def rig() -> Rig:
    """An engine on a store in memory."""
    return Rig()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Rig, Rig]]:
    """The engines of two processes on one store; one clock."""
    one = Rig(open_sqlite(tmp_path))
    other = Rig(open_sqlite(tmp_path, exclusive=False), clock=one.clock)
    yield one, other
    one.store.close()
    other.store.close()
