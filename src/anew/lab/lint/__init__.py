"""Lint: what a retry policy does that its author may not have meant."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from anew.backoff import Policy
from anew.backoff.kinds import did_you_mean

# Each of these three registers its rules.
from anew.lab.lint import ends, herds, shapes
from anew.lab.lint.facts import Facts
from anew.lab.lint.finding import RULES, Context, Finding, Rule, Severity
from anew.units import refused

__all__ = ["RULES", "Context", "Finding", "Rule", "Severity", "check_rules", "lint"]

_LISTED = 12
_MODULES = (herds, ends, shapes)


def lint(
    policy: Policy | Any,
    context: Context | None = None,
    *,
    name: str = "policy",
    select: Collection[str] = (),
    ignore: Collection[str] = (),
) -> list[Finding]:
    """Look at a policy with every rule.

    Args:
        policy: A policy, or the JSON value that one is read from. With the value, mistakes in units are found too.
        context: What it will meet: jobs, outages, retention; None: 1,000 jobs and nothing else stated.
        name: What the policy is called in the findings.
        select: Names of the only rules to look at; empty: all.
        ignore: Names of rules to leave out; ``"web:no-jitter"`` leaves one out for the policy ``web`` alone.

    Returns:
        What was found, the worst first.

    Raises:
        InvalidPolicy: The value is no policy.
        InvalidInput: There is no rule of such a name.
    """
    context = Context() if context is None else context
    check_rules(select, "select")
    check_rules(ignore, "ignore")
    written = None if isinstance(policy, Policy) else policy
    facts = Facts(Policy.from_json(policy, default_limit=context.default_limit), written)
    wanted = [
        rule
        for rule in RULES.values()
        if (not select or _named(rule.name, name, select)) and not _named(rule.name, name, ignore)
    ]
    found = [
        Finding(policy=name, rule=rule.name, severity=rule.severity, message=message)
        for rule in wanted
        for message in rule.look(facts, context)
    ]
    return sorted(found, key=lambda finding: list(Severity).index(finding.severity))


def check_rules(names: Collection[str], field: str, policies: Collection[str] | None = None) -> None:
    """Refuse names of rules that do not exist, and of policies before a colon; ``None`` as the known policies: any will do."""
    for given in names:
        policy, colon, rule = given.rpartition(":")
        if rule not in RULES:
            guess = did_you_mean(rule, RULES)
            raise refused(field, given, f"the name of a rule (anew policy lint --rules lists them){guess}")
        if colon and policies is not None and policy not in policies:
            known = [*dict.fromkeys(policies)]
            listed = ", ".join(known[:_LISTED]) + (" ..." if len(known) > _LISTED else "")
            expected = f"the name of a policy before the colon: {listed or 'there is none'}"
            raise refused(field, given, expected + did_you_mean(policy, known))


def _named(rule: str, policy: str, names: Collection[str]) -> bool:
    return rule in names or f"{policy}:{rule}" in names
