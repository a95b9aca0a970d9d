"""``anew policy lint``: policies looked at with every rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from anew.cli.exit_codes import REFUSED, USAGE
from anew.cli.policy.lint_app import is_app, read_app
from anew.errors import InvalidInput
from anew.units import parse_duration_with_unit

if TYPE_CHECKING:
    from anew.cli.policy.lint_report import Report
    from anew.lab.lint import Context
    from anew.lab.lint.documents import Document, Entry
    from anew.lab.lint.table import Stated


@click.command("lint")
@click.argument("files", metavar="[FILE|MODULE:APP]...", nargs=-1)
@click.option(
    "--policy", "specs", multiple=True, metavar="POLICY", help="A policy as JSON, or a preset's name."
)
@click.option("--jobs", type=int, metavar="N", help="How many jobs may fail together. [1000]")
@click.option(
    "--outage", "outages", multiple=True, metavar="TIME", help="An outage that jobs have to outlive."
)
@click.option(
    "--deaths", metavar="SHARE", help="How many jobs may die in an outage, such as 0.5% or 0.005. [0.1%]"
)
@click.option(
    "--dead-retention", metavar="TIME", help="How long dead jobs are kept. [the server's default, 7d]"
)
@click.option(
    "--payload-retention", metavar="TIME", help="How long what payloads point at can be had. [for ever]"
)
@click.option("--select", multiple=True, metavar="RULE", help="Look at these rules only.")
@click.option(
    "--ignore", multiple=True, metavar="RULE", help="Leave a rule out; NAME:RULE for one policy alone."
)
@click.option(
    "--fail-on",
    type=click.Choice(["warning", "error"]),
    default="warning",
    help="Exit code 5 if anything is found that is so bad, or worse. [warning]",
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "github"]), default="text", help="[text]"
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--rules", is_flag=True, help="List the rules, each with its reason and an example.")
def lint_policies(
    files: tuple[str, ...],
    specs: tuple[str, ...],
    form: str,
    as_json: bool,
    fail_on: str,
    rules: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    **stated: Any,
) -> int:
    """Look for what a policy does that its author may not have meant.

    FILE is TOML or JSON: a policy, a list of policies, or names with a policy each; anew.toml, whose
    default-policy and [[fwp.policies]] count; or - for stdin. MODULE:APP is an application, as anew worker takes it:
    the policies of its tasks. What [lint] in a TOML file says holds for its policies; options win.

    \b
    Exit codes: 0 nothing found, 2 something cannot be read (the rest is looked at all the same),
    5 findings from --fail-on up.

    \b
    Examples:
      anew policy lint policies.toml anew.toml
      anew policy lint --policy zizq --jobs 50000 --outage 3d
      anew policy lint policies.toml --ignore thin-jitter --fail-on error --format github
      anew policy lint tasks:app --outage 1d
      anew policy lint --rules
    """
    from anew.cli.policy import lint_report
    from anew.lab.lint import Severity

    form = "json" if as_json else form
    if rules:
        lint_report.show_rules(form)
        return 0
    if not files and not specs:
        raise click.UsageError(
            "FILE: is missing; expected a file, - for stdin, module:app, or --policy POLICY"
        )
    given = _given(stated, select, ignore)
    files = tuple(file.removeprefix("@") for file in files)  # as other commands name a file
    apps = [read_app(file) for file in files if is_app(file)]
    documents = [*_documents([file for file in files if not is_app(file)], specs)]
    documents += [app.document for app in apps]
    _check_policies(given, documents)
    report = _looked_at(documents, given)
    report.unchecked.extend(policy for app in apps for policy in app.unchecked)
    lint_report.show(report, form)
    if report.problems:
        return USAGE
    return REFUSED if report.fails(Severity(fail_on)) else 0


def _documents(files: Sequence[str], specs: Sequence[str]) -> Iterator[Document]:
    """Read all that was given; what cannot be read becomes a document with a problem."""
    from anew.cli.remote import given_text
    from anew.lab.lint.documents import MAX_BYTES, Document, Problem, read_document

    for file in files:
        try:
            content = given_text(
                "-" if file == "-" else f"@{file}", MAX_BYTES, expected="a TOML or JSON file"
            )
        except InvalidInput as error:
            problem = Problem(file=file, message=str(error).removeprefix(f"@{file}: "))
            yield Document(problems=(problem,))
        else:
            yield read_document(content, file)
    for spec in specs:
        yield _document_of(spec)


def _document_of(spec: str) -> Document:
    """Read a policy of the command line; one preset is called by its name, all else by its option."""
    from anew.cli.policy.lint_report import SPEC
    from anew.cli.values import read_policy
    from anew.lab.lint.documents import Document, Entry, Problem

    # No preset has a name so long, and nobody wants to read it in each finding.
    name = spec if spec.isidentifier() and len(spec) <= 64 else "policy"
    try:
        value = read_policy(spec)
    except InvalidInput as error:
        problem = Problem(file=SPEC, policy=name, field=error.field, message=str(error))
        return Document(problems=(problem,))
    return Document(entries=(Entry(file=SPEC, name=name, value=value, line=None),))


def _given(stated: dict[str, Any], select: Sequence[str], ignore: Sequence[str]) -> Stated:
    """Give what the command line states, in the form of a document's own table.

    Raises:
        InvalidInput: No such rule, or no duration.
    """
    from anew.lab.lint import check_rules
    from anew.lab.lint.table import Stated, read_share

    chosen, left_out = (
        tuple(name for names in given for name in names.split(",") if name) for given in (select, ignore)
    )
    check_rules(chosen, "--select")
    check_rules(left_out, "--ignore")
    kept = {
        f"{name}_ms": parse_duration_with_unit(stated[name], f"--{name.replace('_', '-')}")
        for name in ("dead_retention", "payload_retention")
        if stated[name] is not None
    }
    return Stated(
        select=chosen,
        ignore=left_out,
        jobs=stated["jobs"],
        deaths=None if stated["deaths"] is None else read_share(stated["deaths"], "--deaths"),
        outages_ms=tuple(parse_duration_with_unit(text, "--outage") for text in stated["outages"]),
        **kept,
    )


def _check_policies(given: Stated, documents: Sequence[Document]) -> None:
    """Insist that the policies exist for which alone a rule is named; what cannot be read has a name too.

    Raises:
        InvalidInput: One does not.
    """
    from anew.lab.lint import check_rules

    names = [entry.name for document in documents for entry in document.entries]
    names += [problem.policy for document in documents for problem in document.problems if problem.policy]
    check_rules(given.select, "--select", names)
    check_rules(given.ignore, "--ignore", names)


def _looked_at(documents: Sequence[Document], given: Stated) -> Report:
    from anew.cli.policy.lint_report import SPEC, Report
    from anew.lab.lint import lint
    from anew.lab.lint.documents import Problem

    report = Report()
    for document in documents:
        report.problems.extend(document.problems)
        try:
            context = _context(given, document.stated)
        except InvalidInput as error:
            file = document.entries[0].file if document.entries else SPEC
            report.problems.append(Problem(file=file, field=error.field, message=str(error)))
            continue
        for entry in document.entries:
            report.entries.append(entry)
            found = lint(
                entry.value,
                _context_of(entry, context),
                name=entry.name,
                select=given.select or document.stated.select,
                ignore=given.ignore + document.stated.ignore,
            )
            report.findings.extend((entry, finding) for finding in found)
    return report


def _context(given: Stated, own: Stated) -> Context:
    """Give what the policies of a document will meet: the command line wins over the document's own table."""
    from anew.config import Settings
    from anew.lab.lint import Context

    jobs = next((jobs for jobs in (given.jobs, own.jobs) if jobs is not None), Context().jobs)
    dead = next(
        (ms for ms in (given.dead_retention_ms, own.dead_retention_ms) if ms is not None),
        Settings().retention.dead_ms,
    )
    payload = given.payload_retention_ms
    return Context(
        jobs=jobs,
        outages_ms=given.outages_ms or own.outages_ms,
        deaths=next((share for share in (given.deaths, own.deaths) if share is not None), Context().deaths),
        dead_retention_ms=dead,
        payload_retention_ms=own.payload_retention_ms if payload is None else payload,
    )


def _context_of(entry: Entry, context: Context) -> Context:
    import msgspec

    dead = context.dead_retention_ms if entry.dead_retention_ms is None else entry.dead_retention_ms
    return msgspec.structs.replace(context, default_limit=entry.default_limit, dead_retention_ms=dead)
