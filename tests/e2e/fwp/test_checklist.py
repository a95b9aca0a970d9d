"""The numbered checklist of Faktory's protocol is covered, number by number: here, or by a unit test with a clock moved by hand."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
SERVED = {*range(1, 101)}


def numbers(text: str) -> set[int]:
    return {int(number) for number in re.findall(r"\d+", text)}


def test_every_number_of_the_checklist_has_a_test() -> None:
    here = "\n".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    covered: set[int] = set()
    settings = (TESTS / "unit/test_config.py").read_text("utf-8")
    for found in re.findall(r"^def test_fwp_((?:\d\d+_)+)", here + settings, re.MULTILINE):
        covered |= numbers(found)
    for path in [*TESTS.glob("unit/fwp/test_*.py"), *TESTS.glob("unit/engine/test_fetches.py")]:
        for found in re.findall(r"Faktory checklist ([\d, and]+)", path.read_text("utf-8")):
            covered |= numbers(found)
    assert SERVED - covered == set()


def test_no_numbered_test_is_left_out_of_an_ordinary_run() -> None:
    here = "\n".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert not re.search(
        r"^@pytest\.mark\.(nightly|skip|xfail).*\n(?:[@ )\]].*\n)*def test_fwp_", here, re.MULTILINE
    )
