"""How long a client waits before another try: a policy of the engine, with chance from the system."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from anew.errors import AnewError, Unavailable

if TYPE_CHECKING:
    from anew.backoff import Policy

USUAL: Final = {"preset": "aws_equal", "base": "250ms", "cap": "10s", "limit": 20}
"""Waits of 78 to 156 s in all. Half of each is certain, so none is zero; half is chance, so that clients which lost
one server together do not come back together."""

_LONGEST_ASKED_MS: Final = 60_000
"""A server that asks for a longer wait is asked again after this one."""


class Waits:
    """The waits between tries.

    Args:
        policy: A preset's name, a policy's JSON form or a `Policy`, whose limit bounds the tries. Without one they are 20.

    Raises:
        InvalidPolicy: It is not a policy.
    """

    def __init__(self, policy: object = USUAL) -> None:
        # The usual one is read at the first wait: the engine takes longer to import than all else here.
        self._policy = None if policy is USUAL else _read(policy)

    def before(
        self, retry: int, error: AnewError | None = None, rng: Callable[[], float] = random.random
    ) -> int | None:
        """Give the wait before another try, in milliseconds: the policy's, or the longer one that the server asked for.

        Args:
            retry: 1 for the first.
            error: What the last try met.
            rng: Gives numbers in [0, 1).

        Returns:
            None if there is to be no other try.
        """
        from anew.backoff import Draws, Wait, next_wait

        if self._policy is None:
            self._policy = _read(USUAL)
        wait = next_wait(self._policy, retry, Draws(rng=rng))
        if not isinstance(wait, Wait):
            return None
        asked = error.retry_after if isinstance(error, Unavailable) else None
        asked_ms = 0 if asked is None else asked // datetime.timedelta(milliseconds=1)
        return max(wait.wait_ms, min(asked_ms, _LONGEST_ASKED_MS))


def waits_of(policy: object) -> Waits | None:
    """Give the waits of a client's ``retry``; None for None."""
    return None if policy is None else Waits(policy)


def _read(policy: object) -> Policy:
    from anew.backoff import Policy

    return Policy.from_json(policy, default_limit=20)
