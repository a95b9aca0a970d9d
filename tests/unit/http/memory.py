"""What a reading holds in memory at most: what is refused before it is built shows there, on however busy a machine."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Iterator


@contextlib.contextmanager
def held_to(most: int) -> Iterator[None]:
    """Fail if more bytes than that are held at any moment, those from before aside."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()
