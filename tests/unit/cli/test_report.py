"""``anew lab report``: a page or JSON, progress on stderr, and what is wrong said before the work begins."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from anew.cli.root import run
from anew.lab.report import run as work
from anew.lab.report.run import Effort


@pytest.fixture(autouse=True)
def _little_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(work, "QUICK", Effort(1_000, 2, 2))
    monkeypatch.chdir(tmp_path)


def test_the_page_goes_to_report_html(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "report", "--quick"]) == 0
    out, err = capsys.readouterr()
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")
    assert out.startswith("report.html: ")
    assert "of 507 published figures met" in out
    assert err.startswith("[1/48] ")


def test_json_takes_stdout_and_writes_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "report", "--quick", "--json", "--seed", "7"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["summary"]["figures"] == 507
    assert answer["report"]["seed"] == 7
    first = answer["report"]["tables"][0]["rows"][0]["cells"][0]
    assert {"figure", "published", "measured", "error", "off"} == set(first)
    assert list(tmp_path.iterdir()) == []


def test_json_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "report", "--quick", "--json", "-o", "both.html"]) == 0
    assert json.loads(capsys.readouterr().out)["report"]["effort"]["sample"] == 1_000
    assert (tmp_path / "both.html").exists()


def test_the_page_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "report", "--quick", "-o", "-"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("<!doctype html>")
    assert out.endswith("</html>\n")
    assert "published figures met" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["-o", "gone/report.html"],
            'output: "gone/report.html" is not valid; expected a file in a folder that exists, and "gone" does not',
        ),
        (["-o", "."], "expected a file, and this is a folder"),
        (["-o", "-", "--json"], 'output: "-" is not valid; expected a file, as --json takes stdout'),
        (["--seed", "-1"], "'--seed': -1 is not in the range 0<=x<=4294967296"),
        (["--seed", "x"], "'--seed': 'x' is not a valid integer range"),
    ],
    ids=" ".join,
)
def test_what_is_wrong_is_said_first(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "run", None)
    assert run(["lab", "report", "--quick", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in " ".join(err.split())


def test_without_numpy_it_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("anew.lab.report")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert run(["lab", "report", "--quick"]) == 5
    assert "pip install 'anew[lab]'" in capsys.readouterr().err
