"""Words that several rules use."""

from __future__ import annotations

from collections.abc import Sequence


def listed(numbers: Sequence[int]) -> str:
    """Give ``1 to 3`` for neighbours and ``1, 3 and 5`` for others; one number as it is.

    Args:
        numbers: In order, at least one.
    """
    if len(numbers) == 1:
        return str(numbers[0])
    if [*numbers] == [*range(numbers[0], numbers[-1] + 1)] and len(numbers) > 2:
        return f"{numbers[0]} to {numbers[-1]}"
    if len(numbers) > 6:
        return f"{', '.join(map(str, numbers[:5]))} and {len(numbers) - 5} more"
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
