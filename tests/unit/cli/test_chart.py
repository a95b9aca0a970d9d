"""``anew lab chart``: pictures by policy, by kind and by name; errors that tell what to do."""

from __future__ import annotations

import errno
import io
import json
import os
import re
from pathlib import Path
from typing import NoReturn

import pytest

from anew.cli.lab.chart import style_of
from anew.cli.root import run
from anew.lab.charts import figures
from anew.lab.charts.classics import LINKS


class Screen(io.StringIO):
    """A stream of a kind."""

    def __init__(self, encoding: str = "utf-8", terminal: bool = True) -> None:
        super().__init__()
        self._encoding, self._terminal = encoding, terminal

    @property
    def encoding(self) -> str:
        return self._encoding

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("NO_COLOR", "COLORTERM", "COLORFGBG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["zaqar"], LINKS["zaqar"][0]),
        (["herd", "--jobs", "20", "--seed", "2"], "&chart=herd&jobs=20&seed=2&scale=linear"),
        (["even", "zizq", "--retries", "4"], "/lab?a=even&b=zizq&chart=curve"),
        (["zizq", "--kind", "dots", "--jobs", "5", "--log"], "/lab?a=zizq&chart=herd&jobs=5"),
        (["even", "--kind", "heat", "--jobs", "9"], "at most 9 of 9 jobs in one character"),
        (["even", "--kind", "histogram", "--jobs", "9"], "&jobs=9&retry=1"),
        (["even", "--kind", "histogram", "--retry", "2", "--jobs", "9"], "wait before retry 2"),
        (["even", "--kind", "load", "--jobs", "9", "--outage", "1m"], "9 jobs fail together, in an outage of 1 min: even"),
        (['{"preset": "faktory", "limit": 6}', "--linear"], "faktory, limit 6"),
    ],
)  # fmt: skip
def test_a_picture_in_the_terminal(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "chart", *words, "--width", "60"]) == 0
    shown = capsys.readouterr().out
    assert said in shown
    assert "\x1b" not in shown
    drawing = shown.partition("\n\nOn the lab's page")[0]
    assert max(map(len, drawing.split("\n"))) <= 60


def test_the_link_can_be_opened_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "chart", '{"preset": "celery", "limit": null}', "--retries", "3"]) == 0
    assert capsys.readouterr().out.endswith(
        "\n\nOn the lab's page (start it with: anew lab): "
        "http://127.0.0.1:7891/lab?a=%7B%22preset%22:%22celery%22,%22limit%22:null%7D&chart=curve\n"
    )


