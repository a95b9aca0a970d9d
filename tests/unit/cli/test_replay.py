"""``anew lab replay`` on a store with a past."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anew.cli.lab.replay import _moved
from anew.cli.root import run
from anew.lab.replay import Shift

from ..store.recording import NOW, Recording


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A mail that failed for 62 s, one that still waits, and a call that died of three failures."""
    past = Recording(tmp_path)
    mail = past.enqueue("mail")
    past.run(mail, 0, fails=True)
    past.run(mail, 60_000, fails=False)
    past.run(past.enqueue("mail", queue="other"), 0, fails=True)
    call = past.enqueue("call")
    past.run(call, 0, fails=True)
    past.run(call, 60_000, fails=True)
    past.run(call, 60_000, fails=True)
    past.close()
    return tmp_path


def replayed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert run(["lab", "replay", *arguments, "--json"]) == 0
    answer: dict[str, object] = json.loads(capsys.readouterr().out)
    return answer


def test_the_record_and_each_policy_in_json(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = replayed(
        capsys, '{"curve": {"constant": "5m"}, "limit": 9}', "constant", "--root-dir", str(root)
    )
    record, policies = answer["record"], answer["policies"]
    assert isinstance(record, dict)
    assert isinstance(policies, list)
    assert (record["jobs"], record["first_at"]) == (3, NOW + 1_000)
    assert record["tally"] == {"succeeded": 1, "dead": 1, "waiting": 1, "calls": 2 + 1 + 3}
    # The call that was enqueued last: three runs of a second, a minute between two of them.
    assert record["last_at"] == NOW + (1_000 + 60_000 + 1_000) + 1_000 + (1_000 + 2 * 61_000)
    assert policies[0]["policy"] == {"curve": {"constant": "5m"}, "limit": 9}
    assert policies[0]["worst_shift"] == {"jobs": 1, "median_earlier_ms": -240_000, "earlier": 0, "later": 1}


def test_only_some_jobs(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def jobs(*options: str) -> object:
        record = replayed(capsys, "even", "--root-dir", str(root), *options)["record"]
        assert isinstance(record, dict)
        return record["jobs"]

    assert jobs("--type", "mail") == 2
    assert jobs("--type", "mail", "--type", "call") == 3
    assert jobs("--type", "mail", "--queue", "q") == 1
    assert jobs("--limit", "1") == 1
    assert jobs("--since", "1d") == 0, "all that was years ago"


def test_the_answer_does_not_depend_on_when_one_asks(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mail succeeded a minute after its failure: with a wait of three days it does, too, asked a minute later."""
    words = ('{"curve": {"constant": "3d"}, "limit": 3}', "--root-dir", str(root), "--type", "mail")
    answers = []
    for asked in (NOW + 60_000, NOW + 600_000, NOW + 10**10):
        monkeypatch.setattr("anew.cli.lab.replay.now_ms", lambda asked=asked: asked)
        answers.append(replayed(capsys, *words))
    assert answers[0] == answers[1] == answers[2]
    policies = answers[0]["policies"]
    assert isinstance(policies, list)
    # The other mail has no success on record, and its second call would come after the record's end.
    assert (
        policies[0]["worst"]
        == policies[0]["best"]
        == {"succeeded": 1, "dead": 0, "waiting": 1, "calls": 2 + 1}
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--type", "web"], "no job of type web has failed; there are: mail, call"),
        (["--type", "mail", "--type", "web"], "no job of type web has failed; there are: mail, call"),
        (["--queue", "mail"], "no job in queue mail has failed; there are: q, other"),
    ],
)
def test_a_type_or_queue_that_is_not_there(
    options: list[str], words: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not found, like a store that is not there; the most frequent name comes first."""
    assert run(["lab", "replay", "even", "--root-dir", str(root), *options]) == 4
    assert words in capsys.readouterr().err


def test_types_that_are_there_but_did_not_fail_of_late(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lab", "replay", "even", "--root-dir", str(root), "--type", "mail", "--since", "1d"]) == 0
    assert capsys.readouterr().out == "No such job on record has failed: there is nothing to live again.\n"


@pytest.mark.parametrize(
    ("worst", "best", "words"),
    [
        (-148, -72, "72 ms to 148 ms later"),
        (72, 148, "72 ms to 148 ms earlier"),
        (-1_000, 2_000, "1 s later to 2 s earlier"),
        (-1_000, 0, "1 s later to unchanged"),
        (0, 3_000, "unchanged to 3 s earlier"),
        (-72, -72, "72 ms later"),
        (None, 5, "5 ms earlier"),
        (None, None, "-"),
    ],
)
def test_a_span_of_moves_reads_from_small_to_large(worst: int | None, best: int | None, words: str) -> None:
    assert _moved(Shift(1, worst, 0, 0), Shift(1, best, 0, 0)) == words


def test_as_a_table(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["lab", "replay", '{"curve": {"constant": "5m"}}', "--root-dir", str(root), "--type", "mail"])
        == 0
    )
    shown = capsys.readouterr().out
    assert shown.startswith("2 jobs that failed, the first ")
    assert "SUCCESS (MEDIAN)" in shown
    lines = {line.split("  ")[0]: line.split() for line in shown.splitlines()}
    assert lines["as recorded"][2:] == ["1", "0", "1", "3"]
    assert "  4 min later  " in shown
    assert "; the record ends " in shown.splitlines()[0]
    assert "ON THEIR WAY: jobs that have not succeeded on record" in shown


def test_a_store_without_failures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Recording(tmp_path).close()
    assert run(["lab", "replay", "even", "--root-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "No job on record has failed: there is nothing to live again.\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["even", "--root-dir", "gone"], 4, '"gone" holds no store; expected the --root-dir of a server'),
        (["evn"], 2, 'preset: "evn" is not valid'),
        (["even", "--since", "soon"], 2, 'since: "soon" is not valid'),
        (
            ["even", "--since", "7"],
            2,
            '--since: "7" has no unit; expected a duration with its unit, such as 7s or 7ms',
        ),
        (["even", "--limit", "0"], 2, "'--limit': 0 is not in the range 1<=x<=100000"),
        ([], 2, "Usage: anew lab replay [OPTIONS] POLICY..."),
    ],
)
def test_what_does_not_fit_is_named(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lab", "replay", *arguments]) == code
    assert words in capsys.readouterr().err
