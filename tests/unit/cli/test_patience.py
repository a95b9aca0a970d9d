"""``--patience``: no command of the lab burns more than the page may, unless it is asked to."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from anew.cli import patience
from anew.cli.root import run
from anew.errors import TooLarge

from ..store.recording import Recording

ENDLESS = '{"curve": {"constant": "1ms"}, "limit": null, "deadline": "365d"}'
"""Thirty thousand million calls of each job where nothing ever succeeds."""

PHASES = ",".join(['{"curve": {"exponential": {"base": "1s"}}, "count": 1000000000}'] * 32)
LONG = f'{{"phases": [{PHASES}], "limit": null, "jitter": "full"}}'

SMALL = [
    ["lab", "simulate", "even", "--jobs", "10"],
    ["lab", "compare", "even", "zizq", "--jobs", "10"],
    ["lab", "chart", "even"],
    ["lab", "fit", "--window", "3d", "--first", "10s", "--retries", "12"],
    ["policy", "explain", "even"],
    ["policy", "sample", "even", "-n", "10"],
    ["policy", "lint", "--policy", "even"],
]
"""Every command that has the usual bounds, with little to do."""

HERD = "fewer jobs or retries, or longer waits"

Bounds = list[tuple[float | None, int | None]]


@pytest.fixture(scope="module", autouse=True)
def _all_imported() -> None:
    """What is imported counts, and a slow machine would spend the little time that is given here on that alone."""
    for command in [*SMALL, ["policy", "lint", "--policy", "faktory"]]:
        run(command)


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> Bounds:
    """The bounds that commands were held to."""
    seen: Bounds = []

    @contextlib.contextmanager
    def noted(cpu_s: float | None, memory_bytes: int | None, *, less: str) -> Iterator[None]:
        seen.append((cpu_s, memory_bytes))
        yield

    monkeypatch.setattr(patience, "patience", noted)
    return seen


@pytest.mark.parametrize(
    ("less", "command"),
    [
        (HERD, ["lab", "simulate", ENDLESS, "--success", "0"]),
        (HERD, ["lab", "compare", ENDLESS, "even", "--success", "0"]),
        (HERD, ["lab", "chart", "even", "zizq", "--kind", "heat", "--jobs", "100000"]),
        ("fewer phases or retries", ["policy", "explain", LONG]),
        ("fewer jobs, or an earlier retry", ["policy", "sample", "even", "-n", "100000"]),
        (
            "a number of --retries, or a longer first wait",
            ["lab", "fit", "--outlive", "30d", "--first", "10s", "--cap", "1h"],
        ),
    ],
    ids=lambda given: " ".join(given[:2]) if isinstance(given, list) else "",
)
def test_what_takes_too_long_says_so(
    less: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--patience", "30ms"]) == 2
    assert capsys.readouterr().err == (
        f"Error: this takes longer than 30 ms of processor time; expected {less}, or more --patience\n"
    )


@pytest.mark.parametrize(
    "command", [["policy", "explain"], ["lab", "simulate"], ["policy", "sample"], ["lab", "chart"]]
)
def test_a_long_text_is_what_there_shall_be_less_of(
    command: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Neither fewer jobs nor fewer retries make a text quicker to read."""
    dotted = tmp_path / "dotted.toml"
    dotted.write_text("a" + ".a" * 20_000 + " = 1\n", "utf-8")
    assert run([*command, f"@{dotted}", "--patience", "100ms"]) == 2
    assert capsys.readouterr().err == (
        "Error: this takes longer than 100 ms of processor time; expected a shorter text, or more --patience\n"
    )


