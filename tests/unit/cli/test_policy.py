"""``anew policy list`` and ``anew policy show``: what is known about the presets, without a server."""

import json

import pytest

from anew.backoff import FAMILIES, PRESETS, Policy
from anew.cli.root import run


def answer(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What a command prints, to either side."""
    assert run(["policy", *words]) == code
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_the_list_has_a_row_for_each_preset(capsys: pytest.CaptureFixture[str]) -> None:
    heading, *rows = answer(capsys, "list").splitlines()
    assert heading.split() == ["NAME", "FAMILY", "RETRIES", "WINDOW", "WHAT", "IT", "IS"]
    assert [row.split()[0] for row in rows] == [*PRESETS]
    found = {row.split()[0]: " ".join(row.split()[1:]) for row in rows}
    assert found["faktory"].startswith("seeds 25 20 d 9 h to 20 d 12 h Faktory 1.10:")
    assert found["sns_managed"].startswith("notifications 100,015 23 d 3 h Amazon SNS")
    assert found["temporal"].startswith("clouds no end - Temporal")
    assert found["cenkalti"].startswith("retriers no end 13 min 30 s to 15 min cenkalti")
    assert found["buckets"].startswith("seeds - - Anything")


@pytest.mark.parametrize("family", FAMILIES)
def test_the_list_of_one_family(family: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, *rows = answer(capsys, "list", "--family", family).splitlines()
    assert [row.split()[0] for row in rows] == [
        item.name for item in PRESETS.values() if item.family == family
    ]


def test_an_unknown_family_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    shown = answer(capsys, "list", "--family", "birds", code=2)
    assert shown == f'Error: family: "birds" is not valid; expected one of {", ".join(FAMILIES)}\n'


def test_the_list_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    presets = {item["name"]: item for item in json.loads(answer(capsys, "list", "--json"))["presets"]}
    assert presets.keys() == PRESETS.keys()
    # 15 * 255 s, eleven times 3,600 s; a quarter more at most.
    assert presets["zzz_jobs"] == {
        "name": "zzz_jobs",
        "aliases": [],
        "family": "seeds",
        "summary": PRESETS["zzz_jobs"].summary,
        "parameters": ["base", "literal"],
        "limit_given": True,
        "limit": 19,
        "window_earliest_ms": 43_425_000,
        "window_latest_ms": 54_281_250,
    }
    assert presets["buckets"]["limit_given"] is False
    assert presets["buckets"]["window_latest_ms"] is None
    assert (presets["grpc"]["limit_given"], presets["grpc"]["limit"]) == (True, None)


@pytest.mark.parametrize("name", PRESETS)
def test_everything_about_a_preset_is_shown(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = PRESETS[name]
    shown = answer(capsys, "show", name)
    for text in (found.summary, found.source, found.origin, found.counts, *found.aliases, *found.traps):
        assert text in shown
    for parameter, kind in found.parameters.items():
        assert f"  {parameter}  " in shown
        assert kind.expected in shown
    (written,) = (line for line in shown.splitlines() if line.startswith("as JSON"))
    assert Policy.from_json(json.loads(written.removeprefix("as JSON"))) == Policy.from_json(name)


def test_a_preset_is_shown_by_any_of_its_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "show", "retry_backoff") == answer(capsys, "show", "celery")


def test_a_preset_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(answer(capsys, "show", "sidekiq6", "--json"))
    assert shown["name"] == "sidekiq"
    assert shown["law"] == [
        "c = 15 s + (k - 1)^4 s",
        "wait = anything from c to c + 30 s * k by a die of 30 faces",
        "25 retries",
    ]
    assert shown["parameters"][0] == {
        "name": "base",
        "default": "15s",
        "expected": 'a duration from 0 to 365d such as "15s", or whole milliseconds',
    }
    assert shown["policy"]["limit"] == 25
    assert len(shown["retries"]) == 10
    first = shown["retries"][0]
    assert (first["nominal_ms"], first["earliest_ms"], first["latest_ms"]) == (15_000, 15_000, 44_000)


@pytest.mark.parametrize("words", [("show", "sidekick"), ("explain", "sidekick")])
def test_a_misspelt_preset_is_answered_with_the_right_one(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = answer(capsys, *words, code=2)
    assert shown.startswith('Error: preset: "sidekick" is not valid')
    assert shown.endswith('did you mean "sidekiq"?\n')
