"""A policy as others write it, to be copied: JSON, Python, Zizq's own form, Faktory's. Says so where one cannot say it."""

from __future__ import annotations

import contextlib
import json
from typing import Final, NamedTuple

from anew.backoff import Grow, Policy, Power
from anew.errors import InvalidPolicy
from anew.web.lab.cards import JSON, Card, compact


class Form(NamedTuple):
    """A policy in one form: whose it is, the text to copy, and how it is used; or no text, and why there is none."""

    name: str
    text: str
    note: str


_JSON_USE: Final = "A job's policy, --default-policy, or an argument of anew policy and anew lab."
_PYTHON_USE: Final = (
    "For anew.lab in a program of yours; a client enqueues a job with policy=policy.to_json()."
)
_ZIZQ_USE: Final = (
    "Fields of a job, not a policy: for POST /jobs, or a client of Zizq's. "
    "What stands under backoff is a policy for Anew, too."
)
_FAKTORY_USE: Final = "A field of a job, not a policy: for PUSH, or a client of Faktory's. When it retries is the server's own law."
_FAKTORY: Final = Policy.from_json("faktory")


def forms(card: Card) -> list[Form]:
    """Give a policy in every form; nothing where there is no policy."""
    policy = card.policy
    if policy is None:
        return []
    json_form = Form("JSON", compact(policy), _JSON_USE)
    return [json_form, Form("Python", _python(card, policy), _PYTHON_USE), _zizq(policy), _faktory(policy)]


def _python(card: Card, policy: Policy) -> str:
    if card.choice == JSON:
        return f"from anew.backoff import Policy\n\npolicy = Policy.from_json({policy.to_json()!r})"
    said = [f"{name}={value!r}" for name, value in card.form.items() if name != "preset"]
    arguments = ", ".join([repr(card.preset), *said]).replace("'", '"')
    return f"from anew.backoff import preset\n\npolicy = preset({arguments})"


def _zizq(policy: Policy) -> Form:
    """Give Zizq's three numbers and its limit, where they come to the same policy."""
    curve, jitter = policy.curve, policy.jitter
    if isinstance(curve, Power) and policy.limit is not None:
        backoff = {
            "exponent": int(curve.exponent) if curve.exponent.is_integer() else curve.exponent,
            "base_ms": curve.base_ms,
            "jitter_ms": jitter.by_ms if isinstance(jitter, Grow) else 0,
        }
        with contextlib.suppress(InvalidPolicy):
            if Policy.from_json(backoff).with_limit(policy.limit) == policy.with_limit(policy.limit):
                text = json.dumps({"backoff": backoff, "retry_limit": policy.limit})
                return Form("Zizq", text, _ZIZQ_USE)
    note = "Zizq cannot express this policy: it knows base + k^exponent s, k = 1 at the first retry, up to k × jitter"
    note += ", and a limit, in numbers of 32 bits. Anew takes its JSON as a job's policy."
    return Form("Zizq", "", note)


def _faktory(policy: Policy) -> Form:
    if policy.with_limit(25) != _FAKTORY.with_limit(25) or policy.limit is None:
        note = "Faktory cannot express this policy: its clients say how often, and its server alone says when"
        return Form("Faktory", "", f"{note} (15 s + (k-1)^4 s, plus k times a die of 30 faces).")
    return Form("Faktory", f'{{"retry": {policy.limit}}}', _FAKTORY_USE)
