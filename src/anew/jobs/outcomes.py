"""How an attempt can end, as told by whoever ran it. A closed set; `decide` turns each into a change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The handler reported an error.

    Attributes:
        message: What went wrong; may be empty.
        error_type: The error's class name, if the worker knows it.
        backtrace: Where it happened, as text.
        retry_at: Run again at this instant (epoch ms), whatever curve and limit say; a floor, a ceiling or a deadline of the
            policy holds, see its `override`. None leaves it to the policy.
        kill: Do not run again, whatever policy, limit and `retry_at` say.
    """

    message: str
    error_type: str | None = None
    backtrace: str | None = None
    retry_at: int | None = None
    kill: bool = False


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Nobody told: the hold on the job ended without a verdict.

    Attributes:
        cause: The worker that held it went away, or kept it longer than a lease lasts.
    """

    cause: Literal["worker gone", "lease lapsed"]
