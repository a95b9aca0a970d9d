"""What a program may give as a task's policy, and which of it holds for one failure.

    {"preset": "sidekiq"}, "sidekiq", Policy(...)       any policy of the engine
    ["10s", "1m", 300]                                  a list of waits: as many retries
    {TimeoutError: ["10s", "1m"], ValueError: None, Exception: "even"}    rules by exception; None: no retry
    lambda attempt, exception: attempt * 10             a function: seconds (below zero: 0), or None for no retry
    lambda exception, task_result: 10                   the same in Django's shape

What JSON can say is stored with each job, so that every door shows it. Rules and functions are asked by the worker when a job
fails.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from anew.backoff import Policy
from anew.errors import InvalidPolicy
from anew.jobs import Failed
from anew.tasks.context import Context
from anew.tasks.times import wait_ms

Rule = Callable[[Context, BaseException], float | None]


@dataclass(frozen=True, slots=True)
class Retries:
    """When jobs of one task run again.

    Attributes:
        policy: What is stored with its jobs, as JSON; None: the default.
        rules: By exception; the first holds that is found from an error's class on through its base classes. None: no retry.
        function: Asked at each failure that no rule is for.
    """

    policy: bytes | None = None
    rules: Mapping[type[BaseException], bytes | None] | None = None
    function: Rule | None = None

    def about(self, failure: Failed, error: BaseException, context: Context) -> Failed:
        """Give a failure with what holds for it: a rule's policy, or the function's answer. Raises whatever a function raises."""
        if failure.kill or failure.retry_at is not None:
            return failure
        if self.rules is not None:
            for kind in type(error).__mro__:
                if kind in self.rules:
                    rule = self.rules[kind]
                    return replace(failure, kill=True) if rule is None else replace(failure, policy=rule)
        if self.function is None:
            return failure
        seconds = self.function(context, error)
        if seconds is None:
            return replace(failure, kill=True)
        past = isinstance(seconds, timedelta | int | float) and seconds < type(seconds)(0)
        ms = 0 if past else wait_ms(seconds, "the wait that the policy's function gave")
        return replace(failure, retry_at=context.now() + ms, limited=True)


NO_POLICY = Retries()
"""The default decides."""


def read_retries(value: object) -> Retries:
    """Read a task's policy.

    Raises:
        InvalidPolicy: It is none of the forms above; names the part that is wrong.
    """
    if value is None:
        return Retries()
    if isinstance(value, Mapping) and any(isinstance(key, type) for key in value):
        return _read_rules(value)
    if callable(value) and not isinstance(value, Policy | type):
        return Retries(function=_read_function(value))
    return Retries(policy=read_policy(value))


def read_policy(value: object) -> bytes:
    """Read a policy that JSON can say, and give its JSON.

    Raises:
        InvalidPolicy: It is none.
    """
    if isinstance(value, str) and value[:1].isdigit():
        value = [value]
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        waits = [wait_ms(wait, f"policy[{at}]") for at, wait in enumerate(value)]
        value = {"curve": {"table": waits or [0]}, "limit": len(waits)}
    policy = value if isinstance(value, Policy) else Policy.from_json(value)
    text = policy.to_bytes()
    try:
        Policy.from_json(policy.to_json())
    except InvalidPolicy:
        raise InvalidPolicy(
            "policy: a curve that is a Python function cannot be stored with a job; "
            "expected policy=function, called with (attempt, exception)",
            field="policy",
        ) from None
    return text


def _read_rules(value: Mapping[Any, object]) -> Retries:
    rules: dict[type[BaseException], bytes | None] = {}
    for kind, rule in value.items():
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise InvalidPolicy(
                f"policy: {kind!r} is not valid among rules by exception; expected a class of exceptions",
                field="policy",
                value=kind,
            )
        rules[kind] = None if rule is None else read_policy(rule)
    return Retries(policy=rules.get(Exception), rules=rules)


def _read_function(function: Callable[..., Any]) -> Rule:
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = []
    if len(names) != 2:
        raise InvalidPolicy(
            "policy: expected a function of two parameters, (attempt, exception) or (exception, task_result)",
            field="policy",
        )
    if names[0] in ("exception", "exc", "error", "e"):
        return lambda context, error: function(error, context)
    return lambda context, error: function(context.attempt, error)
