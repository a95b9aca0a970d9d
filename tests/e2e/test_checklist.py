"""The numbered checklist of Zizq's API that this release serves is covered, number by number."""

from __future__ import annotations

import re
from pathlib import Path

SERVED = {*range(1, 97)}


def test_every_number_of_the_checklist_has_a_test() -> None:
    names = "\n".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    covered = {int(number) for number in re.findall(r"^def test_zizq_(\d\d)_", names, re.MULTILINE)}
    assert covered == SERVED


def test_no_numbered_test_is_left_out_of_an_ordinary_run() -> None:
    """A number that only a nightly or a skipped test carries would count as covered."""
    names = "\n".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert not re.search(
        r"^@pytest\.mark\.(nightly|skip|xfail).*\n(?:[@ )\]].*\n)*def test_zizq_", names, re.MULTILINE
    )
