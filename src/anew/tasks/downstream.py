"""The services that handlers call, and their circuit breakers: `Downstream` says when one opens, `Breaker` shows how it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from anew.backoff.policy import policy_from_json
from anew.jobs.breaker import BreakerRow, BreakerSettings
from anew.tasks.policies import read_policy
from anew.tasks.times import Wait, wait_ms, whole
from anew.units import refused

COOLDOWN: Final = {"curve": {"exponential": {"base": "30s"}}, "cap": "10m"}
"""30 s, 1 min, 2 min and so on; at most 10 min."""

MOST_RATE: Final = 1_000
MOST_COUNT: Final = 1_000_000
MOST_LIMITED: Final = 1_000
"""How often a job may be put off by answers of 429: a service that says so for ever has its jobs die in the end."""


class Downstream:
    """A service that a task's handler calls.

    Args:
        key: Names it, for all tasks, workers and processes on the same file.
        failures: Share of the runs in the window, above 0 to 1, at which jobs are held.
        least: Runs in the window below which nothing is concluded.
        window: How long runs are remembered.
        cooldown: How long jobs are held before one tries again: any policy, by how often that has failed. None: 30 s, 1 min and so
            on, at most 10 min.
        release: Held jobs that come back per second, at most 1,000.
        budget: Retries that fail in the window, as a share of its runs, beyond which retries are held; `least` of them are always
            allowed. None: no limit.
        most: How often a job may be put off by answers of 429; one more ends it.

    Attributes:
        settings: What its breaker works with.

    Raises:
        InvalidInput: A value does not fit.
    """

    __slots__ = ("key", "most", "settings")

    def __init__(
        self,
        key: str,
        *,
        failures: float = 0.5,
        least: int = 10,
        window: Wait = "1m",
        cooldown: object = None,
        release: float = 10,
        budget: float | None = 0.2,
        most: int = MOST_LIMITED,
    ) -> None:
        self.key = read_key(key)
        self.most = _count(most, "most")
        window_ms = wait_ms(window, "downstream.window")
        if window_ms == 0:
            raise refused("downstream.window", window, "a duration above 0")
        if failures == 0:
            raise refused("downstream.failures", failures, "a share above 0, at most 1")
        self.settings = BreakerSettings(
            failures=_number(failures, "failures", 1),
            least=_count(least, "least"),
            window_ms=window_ms,
            cooldown=policy_from_json(read_policy(COOLDOWN if cooldown is None else cooldown)),
            spacing_ms=_spacing_ms(release),
            budget=None if budget is None else _number(budget, "budget", 1),
        )

    def __repr__(self) -> str:
        return f"Downstream({self.key!r})"


def read_downstream(value: object) -> Downstream:
    """Read what a task names as the service that it calls.

    Raises:
        InvalidInput: It is neither a name nor a `Downstream`.
    """
    if isinstance(value, Downstream):
        return value
    if not isinstance(value, str):
        raise refused("downstream", value, 'a name such as "stripe", or Downstream(...)')
    return Downstream(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """A circuit breaker as it stands.

    Attributes:
        key: The service's name.
        state: ``closed``: jobs start; ``open``: they are held; ``half_open``: one tries.
        runs, failures: Runs that have ended, and those of them that failed, as they weighed when they were last counted.
        opened: How often it has opened since it was last closed.
        reopens_at: When the next job tries, epoch ms; None where it is closed.
        released_until: Held jobs come back until then, epoch ms; None: none has been held.
    """

    key: str
    state: str
    runs: float
    failures: float
    opened: int
    reopens_at: int | None
    released_until: int | None


def breaker_of(row: BreakerRow) -> Breaker:
    """Give a breaker as programs see it."""
    return Breaker(
        key=row.key,
        state=str(row.state),
        runs=row.runs,
        failures=row.failures,
        opened=row.opened,
        reopens_at=row.reopen_at or None,
        released_until=row.next_release_at or None,
    )


def read_key(value: object) -> str:
    """Read the name of a service.

    Raises:
        InvalidInput: It is none.
    """
    if not isinstance(value, str) or not 1 <= len(value.encode("utf-8", "surrogatepass")) <= 255:
        raise refused("downstream", value, "a name of 1 to 255 bytes")
    if not value.isprintable():
        raise refused("downstream", value, "a name without control characters")
    return value


def _number(value: object, name: str, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise refused(f"downstream.{name}", value, f"a number from 0 to {most:g}")
    return value


def _count(value: object, name: str) -> int:
    return whole(f"downstream.{name}", value, 1, MOST_COUNT, f"a whole number from 1 to {MOST_COUNT}")


def _spacing_ms(release: object) -> int:
    """Give the milliseconds between two releases; a part of one counts as a whole one, so that the rate is never passed."""
    rate = _number(release, "release", MOST_RATE)
    if rate * 86_400 < 1:
        raise refused("downstream.release", release, "at least one job a day")
    return -int(-round(1_000 / rate, 6) // 1)
