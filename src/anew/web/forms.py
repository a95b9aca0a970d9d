"""A policy as others write it, to be copied: JSON, Python, Zizq's own form, Faktory's. Says so where one cannot say it."""

from __future__ import annotations

import json

import msgspec

from anew.backoff import Grow, NoJitter, Policy, Power
from anew.errors import InvalidPolicy
from anew.web.cards import JSON, Card, compact


class Form(msgspec.Struct, frozen=True):
    """A policy in one form.

    Attributes:
        name: Whose form it is.
        text: To copy; "" where the form cannot express the policy.
        note: How it is used, or why there is none.
    """

    name: str
    text: str
    note: str


def forms(card: Card) -> list[Form]:
    """Give a policy in every form; nothing where there is no policy."""
    policy = card.policy
    if policy is None:
        return []
    return [
        Form(
            "JSON",
            compact(policy),
            "A job's policy, --default-policy, or an argument of anew policy and anew lab.",
        ),
        Form(
            "Python",
            _python(card, policy),
            "For anew.lab in a program of yours; a client enqueues a job with policy=policy.to_json().",
        ),
        _zizq(policy),
        _faktory(policy),
    ]


def _python(card: Card, policy: Policy) -> str:
    if card.choice == JSON:
        return f"from anew.backoff import Policy\n\npolicy = Policy.from_json({policy.to_json()!r})"
    said = [f"{name}={value!r}" for name, value in card.form.items() if name != "preset"]
    arguments = ", ".join([repr(card.preset), *said]).replace("'", '"')
    return f"from anew.backoff import preset\n\npolicy = preset({arguments})"


def _zizq(policy: Policy) -> Form:
    reason = _not_zizq(policy)
    if reason:
        return Form(
            "Zizq", "", f"Zizq cannot express this policy: {reason}. Anew takes its JSON as a job's policy."
        )
    return Form(
        "Zizq",
        json.dumps({"backoff": _zizq_backoff(policy), "retry_limit": policy.limit}),
        "Fields of a job, not a policy: for POST /jobs, or a client of Zizq's. "
        "What stands under backoff is a policy for Anew, too.",
    )


def _zizq_backoff(policy: Policy) -> dict[str, float]:
    """Give the three numbers of a policy that is a power with at most a growing jitter."""
    curve, jitter = policy.curve, policy.jitter
    assert isinstance(curve, Power)
    return {
        "exponent": int(curve.exponent) if curve.exponent.is_integer() else curve.exponent,
        "base_ms": curve.base_ms,
        "jitter_ms": jitter.by_ms if isinstance(jitter, Grow) else 0,
    }


def _not_zizq(policy: Policy) -> str:
    """Say what of a policy Zizq's three numbers and its limit leave unsaid; "" if nothing."""
    curve, jitter = policy.curve, policy.jitter
    law = "it knows base + k^exponent s and up to k × jitter"
    if not isinstance(curve, Power) or curve.origin != 1 or curve.scale_ms != 1_000 or curve.slope_ms:
        return f"{law}, k = 1 at the first retry, and this is another curve"
    if not (isinstance(jitter, NoJitter) or jitter == Grow(by_ms=getattr(jitter, "by_ms", 0))):
        return f"{law}, and this is another jitter"
    if policy.cap_ms is not None or policy.floor_ms or policy.ceil_ms is not None:
        return "it has neither cap nor floor nor ceiling"
    if policy.deadline_ms is not None or policy.on_exhausted != "dead":
        return "it has no deadline, and keeps all its dead jobs"
    if policy.limit is None:
        return "its jobs have a limit"
    try:
        Policy.from_json(_zizq_backoff(policy))
    except InvalidPolicy as error:
        return f"its numbers have 32 bits, and {error.field} would be {error.value}"
    return ""


_FAKTORY_USE = "A field of a job, not a policy: for PUSH, or a client of Faktory's. When it retries is the server's own law."
_FAKTORY = Policy.from_json("faktory")


def _faktory(policy: Policy) -> Form:
    if policy.with_limit(25) != _FAKTORY.with_limit(25) or policy.limit is None:
        note = "Faktory cannot express this policy: its clients say how often, and its server alone says when"
        return Form("Faktory", "", f"{note} (15 s + (k-1)^4 s, plus k times a die of 30 faces).")
    return Form("Faktory", f'{{"retry": {policy.limit}}}', _FAKTORY_USE)
