"""How many examples a property is tried on: by day a part of those of the night, the same ones each time."""

from __future__ import annotations

import os

LEAST = 20


def examples(number: int) -> int:
    """Give a number of examples."""
    return number if os.environ.get("ANEW_NIGHTLY") else max(number // 3, LEAST)
