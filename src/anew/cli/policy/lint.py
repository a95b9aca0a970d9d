"""``anew policy lint``: policies looked at with every rule."""

from __future__ import annotations

from typing import Any

import click

from anew.cli.exit_codes import REFUSED, USAGE


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
    from anew.cli.policy import lint_input, lint_report
    from anew.lab.lint import Severity

    form = "json" if as_json else form
    if rules:
        lint_report.show_rules(form)
        return 0
    if not files and not specs:
        raise click.UsageError(
            "FILE: is missing; expected a file, - for stdin, module:app, or --policy POLICY"
        )
    documents, unchecked = lint_input.read(files, specs)
    report = lint_report.look_at(documents, lint_input.stated(stated, select, ignore, documents))
    report.unchecked.extend(unchecked)
    lint_report.show(report, form)
    if report.problems:
        return USAGE
    return REFUSED if report.fails(Severity(fail_on)) else 0
