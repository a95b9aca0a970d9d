"""``anew cron next``: when an expression fires, worked out by hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from anew.cli import cron
from anew.cli.root import run


def at(text: str) -> int:
    """Epoch ms of an instant in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cron, "now_ms", lambda: at("2026-03-27 12:00:00"))


def test_the_next_fires_follow_the_clocks_of_the_zone(capsys: pytest.CaptureFixture[str]) -> None:
    """On 29 March 2026 Berlin's clocks go from 02:00 to 03:00: what the gap leaves out fires right after it."""
    assert run(["cron", "next", "30 2 * * *", "--tz", "Europe/Berlin", "-n", "3"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Sat 2026-03-28 02:30:00 +0100",
        "Sun 2026-03-29 03:00:00 +0200",
        "Mon 2026-03-30 02:30:00 +0200",
    ]


def test_as_json_they_are_epoch_milliseconds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cron", "next", "@monthly", "--tz", "UTC", "-n", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"next": [at("2026-04-01"), at("2026-05-01")]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["61 * * * *"], 'minute: "61" is not valid; expected 0 to 59'),
        (["0 0 30 2 *"], "expected a date that some year has"),
        (["@daily", "--tz", "Mars/Base"], '"Mars/Base" is not valid; expected the IANA name'),
    ],
)
def test_what_cannot_be_read_is_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert run(["cron", "next", *words]) == 2
    assert said in capsys.readouterr().err


def test_an_expression_whose_years_are_over_fires_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cron", "next", "0 0 0 1 1 * 2020", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"next": []}
    assert run(["cron", "next", "0 0 0 1 1 * 2020"]) == 0
    assert capsys.readouterr().out == "It fires no more.\n"
