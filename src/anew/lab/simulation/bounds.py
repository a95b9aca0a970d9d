"""How much one simulation may do, and how it tells how far it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from anew.errors import InvalidInput

MAX_CALLS: Final = 300_000_000
"""The most calls of a simulation of jobs that do not hinder each other: 10 million with 25 retries fit."""

MAX_COUPLED_CALLS: Final = 10_000_000
"""The most calls of a simulation with a limited downstream, which goes call by call."""

MAX_EXACT_CALLS: Final = 5_000_000
"""The most calls that go through the engine's own decision, at some 20 µs each."""

MAX_EXACT_JOBS: Final = 100_000
"""The largest herd that does."""

PLAIN_JOBS: Final = 20_000
"""The largest herd where NumPy is missing, so that everything goes that way."""

COUPLED_CALL: Final = 10
"""A call that meets a queue takes as long as so many that do not."""

MAX_ROUNDS: Final = 110_000
"""The most retries of one job, unless a thousandth of the calls' bound is less: Amazon SNS makes 100,015. So many take
some ten seconds, however few the jobs."""

# A retry of a few jobs takes as long as one of about so many.
_CALLS_A_ROUND: Final = 1_000

_TELL_EVERY: Final = 4_096


class Budget:
    """Counts calls against a bound and passes on how far a simulation is.

    Args:
        calls: The most calls.
        progress: Is told a share of the work from 0 to 1, now and then; what it raises ends the simulation.
    """

    def __init__(self, calls: int, progress: Callable[[float], None] | None = None) -> None:
        self._calls = calls
        self._left = calls
        self._rounds = min(MAX_ROUNDS, calls // _CALLS_A_ROUND)
        self._progress = progress
        self._told = 0

    def admit(self, callers: int) -> None:
        """Refuse more callers than there may be calls, before any memory is spent on them.

        Raises:
            InvalidInput: There are too many.
        """
        if callers > self._calls:
            raise self._too_much()

    def foresee(self, jobs: int, retries: int) -> None:
        """Refuse at once what is certain to end beyond the bounds.

        Args:
            jobs: How many there are.
            retries: What each of them will make.

        Raises:
            InvalidInput: That is too much.
        """
        self.admit(jobs * retries)
        self._follow(retries)

    def spend(self, calls: int, retry: int) -> None:
        """Count calls.

        Args:
            calls: How many.
            retry: The highest retry among them.

        Raises:
            InvalidInput: That was too much.
        """
        self._left -= calls
        if self._left < 0:
            raise self._too_much()
        self._follow(retry)

    def _follow(self, retry: int) -> None:
        if retry > self._rounds:
            raise InvalidInput(
                f"policy: a job of this scenario is retried more than {self._rounds:,} times; "
                "expected longer waits, a limit, a shorter outage, or a horizon",
                field="policy",
            )

    def tell(self, done: float, whole: float) -> None:
        """Say how far the simulation is, not at every step."""
        if self._progress is None:
            return
        step = int(done / whole * _TELL_EVERY) if whole else _TELL_EVERY
        if step > self._told:
            self._told = step
            self._progress(min(step / _TELL_EVERY, 1.0))

    def _too_much(self) -> InvalidInput:
        return InvalidInput(
            f"jobs: this scenario makes more than {self._calls:,} calls; expected fewer jobs or retries, "
            "a shorter outage, a lower base rate, or a horizon",
            field="jobs",
        )
