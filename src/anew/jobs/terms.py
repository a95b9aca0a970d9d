"""A job's own policy and retention, read from where they are stored.

They were checked when they came; but a store outlives the version that wrote it and the disk that held it. A job whose policy
cannot be read any more is set aside; one whose retention cannot be read is kept as the default says.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from anew.backoff import Policy, policy_from_json
from anew.backoff.kinds import MAX_COUNT
from anew.errors import InvalidPolicy
from anew.jobs.codec import Retention

UNREADABLE_RETENTION = "; the job's own retention cannot be read, so the default retention holds"

_NOTHING_OF_ITS_OWN = Retention()


def policy_of(own: bytes | None, retry_limit: int | None, default: Policy) -> Policy | None:
    """Find the policy that holds for a job: its own over the default, its own limit over the policy's.

    A job's own policy that names no limit takes the default's.

    Args:
        own: The stored policy as JSON, or None.
        retry_limit: The job's own limit, or None.
        default: What holds otherwise.

    Returns:
        The policy; None if the job's own cannot be read.
    """
    if own is None and retry_limit is None:
        return default
    return _policy_of_its_own(own, retry_limit, default)


@lru_cache(maxsize=1024)
def _policy_of_its_own(own: bytes | None, retry_limit: int | None, default: Policy) -> Policy | None:
    policy = default
    if own is not None:
        try:
            policy = policy_from_json(own, default_limit=default.limit)
        except InvalidPolicy:
            return None
    # The wire allows more retries than a policy counts; no job lives that long.
    return policy if retry_limit is None else policy.with_limit(min(retry_limit, MAX_COUNT))


@lru_cache(maxsize=1024)
def rule_of(rule: bytes, retry_limit: int | None, default: Policy) -> Policy | None:
    """Give the policy that a failure brings with it: its limit is the lower one of its own and the job's.

    Args:
        rule: The policy as JSON.
        retry_limit: The job's own limit, or None.
        default: Gives the limit where neither has one.

    Returns:
        The policy; None if it cannot be read.
    """
    limit = default.limit if retry_limit is None else min(retry_limit, MAX_COUNT)
    try:
        policy = policy_from_json(rule, default_limit=limit)
    except InvalidPolicy:
        return None
    if retry_limit is None or (policy.limit is not None and policy.limit <= retry_limit):
        return policy
    return policy.with_limit(limit)


@lru_cache(maxsize=1024)
def policy_readable(own: bytes) -> bool:
    """Report whether a stored policy can be read."""
    try:
        policy_from_json(own)
    except InvalidPolicy:
        return False
    return True


@lru_cache(maxsize=1024)
def retention_and_note(stored: bytes) -> tuple[Retention, str]:
    """Read a stored retention; one that cannot be read sets nothing, and comes with what a reason must add."""
    try:
        return msgspec.json.decode(stored, type=Retention), ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _NOTHING_OF_ITS_OWN, UNREADABLE_RETENTION
