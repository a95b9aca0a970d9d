"""``anew policy lint``: policies looked at with every rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from anew.cli.exit_codes import REFUSED, USAGE
from anew.cli.policy.lint_app import is_app, read_app
from anew.errors import InvalidInput

if TYPE_CHECKING:
    from anew.cli.policy.lint_report import Report
    from anew.lab.lint.documents import Document


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
    files = tuple(file.removeprefix("@") for file in files)  # as other commands name a file
    apps = [read_app(file) for file in files if is_app(file)]
    documents = [*_documents([file for file in files if not is_app(file)], specs)]
    documents += [document for document, _ in apps]
    report = _looked_at(documents, _given(stated, select, ignore, documents))
    report.unchecked.extend(task for _, unchecked in apps for task in unchecked)
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


def _given(
    options: dict[str, Any], select: Sequence[str], ignore: Sequence[str], documents: Sequence[Document]
) -> dict[str, Any]:
    """Give what the command line states, in the form of a document's own table.

    Raises:
        InvalidInput: No such rule or policy, or no duration.
    """
    from anew.lab.lint import check_rules
    from anew.lab.lint.documents import read_table

    outages = options.pop("outages")
    stated = {name.replace("_", "-"): value for name, value in options.items() if value is not None}
    if outages:
        stated["outage"] = outages[0] if len(outages) == 1 else [*outages]
    given, wrong = read_table(stated, "--")
    if wrong:
        raise wrong[0]
    # What cannot be read has a name too.
    names = [entry.name for document in documents for entry in document.entries]
    names += [problem.policy for document in documents for problem in document.problems if problem.policy]
    for option, rules in (("select", select), ("ignore", ignore)):
        given[option] = tuple(name for listed in rules for name in listed.split(",") if name)
        check_rules(given[option], f"--{option}", names)
    return given


def _looked_at(documents: Sequence[Document], given: dict[str, Any]) -> Report:
    from anew.cli.policy.lint_report import Report
    from anew.config import Settings
    from anew.lab.lint import Context, lint

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
