"""The numbered statements about reliability and about notifications: each has a test that bears its number, in an ordinary run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

WITHOUT_A_TEST: dict[str, dict[int, str]] = {
    "reliability": {},
    "notifications": {},
}
"""What is not built, or not shown, and why."""

IN_PART: dict[str, dict[int, str]] = {
    "reliability": {
        10: "that one connection writes at a time is shown by the turnstile's tests, without the number",
        14: "a jid is known again with a switch; that of a job that is dropped where it fails (retry 0), not after its end",
        28: "a name may have a NUL on SQLite; PostgreSQL refuses it, and says which",
        40: "that no batch reads more than without it is tested; half an hour is measured (bench/RESULTS.md)",
        43: "minutes a night for each target, not an hour",
        45: "of clients that send one request at a time, over HTTP/1.1; of those that send many without reading the answers "
        "fewer are accepted, since telling a client to come again takes half as long as a job",
        57: "with 100,000 samples where objects lie in memory is seen too; the comparison is known to be one in constant time",
        59: "a rescue that does not ask whether the process lives is planted; one that does not look at the row again is not",
        60: "the minutes of a whole run are measured, not tested",
    },
    "notifications": {
        44: "the live test needs a name server of its own, as root; otherwise names are resolved by the test",
    },
}
"""What of a statement its tests do not show."""


def named(checklist: str) -> dict[int, list[str]]:
    """The tests of an ordinary run that bear a number, by it."""
    found: dict[int, list[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        text = path.read_text("utf-8")
        for decorators, name, numbers in re.findall(
            rf"^((?:@.*\n(?:[ )\]].*\n)*)*)(?:async )?def (test_(?:\w+?_)??{checklist}_((?:\d\d_)+)\w*)\(",
            text,
            re.MULTILINE,
        ):
            if not re.search(r"^@pytest\.mark\.(nightly|xfail)", decorators, re.MULTILINE):
                for number in re.findall(r"\d\d", numbers):
                    found.setdefault(int(number), []).append(name)
    return found


@pytest.mark.parametrize("checklist", ["reliability", "notifications"])
def test_every_statement_has_a_test_or_a_reason(checklist: str) -> None:
    missing = {*range(1, 61)} - named(checklist).keys()
    assert missing == WITHOUT_A_TEST[checklist].keys()


@pytest.mark.parametrize("checklist", ["reliability", "notifications"])
def test_no_number_is_none_of_the_statements(checklist: str) -> None:
    assert named(checklist).keys() <= {*range(1, 61)}
    assert IN_PART[checklist].keys() <= named(checklist).keys()


def test_a_nightly_test_does_not_count_and_several_numbers_do() -> None:
    reliability = named("reliability")
    assert "test_reliability_02_03_a_thousand_kills" not in reliability[2]
    assert "test_reliability_02_03_sixty_kills_lose_resurrect_and_strand_nothing" in reliability[3]
    assert "test_fwp_65_reliability_21_all_but_the_workers_survives_a_restart" in reliability[21]
