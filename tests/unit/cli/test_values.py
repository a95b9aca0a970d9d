"""Policies and payloads as people type them: what cannot be read is refused in one sentence, whatever it is."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from anew.cli.root import run
from anew.cli.values import read_payload, read_policy
from anew.errors import InvalidInput, InvalidJob, InvalidPolicy

DEEP = "[" * 200_000


def stdin_of(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Input data was truncated|Expecting"),
        ('{"preset": "even"}}', "Extra data|trailing"),
        (DEEP, "recursion"),
        ('{"preset": "even", "limit": "\\ud800"}', "surrogate|truncated|escape"),
        ('"\udcff"', "can't decode byte 0xff"),
        ('{"preset": 1e400}', "out of range"),
        ('{"preset": "even", "limit": NaN}', "malformed|invalid"),
    ],
)
def test_what_is_no_json_is_no_policy(text: str, reason: str) -> None:
    with pytest.raises(InvalidPolicy, match=f"^policy: .* is not JSON .*({reason}).*; expected JSON"):
        read_policy(text)


@pytest.mark.parametrize("text", ["{", DEEP, '"\udcff"'])
def test_what_is_no_json_is_no_payload(text: str) -> None:
    with pytest.raises(InvalidJob, match=r"^payload: .* is not JSON"):
        read_payload(text)


def test_a_name_that_stands_there_twice_is_refused() -> None:
    with pytest.raises(InvalidPolicy, match='"limit" stands in one object twice'):
        read_policy('{"preset": "even", "limit": 3, "limit": 30}')


def test_nothing_is_no_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text(" \n", "utf-8")
    for text in ("", f"@{empty}"):
        with pytest.raises(
            InvalidPolicy, match=r"^policy: .* holds nothing; expected JSON or the name of a preset"
        ):
            read_policy(text)
    stdin_of(monkeypatch, b'"even"')
    assert read_policy("-") == "even"
    with pytest.raises(InvalidPolicy, match=r"stdin \(which can be read once\) holds nothing"):
        read_policy("-")


def test_a_file_without_end_is_not_read_to_its_end() -> None:
    with pytest.raises(InvalidInput, match=r"^@/dev/zero: is too long; expected at most 1,048,576 bytes"):
        read_policy("@/dev/zero")


def test_a_file_that_is_not_there_says_what_was_expected() -> None:
    with pytest.raises(
        InvalidInput, match=r"^@no/such/file: No such file or directory; expected a file that can be read$"
    ):
        read_policy("@no/such/file")


def test_neither_is_one_that_is_linted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "lint", "/dev/zero"]) == 2
    assert "/dev/zero: is too long" in capsys.readouterr().err
    assert run(["policy", "lint", "--policy", "even", "--snapshot", "/dev/zero"]) == 2
    assert '"more than 16777216 bytes" is not valid' in capsys.readouterr().err
