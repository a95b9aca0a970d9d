"""``anew policy show``: everything that is known about one preset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from anew.cli.output import show_json, show_table, table
from anew.units import format_duration

if TYPE_CHECKING:
    from anew.backoff import Preset

_ROWS: Final = 10


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
    if as_json:
        show_json(_body(found) | {"law": law} | told.to_json())
        return
    click.echo(f"{found.name}: {found.summary}\n")
    _block("law", [*law, "k = 1 is the first retry, c the nominal wait"])
    parameters = [(one["name"], _default(one["default"]), one["expected"]) for one in _parameters(found)]
    _block("parameters", table(("NAME", "DEFAULT", "WHAT IT MAY BE"), parameters) if parameters else ["none"])
    if found.names:
        _block("its own names", table(("THERE", "HERE"), [*found.names.items()]))
    _block("its counter", [found.origin])
    _block("its limit counts", [found.counts])
    _block("source", [found.source])
    if found.aliases:
        _block("also called", [", ".join(found.aliases)])
    if found.traps:
        _block("traps", found.traps)
    _block("as JSON", [msgspec.json.encode(policy.to_json()).decode()])
    click.echo()
    rows = [
        (
            str(row.retry),
            *(_cell(ms) for ms in (row.nominal_ms, row.earliest_ms, row.latest_ms, row.window_latest_ms)),
        )
        for row in told.rows
    ]
    show_table(("RETRY", "NOMINAL", "EARLIEST", "LATEST", "FROM START AT MOST"), rows)


def _block(label: str, lines: list[str] | tuple[str, ...]) -> None:
    """Print lines beside a label, which stands before the first."""
    for index, line in enumerate(lines):
        click.echo(f"{label if not index else '':<18}{line}".rstrip())


def _cell(ms: int | None) -> str:
    return "-" if ms is None else format_duration(ms)


def _default(value: Any) -> str:
    return "as the others" if value is None else value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _parameters(found: Preset) -> list[dict[str, Any]]:
    return [
        {"name": name, "default": found.defaults[name], "expected": kind.expected}
        for name, kind in found.parameters.items()
    ]


def _body(found: Preset) -> dict[str, Any]:
    return {
        "name": found.name,
        "aliases": found.aliases,
        "family": found.family,
        "summary": found.summary,
        "parameters": _parameters(found),
        "source": found.source,
        "origin": found.origin,
        "counts": found.counts,
        "traps": found.traps,
        "names": dict(found.names),
    }
