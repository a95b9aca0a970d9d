"""``anew policy list`` and ``anew policy show``: the policies that have a name, and all that is known about one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from anew.cli.output import show_json, show_table, table
from anew.units import format_duration, format_range

if TYPE_CHECKING:
    from anew.backoff import Preset

_ROWS: Final = 10
"""Retries of a preset that are shown."""


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
    from anew.backoff import FAMILIES, PRESETS
    from anew.backoff.kinds import Choice

    if family is not None:
        Choice(*FAMILIES).read(family, "family")
    listed = [_listed(item) for item in PRESETS.values() if family in (None, item.family)]
    if as_json:
        show_json({"presets": listed})
        return
    show_table(("NAME", "FAMILY", "RETRIES", "WINDOW", "WHAT IT IS"), [_row(each) for each in listed])


def _listed(item: Preset) -> dict[str, Any]:
    """Give what the list says; the window is that of the last retry, None if there is none or it cannot be told."""
    from anew.backoff import preset
    from anew.lab.last_retry import last_retry, window

    policy = preset(item.name)
    span = window(policy) if policy.limit_given else None
    if span is None and policy.limit_given and (drawn := last_retry(policy)) is not None:
        span = drawn.earliest_ms, drawn.latest_ms
    return _called(item) | {
        "parameters": [*item.parameters],
        "limit_given": policy.limit_given,
        "limit": policy.retries if policy.limit_given else None,
        "window_earliest_ms": None if span is None else span[0],
        "window_latest_ms": None if span is None else span[1],
    }


def _row(listed: dict[str, Any]) -> tuple[str, ...]:
    limit, earliest_ms = listed["limit"], listed["window_earliest_ms"]
    retries = "-" if not listed["limit_given"] else "no end" if limit is None else f"{limit:,}"
    window = "-" if earliest_ms is None else format_range(earliest_ms, listed["window_latest_ms"])
    return listed["name"], listed["family"], retries, window, listed["summary"]


def _called(item: Preset) -> dict[str, Any]:
    return {"name": item.name, "aliases": item.aliases, "family": item.family, "summary": item.summary}


@click.command("show")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def show_policy(name: str, as_json: bool) -> None:
    """Show a preset: its law in words, its parameters, where it is published, its traps, its first ten retries.

    NAME is a preset or one of its other names (anew policy list).

    \b
    Examples:
      anew policy show sidekiq8
      anew policy show exponential_jitter
      anew policy show celery --json
    """
    from anew.backoff import find_preset, in_words, preset
    from anew.lab.explain import explain

    found = find_preset(name)
    policy = preset(found.name)
    law = in_words(policy)
    told = explain(policy, _ROWS)
    parameters = [
        {"name": name, "default": found.defaults[name], "expected": kind.expected}
        for name, kind in found.parameters.items()
    ]
    if as_json:
        own = {name: getattr(found, name) for name in ("source", "origin", "counts", "traps")}
        own = _called(found) | {"parameters": parameters} | own | {"names": dict(found.names), "law": law}
        show_json(own | told.to_json())
        return
    click.echo(f"{found.name}: {found.summary}\n")
    _block("law", [*law, "k = 1 is the first retry, c the nominal wait"])
    taken = [(one["name"], _default(one["default"]), one["expected"]) for one in parameters]
    _block("parameters", table(("NAME", "DEFAULT", "WHAT IT MAY BE"), taken) if taken else ["none"])
    if found.names:
        _block("its own names", table(("THERE", "HERE"), [*found.names.items()]))
    _block("its counter", [found.origin])
    _block("its limit counts", [found.counts])
    _block("source", [found.source])
    if found.aliases:
        _block("also called", [", ".join(found.aliases)])
    if found.traps:
        _block("traps", found.traps)
    _block("as JSON", [_json(policy.to_json())])
    click.echo()
    rows = [
        (
            str(row.retry),
            *(_cell(ms) for ms in (row.nominal_ms, row.earliest_ms, row.latest_ms, row.window_latest_ms)),
        )
        for row in told.rows
    ]
    show_table(("RETRY", "NOMINAL", "EARLIEST", "LATEST", "FROM START AT MOST"), rows)


def _block(label: str, lines: Iterable[str]) -> None:
    """Print lines beside a label, which stands before the first."""
    for index, line in enumerate(lines):
        click.echo(f"{label if not index else '':<18}{line}".rstrip())


def _cell(ms: int | None) -> str:
    return "-" if ms is None else format_duration(ms)


def _default(value: Any) -> str:
    return "as the others" if value is None else value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
