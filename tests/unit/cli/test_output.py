"""Times and tables for people."""

from __future__ import annotations

import datetime
import json
import sys

import pytest

from anew.cli.output import clock_time, cut, encodable, moment, percent, show_json, show_table, table

NOW = 1_764_000_000_000  # 2025-11-24 16:00:00 UTC
UTC = datetime.UTC


@pytest.mark.parametrize(
    ("distance_ms", "text"),
    [
        (256_000, "in 4 min 16 s (16:04:16)"),
        (36_521, "in 37 s (16:00:36)"),
        (299_960, "in 5 min (16:04:59)"),
        (1_234, "in 1.2 s (16:00:01)"),
        (0, "now (16:00:00)"),
        (-470, "470 ms ago (15:59:59)"),
        (-7_200_000, "2 h ago (14:00:00)"),
        (86_400_000, "in 1 d (2025-11-25 16:00:00)"),
    ],
)
def test_a_moment_is_told_both_ways(distance_ms: int, text: str) -> None:
    assert moment(NOW + distance_ms, NOW, UTC) == text


def test_a_moment_past_all_calendars_is_no_crash() -> None:
    assert clock_time(2**63, NOW, UTC) == "after all calendars"


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 7, "0 %"),
        (1, 101, "less than 1 %"),
        (1, 100, "1 %"),
        (2, 3, "67 %"),
        (99, 100, "99 %"),
        (991, 1_000, "over 99 %"),
        (7, 7, "100 %"),
    ],
)
def test_only_all_or_nothing_reads_100_or_0(part: int, whole: int, text: str) -> None:
    assert percent(part, whole) == text
    assert percent(part / whole) == text


def test_columns_line_up_and_control_sequences_do_not_reach_the_terminal() -> None:
    assert table(("A", "LONG"), [("aaa", "b"), ("c", "x\x1b[31my\n")]) == [
        "A    LONG",
        "aaa  b",
        "c    x [31my",
    ]


def test_half_a_character_is_marked() -> None:
    assert encodable("a\udcffb \U0001f600") == "a\ufffdb \U0001f600"


def test_json_holds_whatever_somebody_called_a_file(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Bytes of an argument that are no UTF-8 come in as halves of surrogate pairs."""
    show_json({"file": "a\udcff.toml", "found": [1, None, "\u00e9"]})
    assert json.loads(capsysbinary.readouterr().out) == {"file": "a\ufffd.toml", "found": [1, None, "\u00e9"]}


def test_a_line_longer_than_the_terminal_is_cut_there() -> None:
    assert cut(["123456", "1234567", ""], 6) == ["123456", "12345…", ""]


@pytest.mark.parametrize(("terminal", "line"), [(True, "a  0123456…"), (False, "a  0123456789")])
def test_a_table_is_cut_on_a_terminal_and_nowhere_else(
    terminal: bool, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "11")
    monkeypatch.setenv("NO_COLOR", "1")
    show_table(("A", "B"), [("a", "0123456789")], fitted=True)
    assert capsys.readouterr().out.splitlines() == ["A  B", line]
