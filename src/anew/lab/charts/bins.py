"""Bins for waits: as wide as whole steps of a wait that is diced in steps, or they would show gaps that are not there."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from anew.lab.waves import Wave

_FEW: Final = 4
"""Waits that differ: of fewer nobody can tell steps."""

_LOOKED_AT: Final = 100_000
"""Waits that tell the step; more of them would tell the same, and take seconds to sort."""

_THIN, _BESIDE = 0.002, 10
"""A wait that never differs: the width of its bar, as a share of it, and as many empty bins on either side."""

_TRIED: Final = 1_000
"""Widths of bins that are tried; where there are so many to choose from, one of the first fits nearly as well as any."""

_FULL: Final = 0.8
"""With a last bin that is less full than that the waits would seem to get rarer at the end."""


def step_of(waits: Wave) -> int:
    """Give the step in which waits are diced, in ms: 1,000 where all are whole seconds apart; 1 where there is none.

    The shortest and the longest need not fit: a floor or a cap holds them wherever it stands.
    """
    if isinstance(waits, list):
        values = sorted(set(waits[:_LOOKED_AT]))
        steps = [after - before for before, after in pairwise(values)]
        return math.gcd(*_inner(steps)) or 1
    import numpy as np

    gaps = np.diff(np.sort(waits[:_LOOKED_AT]))
    return int(np.gcd.reduce(_inner(gaps[gaps > 0]), initial=0)) or 1


def _inner(steps: Any) -> Any:
    """Leave out the first and the last step, where there are enough."""
    return steps[1:-1] if len(steps) >= _FEW else steps


def wait_edges(herds: Sequence[Wave], bins: int) -> tuple[float, ...]:
    """Give bins for the waits of some herds, not all empty: equally wide, each as wide as a whole number of steps.

    A bin's middle is the middle of the values it may hold, so that whole seconds stand above their second.

    Args:
        bins: How many are wanted. Up to twice as many are given where that is one for each value.

    Returns:
        Where the bins begin and the last one ends.
    """
    ends = [_ends(waits) for waits in herds if len(waits)]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    if low == high:
        width = max(low * _THIN, 1.0)
        first = -_BESIDE if low >= _BESIDE * width else 0
        return tuple(low + width * (place - 0.5) for place in range(first, _BESIDE + 2))
    steps = [step_of(waits) for waits in herds if len(waits)]
    common = math.lcm(*steps)
    step = common if 2 * common <= high - low else max(steps)  # or there would be too few bins
    values = -(-(high - low) // step) + 1
    width = step * _values_each(values, bins)
    count = -(-values * step // width)
    return tuple(low - step / 2 + width * place for place in range(count + 1))


def _ends(waits: Wave) -> tuple[int, int]:
    return (min(waits), max(waits)) if isinstance(waits, list) else (int(waits.min()), int(waits.max()))


def _values_each(values: int, bins: int) -> int:
    """Give how many values share a bin: as few as go, if the last bin is nearly full; else such that it is fullest."""
    if values <= 2 * bins:
        return 1
    least = -(-values // bins)
    tried = range(least, min(2 * least, least + _TRIED))
    return next((each for each in tried if _missing(values, each) <= 1 - _FULL), None) or min(
        tried, key=functools.partial(_missing, values)
    )


def _missing(values: int, each: int) -> float:
    """Give the share of the last bin that has no value."""
    return -values % each / each
