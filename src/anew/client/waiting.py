"""How long a client waits before another try: a policy of the engine, with chance from the system."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from typing import Final

from anew.backoff import Draws, Policy, Wait, next_wait
from anew.errors import AnewError, Unavailable

RETRY: Final = Policy.from_json({"preset": "aws_equal", "base": "250ms", "cap": "10s", "limit": 20})
"""Waits of 78 to 156 s in all. Half of each is certain, so none is zero; half is chance, so that clients which lost
one server together do not come back together."""

_LONGEST_ASKED_MS: Final = 60_000
"""A server that asks for a longer wait is asked again after this one."""


def wait_before(
    policy: Policy, retry: int, error: AnewError | None = None, rng: Callable[[], float] = random.random
) -> int | None:
    """Give the wait before another try, in milliseconds: the policy's, or the longer one that the server asked for.

    Args:
        policy: Its limit bounds the tries.
        retry: 1 for the first.
        error: What the last try met.
        rng: Gives numbers in [0, 1).

    Returns:
        None if there is to be no other try.
    """
    wait = next_wait(policy, retry, Draws(rng=rng))
    if not isinstance(wait, Wait):
        return None
    asked = error.retry_after if isinstance(error, Unavailable) else None
    asked_ms = 0 if asked is None else asked // datetime.timedelta(milliseconds=1)
    return max(wait.wait_ms, min(asked_ms, _LONGEST_ASKED_MS))
