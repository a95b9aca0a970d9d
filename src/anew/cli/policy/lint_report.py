"""What ``anew policy lint`` found, as text, as JSON, and as GitHub's annotations."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import click
import msgspec

from anew.cli.output import coloured, encodable, one_line, show_json
from anew.cli.policy.lint_input import SPEC
from anew.config import Settings
from anew.lab.lint import RULES, Context, Finding, Severity, lint
from anew.lab.lint.documents import Document, Entry, Problem
from anew.units import counted

_COLOURS: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_PLURALS: Final = {Severity.INFO: "info"}
_ANNOTATIONS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


@dataclass(slots=True)
class Report:
    """All that came out.

    Attributes:
        entries: The policies that were looked at.
        problems: What could not be read.
        unchecked: What a function decides, so that there is no policy to look at.
        findings: What was found, each with the policy that it is about.
    """

    entries: list[Entry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unchecked: list[Problem] = field(default_factory=list)
    findings: list[tuple[Entry, Finding]] = field(default_factory=list)

    def fails(self, least: Severity) -> bool:
        """Tell whether a build should fail."""
        return any(finding.severity.at_least(least) for _, finding in self.findings)


def look_at(documents: Sequence[Document], given: dict[str, Any]) -> Report:
    """Look at every policy of some documents, with what the command line states."""
    report = Report()
    for document in documents:
        report.problems.extend(document.problems)
        # The command line wins over the document's own table.
        stated = {"dead_retention_ms": Settings().retention.dead_ms} | document.stated | given
        select = given["select"] or document.stated.get("select", ())
        ignore = given["ignore"] + document.stated.get("ignore", ())
        for entry in document.entries:
            report.entries.append(entry)
            met = stated | {"default_limit": entry.default_limit}
            if entry.dead_retention_ms is not None:
                met["dead_retention_ms"] = entry.dead_retention_ms
            context = Context(**{name: met[name] for name in Context.__struct_fields__ if name in met})
            found = lint(entry.value, context, name=entry.name, select=select, ignore=ignore)
            report.findings.extend((entry, finding) for finding in found)
    return report


def warnings_of(report: Report) -> list[str]:
    """Give a line for each finding that is a warning or worse; where several policies have the same, one for all."""
    alike: dict[tuple[str, str], list[str]] = {}
    for entry, finding in report.findings:
        if finding.severity.at_least(Severity.WARNING):
            alike.setdefault((finding.rule, finding.message), []).append(entry.name)
    return [
        one_line(f"{names[0]}{f' and {len(names) - 1:,} more' if names[1:] else ''}: {rule}: {message}")
        for (rule, message), names in alike.items()
    ]


def show(report: Report, form: str) -> None:
    """Print a report as ``text``, ``json`` or ``github``."""
    match form:
        case "json":
            show_json(_as_json(report))
        case "github":
            for line in _annotations(report):
                click.echo(encodable(line))
            click.echo(_summary(report))
        case _:
            _show_text(report)


def show_rules(form: str) -> None:
    """Print every rule with its severity, its reason, and a policy that it finds something in."""
    if form == "json":
        fields = ("name", "severity", "reason", "example")
        listed = [
            {name: getattr(rule, name) for name in fields} | {"options": rule.context.words()}
            for rule in RULES.values()
        ]
        show_json({"rules": listed})
        return
    for rule in RULES.values():
        colour = _COLOURS[rule.severity] if coloured(sys.stdout) else None
        click.echo(f"{click.style(rule.name, bold=True) if colour else rule.name} ", nl=False)
        click.echo(f"({click.style(rule.severity, fg=colour) if colour else rule.severity})")
        click.echo(f"  {rule.reason}")
        example = msgspec.json.encode(rule.example).decode()
        click.echo(f"  e.g. {' '.join([example, *rule.context.words()])}\n")


def _as_json(report: Report) -> dict[str, Any]:
    return {
        "policies": [
            {"name": entry.name, "file": entry.file, "line": entry.line} for entry in report.entries
        ],
        "problems": report.problems,
        "unchecked": report.unchecked,
        "findings": [
            {"file": entry.file, "line": entry.line, **msgspec.to_builtins(finding)}
            for entry, finding in report.findings
        ],
    }


def _show_text(report: Report) -> None:
    colour = coloured(sys.stdout)
    for problem in report.problems:
        where = _place(problem.file, problem.line, problem.policy)
        click.echo(one_line(f"Error: {where}{problem.message}"), err=True)
    for entry, finding in report.findings:
        where = one_line(_place(entry.file, entry.line, entry.name))
        severity = (
            click.style(finding.severity, fg=_COLOURS[finding.severity]) if colour else finding.severity
        )
        click.echo(f"{where}{severity}: {finding.rule}: {one_line(finding.message)}")
    for policy in report.unchecked:
        click.echo(one_line(f"{_place(policy.file, policy.line, policy.policy)}{policy.message}"))
    click.echo(_summary(report))


def _summary(report: Report) -> str:
    counts = Counter(finding.severity for _, finding in report.findings)
    found = ", ".join(
        counted(counts[severity], severity, _PLURALS.get(severity, ""))
        for severity in Severity
        if counts[severity]
    )
    # Where nothing was looked at, nothing found is no good news.
    nothing = "nothing found" if report.entries or not report.problems else "nothing could be looked at"
    text = f"{counted(len(report.entries), 'policy', 'policies')}: {found or nothing}"
    if report.unchecked:
        text += f"; {counted(len(report.unchecked), 'function')} not checked"
    return one_line(text)


def _annotations(report: Report) -> Iterator[str]:
    for problem in report.problems:
        yield _annotation(
            "error", problem.file, problem.line, problem.policy or "cannot be read", problem.message
        )
    for entry, finding in report.findings:
        title = f"{entry.name}: {finding.rule}"
        yield _annotation(_ANNOTATIONS[finding.severity], entry.file, entry.line, title, finding.message)
    for policy in report.unchecked:
        yield _annotation("notice", policy.file, policy.line, policy.policy, policy.message)


def _annotation(level: str, file: str, line: int | None, title: str, message: str) -> str:
    """Give one workflow command, escaped as GitHub's runner reads it."""
    properties = {"title": title}
    if file and file not in ("-", SPEC):
        properties = {"file": file} | ({"line": str(line)} if line else {}) | properties
    listed = ",".join(
        f"{name}={_escaped(value).replace(':', '%3A').replace(',', '%2C')}"
        for name, value in properties.items()
    )
    return f"::{level} {listed}::{_escaped(message)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _place(file: str, line: int | None, policy: str) -> str:
    """Give where something is, with a colon behind each part."""
    name = {"-": "stdin", SPEC: ""}.get(file, file)
    number = f"{line}:" if line else ""
    return (f"{name}:{number} " if name else "") + (f"{policy}: " if policy else "")
