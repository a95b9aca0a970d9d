"""Schedules held against those of a snapshot, or stored as one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anew.cli.files import write_whole
from anew.errors import InvalidInput
from anew.units import shown

if TYPE_CHECKING:
    from anew.cli.policy.lint_report import Report


def hold_against(report: Report, path: Path, *, write: bool) -> None:
    """Compare the schedules with the stored ones, or store them.

    Raises:
        InvalidInput: The file cannot be read or written, or two policies have one name.
    """
    from anew.lab.lint.snapshot import changes, read_snapshot, schedule_of, write_snapshot

    now = {}
    for entry in report.entries:
        if entry.name in now:
            raise InvalidInput(
                f"{shown(entry.name)} is the name of two policies, the second in {entry.file}; a snapshot expects "
                "different names",
                field=entry.name,
            )
        now[entry.name] = schedule_of(entry.policy())
    try:
        stored = read_snapshot(_snapshot_bytes(path)) if path.exists() or not write else {}
        found = changes(stored, now)
        # What could not be read is not gone.
        whole = not report.problems
        report.changes = [change for change in found if whole or change.kind != "removed"]
        if write and report.problems:
            report.unwritten = str(path)
        elif write:
            write_whole(path, write_snapshot(now))
            report.written = str(path)
    except OSError as error:
        expected = "a file that can be written" if write else "a snapshot; --update-snapshot writes it"
        raise InvalidInput(f"{error.strerror}; expected {expected}", field="snapshot") from error


def _snapshot_bytes(path: Path) -> bytes:
    """Read a snapshot, and no more of what has no end than shows that it is none."""
    from anew.lab.lint.snapshot import MAX_BYTES

    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)
