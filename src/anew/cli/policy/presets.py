"""``anew policy list``: the policies that have a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from anew.cli.output import show_json, show_table
from anew.units import format_range

if TYPE_CHECKING:
    from anew.backoff import Policy, Preset


@click.command("list")
@click.option("--family", metavar="NAME", help="Only one family: seeds, clouds, queues ...")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def list_policies(family: str | None, as_json: bool) -> None:
    """List the presets: policies that have a name.

    RETRIES and WINDOW are what the system itself allows: how many retries, and how long they take if all fail
    and runs take no time. A dash stands where it names no limit, and the server's own holds.

    \b
    Examples:
      anew policy list
      anew policy list --family queues
      anew policy list --json
    """
    from anew.backoff import FAMILIES, PRESETS, preset
    from anew.backoff.kinds import Choice

    if family is not None:
        Choice(*FAMILIES).read(family, "family")
    found = [item for item in PRESETS.values() if family in (None, item.family)]
    policies = [preset(item.name) for item in found]
    if as_json:
        show_json({"presets": [_body(*pair) for pair in zip(found, policies, strict=True)]})
        return
    rows = [
        (item.name, item.family, retries(policy), _span(window_ms(policy)), item.summary)
        for item, policy in zip(found, policies, strict=True)
    ]
    show_table(("NAME", "FAMILY", "RETRIES", "WINDOW", "WHAT IT IS"), rows)


def retries(policy: Policy) -> str:
    """Say how many retries a policy allows of its own accord."""
    if not policy.limit_given:
        return "-"
    return "no end" if policy.retries is None else f"{policy.retries:,}"


def window_ms(policy: Policy) -> tuple[int, int] | None:
    """Give the earliest and the latest time of the last retry after the first failure.

    Args:
        policy: The policy.

    Returns:
        Both in milliseconds; None if the policy has no last retry of its own, or it cannot be told.
    """
    from anew.lab.last_retry import last_retry, window

    if not policy.limit_given:
        return None
    if (found := window(policy)) is not None:
        return found
    drawn = last_retry(policy)
    return None if drawn is None else (drawn.earliest_ms, drawn.latest_ms)


def _span(window: tuple[int, int] | None) -> str:
    if window is None:
        return "-"
    return format_range(*window)


def _body(item: Preset, policy: Policy) -> dict[str, Any]:
    window = window_ms(policy)
    return {
        "name": item.name,
        "aliases": item.aliases,
        "family": item.family,
        "summary": item.summary,
        "parameters": [*item.parameters],
        "limit_given": policy.limit_given,
        "limit": policy.retries if policy.limit_given else None,
        "window_earliest_ms": None if window is None else window[0],
        "window_latest_ms": None if window is None else window[1],
    }
