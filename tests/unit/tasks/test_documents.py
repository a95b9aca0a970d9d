"""The examples of the Python way in run as they are printed: its guide, the page on moving, the README's first ones."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from anew.backoff import Policy
from anew.lab import explain
from anew.tasks.policies import read_policy
from tests.unit.docs import README, ROOT, blocks, inline_objects

GUIDE = ROOT / "docs" / "python.md"
MIGRATING = ROOT / "docs" / "migrating.md"


def test_the_guides_examples_run_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "guide"}
    for block in blocks(GUIDE, "python"):
        exec(compile(block.text, "python.md", "exec", dont_inherit=True), names)
    printed = capsys.readouterr().out
    assert "To ada@example.org: Hello" in printed
    assert "guide.ship: Expected `object`, got `str` - at `order`; expected guide.ship(" in printed
    assert "\n10\n10\ncompleted []\n" in printed
    assert "\nTrue False\n" in printed


def test_the_readmes_ten_lines_enqueue_and_a_worker_runs_them(tmp_path: Path) -> None:
    (block,) = blocks(README, "python")
    (tmp_path / "app.py").write_text(block.text)
    subprocess.run([sys.executable, "app.py"], cwd=tmp_path, check=True, timeout=60)
    # Until its retry 100 ms later there is nothing to do: a worker that ends by itself is asked twice.
    code = """
import time, app
while sum(app.app.counts().values()): app.app.run_worker(burst=True); time.sleep(0.02)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=60, capture_output=True, text=True
    )
    assert done.stdout == "Hello, Ada (attempt 2)\n"
    assert re.search(r"app\.greet \w{25} failed: ConnectionError: the mail server is down", done.stderr)


def test_the_examples_of_moving_run_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "shop"}
    for block in blocks(MIGRATING, "python"):
        exec(compile(block.text, "migrating.md", "exec", dont_inherit=True), names)
    assert capsys.readouterr().out == "total 60\n"


def test_every_schedule_of_moving_is_a_policy_with_as_many_retries() -> None:
    table = MIGRATING.read_text("utf-8").partition("| there | here | retries |")[2].partition("\n\n")[0]
    seen = 0
    for row in table.strip().splitlines()[1:]:
        _, here, retries = (cell.strip() for cell in row.strip("|").split("|"))
        expected = re.match(r"\d+", retries)
        if expected is None:
            continue
        for text in re.findall(r"`([^`]+)`", here):
            policy = Policy.from_json(msgspec.json.decode(read_policy(ast.literal_eval(text))))
            assert len(explain(policy, 30).rows) == int(expected[0]), text
            seen += 1
    assert seen == 9


@pytest.mark.parametrize("document", [GUIDE, MIGRATING], ids=lambda document: document.name)
def test_every_policy_that_is_named_in_a_sentence_builds(document: Path) -> None:
    for text in inline_objects(document):
        if ":" in text and text.startswith('{"'):
            assert read_policy(ast.literal_eval(text))
