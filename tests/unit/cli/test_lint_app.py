"""``anew policy lint module:app``: the policies of an application's tasks."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from anew.cli.policy.lint_input import is_app
from anew.cli.root import run

APP = """
from anew import Anew
app = Anew({store!r})
{tasks}
"""

TASKS = """
@app.task(policy={"curve": {"exponential": {"base": "1s"}}, "jitter": "even"}, max_attempts=13)
def good(): ...

@app.task(policy={"curve": {"exponential": {"base": "1s"}}, "limit": 12})
def alike(): ...

@app.task(policy=lambda attempt, exception: 10)
def asked(): ...

@app.task(policy={TimeoutError: ["10s", "1m"], ValueError: None, Exception: {"preset": "even", "limit": 12}})
def ruled(): ...
"""


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield
    sys.path[:] = before
    sys.modules.pop("orders", None)


def write(tasks: str, store: str = "jobs.db") -> None:
    Path("orders.py").write_text(APP.format(store=store, tasks=tasks), "utf-8")


def lint(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    code = run(["policy", "lint", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


@pytest.mark.parametrize("text", ["orders:app", "shop.orders:app", "shop/orders.py:app", "orders:make.app"])
def test_an_application_is_told_from_a_file(text: str) -> None:
    assert is_app(text)


@pytest.mark.parametrize("text", ["orders.toml", "-", "orders", "a/b:c", "orders:", "orders:1", "C:\\x"])
def test_a_file_is_told_from_an_application(text: str) -> None:
    assert not is_app(text)


def test_a_file_of_that_very_name_is_a_file() -> None:
    Path("orders:app").touch()
    assert not is_app("orders:app")


def test_the_policies_of_tasks_and_of_their_rules_are_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    write(TASKS)
    code, out, err = lint(capsys, "orders:app", "--select", "no-jitter")
    assert (code, err) == (5, "")
    told = "1,000 jobs that fail together come back in the same instant at each retry; add a jitter (even)"
    assert out == (
        f"orders.py:8: orders.alike: warning: no-jitter: {told}\n"
        f"orders.py:14: orders.ruled[TimeoutError]: warning: no-jitter: {told}\n"
        "orders.py:11: orders.asked: is not checked: a function decides when its jobs run again\n"
        "4 policies: 2 warnings; 1 function not checked\n"
    )
    assert not Path("jobs.db").exists(), "no store is opened for it"


def test_the_limit_of_the_task_holds(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        '@app.task(policy={"curve": {"constant": "5m"}, "jitter": "even"}, max_attempts=2)\ndef short(): ...\n'
    )
    code, out, _ = lint(capsys, "orders:app", "--outage", "1h", "--select", "outage-outlives-window")
    assert code == 5
    assert "the last retry comes" in out


def test_a_task_without_a_policy_has_the_default_unless_that_is_a_servers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write("@app.task\ndef plain(): ...\n")
    assert "1 policy: " in lint(capsys, "orders:app")[1]
    sys.modules.pop("orders")
    write("@app.task\ndef plain_there(): ...\n", store="http://127.0.0.1:7890")
    assert lint(capsys, "orders:app") == (0, "0 policies: nothing found\n", "")


def test_as_json_the_functions_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    write(TASKS)
    _, out, _ = lint(capsys, "orders.py:app", "--json")
    answer = json.loads(out)
    assert [policy["name"] for policy in answer["policies"]] == [
        "orders.alike",
        "orders.good",
        "orders.ruled",
        "orders.ruled[TimeoutError]",
    ]
    assert [(one["file"], one["line"], one["policy"]) for one in answer["unchecked"]] == [
        ("orders.py", 11, "orders.asked")
    ]


def test_a_rule_without_retries_is_no_policy(capsys: pytest.CaptureFixture[str]) -> None:
    """What no exception ends, such as a run whose process dies, still follows the default."""
    write('@app.task(policy={ValueError: "even", Exception: None})\ndef never(): ...\n')
    code, out, _ = lint(capsys, "orders:app", "--json")
    names = [policy["name"] for policy in json.loads(out)["policies"]]
    assert (code, names) == (0, ["orders.never", "orders.never[ValueError]"])


def test_a_rule_can_be_left_out_for_one_task(capsys: pytest.CaptureFixture[str]) -> None:
    write(TASKS)
    ignored = ("--ignore", "orders.alike:no-jitter,orders.ruled[TimeoutError]:no-jitter")
    assert lint(capsys, "orders:app", "--select", "no-jitter", *ignored)[0] == 0


def test_an_application_that_cannot_be_imported_is_a_problem_among_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write("nope")
    code, out, err = lint(capsys, "orders:app", "--policy", '{"curve": {"constant": "5m"}, "jitter": "even"}')
    assert code == 2
    assert (
        err == "Error: orders:app: cannot be imported: orders.py:4: NameError: name 'nope' is not defined\n"
    )
    assert "1 policy: " in out
