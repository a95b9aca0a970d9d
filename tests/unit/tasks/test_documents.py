"""The examples of docs/python.md and of the README's first page run as they are printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.docs import README, ROOT, blocks

GUIDE = ROOT / "docs" / "python.md"


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