@pytest.mark.parametrize(
    "command", [*SMALL, ["lab", "replay", "even"]], ids=lambda words: " ".join(words[:2])
)
def test_every_command_says_it_in_the_same_words(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run([*command[:2], "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert re.search(
        r"--patience TIME Processor time (that this may take|for each policy), such as 30s\. "
        r"\[2s( and 1 ms a job)?, and 256 MiB of memory(; above 100,000 jobs any)?\]",
        told,
    )


def test_a_policy_that_takes_too_long_hides_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["policy", "lint", "--policy", LONG, "--policy", "faktory", "--patience", "100ms"])
    shown = capsys.readouterr()
    assert code == 2
    assert (
        "policy: this takes longer than 100 ms of processor time; expected fewer phases or retries, or more --patience"
        in shown.out + shown.err
    )
    assert "faktory: " in shown.out


def test_a_document_that_takes_too_long_hides_no_other(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A dotted key is read in the square of its parts."""
    dotted = tmp_path / "dotted.toml"
    dotted.write_text("a" + ".a" * 20_000 + " = 1\n", "utf-8")
    code = run(["policy", "lint", str(dotted), "--policy", "faktory", "--patience", "100ms"])
    shown = capsys.readouterr()
    assert code == 2
    assert (
        "dotted.toml: this takes longer than 100 ms of processor time; expected a shorter text, or more --patience"
        in shown.err
    )
    assert "faktory: " in shown.out


def test_a_snapshot_that_takes_too_long_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one = {
        "retries": "100",
        "window": "1s",
        "jitter": "none",
        "then": "dead",
        "waits": ["1h30m (15s to 52.5s)"] * 100,
    }
    stored = tmp_path / "stored.json"
    stored.write_text(json.dumps({f"p{number}": one for number in range(1_000)}), "utf-8")
    words = ["policy", "lint", "--policy", "faktory", "--snapshot", str(stored)]
    assert run([*words, "--patience", "100ms"]) == 2
    told = capsys.readouterr().err
    assert (
        "stored.json: this takes longer than 100 ms of processor time; expected fewer policies in it" in told
    )


def test_memory_that_is_not_there_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --patience nothing is promised about memory, but there is an end to it."""

    def greedy(*args: object, **options: object) -> None:
        raise MemoryError

    monkeypatch.setattr(import_module("anew.lab.simulation.simulate"), "simulate", greedy)
    assert run(["lab", "simulate", "even", "--patience", "30s"]) == 2
    assert capsys.readouterr().err == (
        "Error: this needs more memory than there is; expected fewer jobs or retries, or longer waits\n"
    )


@pytest.mark.parametrize("numpy", [True, False])
def test_where_numpy_is_missing_it_is_named_as_a_way_out(
    numpy: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """20,000 jobs are allowed without NumPy, and take longer than 2 s; what has no herd is no quicker with it."""

    def spent(*args: object, **options: object) -> None:
        raise TooLarge(f"this takes longer than 2 s of processor time; expected {HERD}", field="time")

    monkeypatch.setattr("anew.lab.chance.has_numpy", lambda: numpy)
    monkeypatch.setattr(import_module("anew.lab.simulation.simulate"), "simulate", spent)
    monkeypatch.setattr(import_module("anew.lab.explain"), "explain", spent)
    assert run(["lab", "simulate", "even", "--jobs", "20000", "--outage", "3h"]) == 2
    told = capsys.readouterr().err
    assert "or longer waits, or --patience 30s" in told
    assert ("or NumPy, with which herds are far quicker" in told) is not numpy
    assert run(["policy", "explain", "even"]) == 2
    assert "NumPy" not in capsys.readouterr().err


@pytest.mark.parametrize("given", ["0", "x", "-1s"])
@pytest.mark.parametrize("command", [["policy", "explain", "even"], ["policy", "lint", "--policy", "even"]])
def test_it_is_a_duration(command: list[str], given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--patience", given]) == 2
    assert f'Error: --patience: "{given}" is not valid; expected ' in capsys.readouterr().err


@pytest.mark.parametrize("command", SMALL, ids=lambda command: " ".join(command[:2]))
def test_two_seconds_and_256_mib_unless_more_is_asked_for(command: list[str], bounds: Bounds) -> None:
    run(command)
    run([*command, "--patience", "1m"])
    assert bounds == [(2.0, 268_435_456), (60.0, None)]


def test_a_herd_above_the_pages_is_large_on_purpose(bounds: Bounds) -> None:
    run(["lab", "simulate", "even", "--jobs", "100001"])
    run(["policy", "sample", "even", "-n", "100001"])
    run(["lab", "chart", "even", "--kind", "load", "--jobs", "100001"])
    run(["lab", "simulate", "even", "--jobs", "100001", "--patience", "1m"])
    assert bounds == [(None, None)] * 3 + [(60.0, None)]


def test_a_replay_may_take_a_millisecond_more_for_each_recorded_job(tmp_path: Path, bounds: Bounds) -> None:
    past = Recording(tmp_path)
    for _ in range(3):
        past.run(past.enqueue("mail"), 0, fails=True)
    past.close()
    run(["lab", "replay", "even", "zizq", "--root-dir", str(tmp_path)])
    assert bounds == [(2.003, 268_435_456)] * 2
