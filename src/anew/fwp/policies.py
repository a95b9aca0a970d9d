"""Gives a checked job its policy, retention and reservation: the form in which the engine takes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from anew.backoff import policy_from_json
from anew.errors import InvalidPolicy
from anew.fwp.enterprise import CustomMembers, custom_of
from anew.fwp.jobs import CheckedJob
from anew.jobs.codec import JobHooks, PushedJob, Retention
from anew.units import DAY_MS

Tie: TypeAlias = Callable[[CustomMembers, CheckedJob], JobHooks | None]

DEAD_MS: Final = 180 * DAY_MS
"""How long a dead job is kept. Source: Faktory 1.10."""

SHORTEST_RESERVATION_S: Final = 60
"""What a shorter one is made to last. Source: Faktory 1.10."""

_POLICY: Final = msgspec.Raw(b'{"preset":"faktory"}')
_DISCARDS: Final = b'{"preset":"faktory","on_exhausted":"discard"}'
_NO_RETRY: Final = b'{"preset":"faktory","on_exhausted":"dead"}'
_RETENTION: Final = Retention(dead_ms=DEAD_MS)


class Policies:
    """The policies of one server's jobs.

    Args:
        own_policy: A policy was set for the whole server, and holds for these jobs too in place of Faktory's.
        chosen: By queue and type, policies that come before the server's; None stands for every queue or type.
    """

    def __init__(
        self,
        *,
        own_policy: bool = False,
        chosen: Mapping[tuple[str | None, str | None], msgspec.Raw] | None = None,
    ) -> None:
        self._policy: Any = msgspec.UNSET if own_policy else _POLICY
        self._chosen = chosen or {}

    def pushed(self, job: CheckedJob, tie: Tie) -> PushedJob:
        """Give a job in the engine's form.

        Args:
            job: The job.
            tie: Gives what its `custom` ties it to; called only where it has one.

        Raises:
            InvalidPolicy: It names a policy for itself that is none.
            AnewError: Whatever `tie` raises.
        """
        policy, limit = self._policy_of(job) if self._chosen else self._policy, job.retry
        ties = None
        if job.custom:
            custom = custom_of(job.custom)
            policy = _own_policy(custom, policy)
            ties = tie(custom, job)
        if limit <= 0:  # there is no wait that a policy could decide, only what becomes of the job
            policy, limit = msgspec.Raw(_NO_RETRY if limit else _DISCARDS), 0
        return PushedJob(
            type=job.jobtype,
            queue=job.queue,
            payload=job.args,
            ready_at=job.at,
            retry_limit=limit,
            retention=_RETENTION,
            policy=policy,
            jid=job.jid,
            meta=job.meta,
            reserve_ms=max(job.reserve_for, SHORTEST_RESERVATION_S) * 1_000 if job.reserve_for else None,
            attempts=job.attempts,
            hooks=ties,
        )

    def _policy_of(self, job: CheckedJob) -> Any:
        """Give the policy for a job's queue and type, else for its type, else for its queue, else the server's."""
        for key in ((job.queue, job.jobtype), (None, job.jobtype), (job.queue, None)):
            if key in self._chosen:
                return self._chosen[key]
        return self._policy


def _own_policy(custom: CustomMembers, otherwise: Any) -> Any:
    """Give the policy that a job names for itself.

    Raises:
        InvalidPolicy: It is none; the message names the member.
    """
    own = custom.anew_policy
    if isinstance(own, msgspec.UnsetType):
        return otherwise
    try:
        policy_from_json(bytes(own))
    except InvalidPolicy as error:
        raise InvalidPolicy(f"custom.anew_policy: {error}", field="custom.anew_policy") from error
    return own
