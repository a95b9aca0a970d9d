"""``anew lab compare``: a table, a picture, JSON, and errors that say what was expected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anew.cli.root import run

ONE = '{"curve": {"constant": "1m"}, "limit": 3}'
FIVE = '{"curve": {"constant": "5m"}, "limit": 3}'


def compare(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["lab", "compare", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_a_table_and_a_picture(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = compare(capsys, ONE, FIVE, "--jobs", "10", "--outage", "2m")
    assert code == 0
    lines = out.splitlines()
    assert lines[:2] == ["10 jobs, outage 2 min", ""]
    assert lines[2].split() == ["POLICY", "1", "POLICY", "2"]
    assert ["first", "minute", "after", "outage", "10", "0"] in [line.split() for line in lines]
    assert ["calls", "a", "job", "2.00", "1.00"] in [line.split() for line in lines]
    assert "10 jobs, the calls after their first failures\n" in out


def test_json_has_the_whole_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = compare(capsys, "even", "zizq", "--jobs", "10", "--seed", "3", "--over", "1m", "--json")
    body = json.loads(out)
    assert code == 0
    assert body["scenario"] == {**body["scenario"], "jobs": 10, "seed": 3, "over_ms": 60_000}
    assert [side["outcome"]["calls"] for side in body["policies"]] == [10, 10]


def test_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="pip install 'anew[lab]'")
    file = tmp_path / "load.svg"
    code, out, err = compare(capsys, ONE, FIVE, "--jobs", "10", "--out", str(file))
    assert code == 0
    assert file.read_bytes().startswith(b"<?xml")
    assert "wrote" in err
    assert "calls a job" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("even",), "policies: 1 is not valid; expected 2 to 6 policies"),
        (("even", "evn"), "did you mean"),
        (("even", "zizq", "--jobs", "0"), "jobs: 0 is not valid; expected a whole number from 1"),
        (("even", "zizq", "--outage", "soon"), "outage: "),
        (("even", "zizq", "--success", "2"), "success: 2"),
        (("even", "zizq", "--timeout", "0"), "timeout: 0"),
        (("even", "zizq", "--out", "x.gif"), "expected a name that ends in .svg or .png"),
    ],
)
def test_bad_input_says_what_was_expected(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = compare(capsys, *arguments)
    assert code == 2
    assert words in err


def test_a_policy_from_a_file_is_called_as_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "policies.toml"
    file.write_text('[policies.web]\ncurve = {constant = "1m"}\nlimit = 3\n', "utf-8")
    assert run(["lab", "compare", f"@{file}", '{"preset": "celery", "limit": null}', "--outage", "2m"]) == 0
    heading = capsys.readouterr().out.splitlines()[2]
    assert heading.split(maxsplit=1) == ["WEB", "CELERY, NO LIMIT"]
