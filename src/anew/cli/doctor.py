"""``anew doctor``, ``anew backup`` and ``anew restore``: a store on this machine, with or without its server."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from anew.cli.exit_codes import REFUSED
from anew.cli.output import one_line, show_json
from anew.cli.remote import admin_client
from anew.cli.settings import load
from anew.errors import InvalidInput
from anew.units import is_database, shown

_root_dir: Final = click.option(
    "--root-dir", metavar="PATH", help="Data directory of the server. [ANEW_ROOT_DIR, anew.toml; anew-data]"
)
_json: Final = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")


def _directory(given: str | None) -> Path:
    from anew.app.doctor import file_of  # only here: help starts fast

    return file_of(load({"root_dir": given, "no_fwp": True}).settings)


def _where(given: str | None) -> Path | str:
    """Give where the jobs are that a command is asked about."""
    from anew.app.doctor import directory_of, store_of  # only here: help starts fast

    flag = "store" if given is not None and is_database(given) else "root_dir"
    settings = load({flag: given, "no_fwp": True}).settings
    return directory_of(settings) if given is not None and flag == "root_dir" else store_of(settings)


@click.command()
@click.argument("store", required=False, metavar="[STORE]")
@click.option("--repair", is_flag=True, help="Make anew what is derived from the rows.")
@_root_dir
@_json
def doctor(store: str | None, repair: bool, root_dir: str | None, as_json: bool) -> int:
    """Check a store: is it whole, do its counters match its jobs, is the machine fit for it?

    STORE is a server's data directory or a file such as jobs.db, the same as --root-dir; or postgresql://... of a database.

    Changes nothing without --repair, and may be run beside a server. --repair counts the counters again, finds the heads of the
    queues again, gives back the jobs of processes that have died, and removes what belongs to no job. What it cannot mend
    it says how to.

    \b
    Exit codes: 0 all is well, 1 it cannot be read, 4 no store there, 5 something is not as it should be.

    \b
    Examples:
      anew doctor
      anew doctor jobs.db
      anew doctor --root-dir /var/lib/anew --json
      anew doctor postgresql://ada@db.example.org/jobs
      anew doctor --repair
    """
    from anew.app.doctor import look_over, make_anew

    if store and root_dir and store != root_dir:
        raise InvalidInput(
            f"{shown(store)} and --root-dir {shown(root_dir)}: expected one of them", field="root-dir"
        )
    where = _where(store or root_dir)
    seen = look_over(where)
    mended: list[str] = []
    if repair and any(finding.derived for finding in seen.findings):
        before, seen = seen, make_anew(where, seen)
        left = {finding.name for finding in seen.findings}
        mended = [finding.found for finding in before.findings if finding.name not in left]
    findings = [
        {"name": finding.name, "found": finding.found, "mend": finding.mend, "derived": finding.derived}
        for finding in seen.findings
    ]
    if as_json:
        show_json({"facts": seen.facts, "mended": mended, "findings": findings})
    else:
        _print(seen.facts, mended, findings)
    return REFUSED if findings else 0


def _print(facts: dict[str, str], mended: list[str], findings: list[dict[str, Any]]) -> None:
    width = max(map(len, facts))
    for name, fact in facts.items():
        click.echo(one_line(f"{name.ljust(width)}  {fact}"))
    for found in mended:
        click.echo(one_line(f"mended: {found}"))
    for finding in findings:
        click.echo(one_line(f"{finding['name']}: {finding['found']}"))
        click.echo(one_line(f"  {finding['mend']}"))
    if not findings:
        click.echo("All is well.")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@_root_dir
@click.option(
    "--url",
    metavar="URL",
    help="Have a server send the copy, from its admin listener, such as http://127.0.0.1:8901; FILE is a compressed tar then.",
)
@_json
def backup(file: Path, root_dir: str | None, url: str | None, as_json: bool) -> None:
    """Copy the store into FILE, as it is at one instant, while a server goes on writing to it.

    The copy is verified before it gets its name: if anything kills the copying, FILE is what it was before. With --url the
    server verifies it; ANEW_TOKEN is its token.

    \b
    Examples:
      anew backup /backups/anew-monday.db
      anew backup nightly.db --root-dir /var/lib/anew --json
      anew backup nightly.tar.gz --url http://127.0.0.1:8901
    """
    if url is not None:
        if root_dir is not None:
            raise InvalidInput("--url and --root-dir: expected one of them", field="url")
        size = admin_client({"client.admin-url": url}).backup(file)
        if as_json:
            show_json({"path": str(file), "bytes": size, "verified": True})
        else:
            click.echo(one_line(f"saved, verified by the server: {size} bytes, {file}"))
        return
    from anew.app.doctor import copy_out

    _report("saved", copy_out(_directory(root_dir), file, _progress(as_json)), as_json)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--force", is_flag=True, help="Replace the store that is there; it is kept as anew.db.replaced."
)
@_root_dir
@_json
def restore(file: Path, force: bool, root_dir: str | None, as_json: bool) -> None:
    """Make FILE, a copy that anew backup has made or a server has sent, the store of a data directory.

    The copy is verified first. Refused while a server or another program has the store open, and where a store is
    without --force. Jobs that were in flight when the copy was made are ready again.

    \b
    Examples:
      anew restore /backups/anew-monday.db --root-dir /var/lib/anew
      anew restore nightly.db --force
      anew restore nightly.tar.gz --root-dir /var/lib/other
    """
    from anew.app.doctor import copy_in

    _report("restored", copy_in(file, _directory(root_dir), _progress(as_json), force=force), as_json)


def _report(what: str, copied: Any, as_json: bool) -> None:
    if as_json:
        show_json({"path": str(copied.path), "jobs": copied.jobs, "bytes": copied.size, "verified": True})
    else:
        click.echo(one_line(f"{what} and verified: {copied.jobs} jobs, {copied.size} bytes, {copied.path}"))


def _progress(as_json: bool) -> Callable[[int, int], None]:
    """Show on a terminal how far the copying is."""
    if as_json or not sys.stderr.isatty():
        return lambda done, pages: None

    def show(done: int, pages: int) -> None:
        end = "\n" if done == pages else ""
        click.echo(f"\r{done * 100 // max(pages, 1)} % of {pages} pages{end}", err=True, nl=False)

    return show
