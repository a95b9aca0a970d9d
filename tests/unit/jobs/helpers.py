"""Makers of jobs in hand, for tests of the decisions about them."""

from typing import Any

from anew.backoff import Policy
from anew.jobs import Defaults, Job, State

NOW = 1_700_000_000_000
DAY_MS = 86_400_000
JOB_ID = b"0abcdefgh0000000000000007"


def no_chance() -> float:
    """A generator that must not be asked."""
    raise AssertionError("a number was drawn where none is needed")


def make_defaults(policy: dict[str, Any] | None = None, **overrides: Any) -> Defaults:
    """Ten seconds between runs, 25 retries, unless told otherwise."""
    return Defaults(policy=Policy.from_json(policy or {"curve": {"constant": "10s"}}), **overrides)


def make_failing(**overrides: Any) -> Job:
    """A job in flight, in its first run unless told otherwise, a second after it was taken."""
    return make_job(**{"state": State.IN_FLIGHT, "dequeued_at": NOW - 1_000} | overrides)


def make_job(**overrides: Any) -> Job:
    """A ready job that has never run."""
    fields: dict[str, Any] = {
        "key": 7,
        "queue": "mail",
        "type": "send",
        "priority": 32_768,
        "state": State.READY,
        "ready_at": NOW - 5_000,
        "attempts": 0,
        "interruptions": 0,
        "retry_limit": None,
        "policy": None,
        "retention": None,
        "dequeued_at": None,
        "failed_at": None,
        "first_failed_at": None,
        "completed_at": None,
        "purge_at": None,
        "phase": None,
        "carry": None,
    }
    return Job(**fields | overrides)
