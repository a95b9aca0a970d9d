"""The numbered steps by which an engine's schema is brought up to date."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from typing import Final

from anew.errors import NewerStore
from anew.store.sql.examination import Finding

IN_USE: Final = (
    "the store must be brought up to date, and another process has it open; "
    "end its server and every program that has it open, and start this one again"
)
"""Other processes may know the present schema only."""


def migrations(package: str) -> list[tuple[int, str]]:
    """Give the migrations of an engine in order, by number.

    Args:
        package: Where its folder ``migrations`` is.
    """
    found = []
    for entry in resources.files(package).joinpath("migrations").iterdir():
        match = re.fullmatch(r"(\d{4})_\w+\.sql", entry.name)
        if match:
            found.append((int(match[1]), entry.read_text("utf-8")))
    return sorted(found)


def steps_from(package: str, present: int) -> list[tuple[int, str]]:
    """Give the migrations that a schema still needs.

    Raises:
        NewerStore: It was written by a newer program.
    """
    refuse_newer(package, present)
    return [step for step in migrations(package) if step[0] > present]


def refuse_newer(package: str, present: int, what: str = "the store") -> int:
    """Give the number of the schema that this program writes; `what` is named if it has a newer one.

    Raises:
        NewerStore: It was written by a newer program.
    """
    newest = migrations(package)[-1][0]
    if present > newest:
        known = f"{what} has schema {present}, this program knows up to {newest}"
        raise NewerStore(f"{known}; use the newer Anew that wrote it")
    return newest


def examine_schema(package: str, present: int, facts: dict[str, str]) -> Iterator[Finding]:
    """Look whether a schema is the one that this program writes."""
    newest = migrations(package)[-1][0]
    facts["schema"] = str(present)
    if present > newest:
        mend = "Use the newer Anew that wrote it"
        yield Finding("schema", f"the store has schema {present}, this program knows up to {newest}", mend)
    elif present < newest:
        mend = "Start a server or a program with this version, which brings it up to date"
        yield Finding("schema", f"the store has schema {present}, this program writes {newest}", mend)