@pytest.mark.parametrize(
    ("words", "ticks", "scale"),
    [
        (["--outage", "3h"], "0 1 s 10 s 1 min 10 min 1 h 3 h", ""),
        (["--outage", "3h", "--log"], "0 1 s 10 s 1 min 10 min 1 h 3 h", ""),
        (["--outage", "3h", "--linear"], "0 1 h 2 h 3 h 4 h 5 h", "&scale=linear"),
        # Three retries within minutes of a failure within ten minutes: nothing crowds anywhere.
        (["--over", "10m", "--retries", "3"], "0 2 min 4 min 6 min 8 min 10 min 12 min", "&scale=linear"),
    ],
)
def test_the_axis_of_a_load_shows_most_unless_told(
    words: list[str], ticks: str, scale: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lab", "chart", "celery", "even", "--kind", "load", "--width", "80", *words]) == 0
    shown = capsys.readouterr().out
    assert {" ".join(line.split()) for line in shown.split("\n") if line.strip().startswith("0  ")} == {ticks}
    assert ("&scale=linear" if "&scale=linear" in shown else "") == scale


@pytest.mark.parametrize("other", [[], ["even"], ['{"preset": "celery", "limit": 52}']])
def test_a_stampede_before_hours_of_a_trickle_is_seen(
    other: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    celery = '{"preset": "celery", "limit": 53}'
    words = ["--kind", "load", "--jobs", "500", "--outage", "3h", "--width", "80"]
    assert run(["lab", "chart", celery, *other, *words]) == 0
    shown = capsys.readouterr().out
    assert any(line.split()[:5] == ["0", "1", "s", "10", "s"] for line in shown.split("\n"))
    assert "scale=linear" not in shown


def test_a_part_of_a_load_is_seen_in_fine_columns(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["lab", "chart", "even", "--kind", "load", "--outage", "3h", "--from", "2h58m", "--to", "3h10m"]
    assert run([*words, "--width", "60"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"\n +3 h +3 h 5 min +3 h 10 min\n +outage 3 h\n", shown)
    assert shown.endswith("&chart=load&outage=3h&until=3h10m&success=1&scale=linear\n")
    assert run([*words, "--json"]) == 0
    (panel,) = json.loads(capsys.readouterr().out)["panels"]
    # Twelve minutes are 240 columns of 3 s.
    assert panel["edges_ms"] == [*range(10_680_000, 11_401_000, 3_000)]
    assert panel["outage_ms"] == 10_800_000
    assert len(panel["lines"][0]["peaks"]) == len(panel["lines"][0]["means"]) == 240


@pytest.mark.parametrize("kind", ["dots", "heat", "load"])
def test_the_end_of_an_outage_is_marked(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    # Calls at 50, 100, 150 and 200 minutes: none hides the mark.
    policy = '{"curve": {"constant": "50m"}, "limit": 9}'
    words = ["--kind", kind, "--jobs", "40", "--outage", "3h", "--width", "60"]
    assert run(["lab", "chart", policy, *words]) == 0
    lines = capsys.readouterr().out.split("\n")
    named = next(number for number, line in enumerate(lines) if line.strip() == "outage 3 h")
    middle = len(lines[named]) - len("outage 3 h") / 2
    tick = lines[named - 1].index("3 h") + 1.5
    assert abs(middle - tick) <= 1
    column = next(line.index("┊") for line in lines if "┊" in line)
    assert abs(column + 0.5 - tick) <= 1
    assert lines[named - 2][column] == "┬"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--kind", "heat", "--jobs", "100001"], "its jobs is a whole number from 1 to 100000"),
        (["--kind", "histogram", "--retry", "1", "--jobs", "100001"], "its jobs is a whole number"),
        (["--kind", "dots", "--outage", "1h"], "its herds fail at every retry"),
    ],
)
def test_there_is_no_link_to_what_the_page_refuses(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lab", "chart", '{"preset": "even", "limit": 3}', *words]) == 0
    shown = capsys.readouterr().out
    assert "/lab?" not in shown
    assert f"\n\nThe lab's page cannot show this: {said}" in shown


def test_policies_of_a_file_keep_their_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policies.toml").write_text(
        '[webhooks]\npreset = "zizq"\nlimit = 6\n[mails]\npreset = "celery"\n'
    )
    (tmp_path / "own.json").write_text('{"curve": {"constant": "5m"}, "limit": 3}')
    words = [
        "@policies.toml:webhooks",
        "@own.json",
        '{"preset": "celery", "limit": null}',
        "@policies.toml:mails",
    ]
    assert run(["lab", "chart", *words, "--json"]) == 0
    (panel,) = json.loads(capsys.readouterr().out)["panels"]
    assert [line["label"] for line in panel["lines"]] == ["webhooks", "own", "celery, no limit", "mails"]


def test_the_data_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "chart", "zaqar", "--json"]) == 0
    picture = json.loads(capsys.readouterr().out)
    assert picture["link"] == LINKS["zaqar"][0]
    (panel,) = picture["panels"]
    assert panel["kind"] == "band"
    assert [point["nominal_ms"] for point in panel["lines"][1]["points"]][:3] == [5_000, 10_666, 22_000]


@pytest.mark.parametrize("name", ["picture.svg", "picture.PNG"])
def test_a_picture_as_a_file(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert run(["lab", "chart", "zaqar", "--out", name, "--dark"]) == 0
    content = (tmp_path / name).read_bytes()
    assert b"<svg" in content[:1_000] or content[1:4] == b"PNG"
    output = capsys.readouterr()
    assert f"wrote {name} ({len(content):,} bytes)" in output.err
    assert LINKS["zaqar"][0] in output.out
    assert "┤" not in output.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "POLICY"),
        (["nope"], 2, "nope"),
        (["even", "--out", "x.gif"], 2, "expected a name that ends in .svg or .png"),
        (["even", "--out", "gone/x.svg"], 2, "expected a file in a folder that exists"),
        (["even", "--kind", "histogram", "--log"], 2, "--log: the waits of a histogram stand in equal bins"),
        (["even", "--kind", "histogram", "--linear"], 2, "--linear: the waits of a histogram"),
        (["even", "--width", "80", "--json"], 2, "--width: a file and JSON have no use for it"),
        (["even", "--kind", "pie"], 2, "pie"),
        (
            ["even", "--outage", "3h"],
            2,
            "--outage: --kind band has no use for it; --kind band takes: --retries; "
            "expected --outage with --kind dots, --kind heat, --kind load",
        ),
        (
            ["even", "--kind", "dots", "--seed", "-1"],
            2,
            "seed: -1 is not valid; expected a whole number from 0 to",
        ),
        (
            ["even", "--kind", "load", "--from", "1h", "--to", "1h"],
            2,
            'to: "1h" is not valid; expected later than from',
        ),
        (["even", "--kind", "load", "--from", "60d"], 2, 'from: "60d" is not valid; expected at most'),
        (["even", "--kind", "load", "--from", "1h", "--log"], 2, "log: true is not valid"),
        (
            ["herd", "--retries", "0"],
            2,
            "retries: 0 is not valid; expected a whole number from 1",
        ),
        (
            ["even", "--outage", "1h"],
            2,
            "--kind band takes: --retries; expected --outage with --kind dots, --kind heat, --kind load",
        ),
        (["herd", "--outage", "3s"], 2, "the picture herd takes: --retries, --jobs, --seed"),
        (["zaqar", "--jobs", "3"], 2, "--jobs: the picture zaqar has no use for it"),
        (["even", "--retries", "0"], 2, "retries: 0 is not valid"),
        (["even", "--kind", "dots", "--jobs", "9000"], 2, "100,000 dots"),
        (["even", "--width", "3"], 2, "--width"),
        (["even"] * 7, 2, "expected 1 to 6"),
    ],
)
def test_what_does_not_fit_is_told(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lab", "chart", *words]) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert said in output.err


def test_a_file_that_cannot_be_written_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "p.svg"
    out.write_bytes(b"old")

    def full(*names: str) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert run(["lab", "chart", "even", "--out", str(out)]) == 2
    assert (
        "cannot be written (No space left on device); expected a place for a file" in capsys.readouterr().err
    )
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("p.svg", b"old")]


def test_a_missing_matplotlib_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "has_matplotlib", lambda: False)
    assert run(["lab", "chart", "zaqar", "--out", "x.svg"]) == 5
    assert "pip install 'anew[lab]'" in capsys.readouterr().err


def test_the_style_is_what_the_terminal_can_show(monkeypatch: pytest.MonkeyPatch) -> None:
    style = style_of(Screen(), width=100)
    assert (style.columns, style.colours, style.braille, style.dark) == (100, "256", True, True)
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("COLORFGBG", "0;15")
    assert (style_of(Screen()).colours, style_of(Screen()).dark) == ("true", False)
    assert style_of(Screen(), dark=True).dark
    assert style_of(Screen(terminal=False)).colours == "none"
    assert not style_of(Screen("latin-1")).braille
    monkeypatch.setenv("NO_COLOR", "1")
    assert style_of(Screen()).colours == "none"
    monkeypatch.setenv("COLUMNS", "117")
    assert style_of(Screen()).columns == 117
