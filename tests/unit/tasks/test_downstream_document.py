"""The examples of docs/downstream.md run as they are printed, and its tables are complete."""

from __future__ import annotations

import inspect
import re
import urllib.request
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from anew import Anew, Downstream
from anew.tasks.retry_after import RESETS
from tests.unit.docs import ROOT, blocks

PAGE = ROOT / "docs" / "downstream.md"


def test_the_examples_run_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = Message()

    def urlopen(url: str, timeout: float) -> Any:
        raise HTTPError(url, 429 if "stripe" in url else 503, "no", answer, None)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    names: dict[str, Any] = {"__name__": "page"}
    first, second, third = blocks(PAGE, "python")
    for block in (first, second):
        exec(compile(block.text, "downstream.md", "exec", dont_inherit=True), names)
    app: Anew = names["app"]
    now = app.now()
    busy = names["print_label"].enqueue(7)
    names["charge"].enqueue_many([(order,) for order in range(30)])
    answer["Retry-After"] = "3000"
    app.run_worker(burst=True, concurrency=1)
    job = app.backend.find(busy.id)
    assert job is not None
    assert now + 30_000 <= job.ready_at <= app.now() + 30_000
    assert app.counts()["retrying"] == 1
    assert app.counts()["scheduled"] == 30
    exec(compile(third.text, "downstream.md", "exec", dont_inherit=True), names)
    (line,) = re.findall(r"^stripe open .*$", capsys.readouterr().out, re.MULTILINE)
    assert now + 3_000_000 <= int(line.split()[-1]) <= app.now() + 3_000_000
    app.close()


def test_every_setting_and_header_is_in_the_document() -> None:
    text = PAGE.read_text()
    settings = set(inspect.signature(Downstream).parameters) - {"key"}
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == settings
    assert all(f"`{name}`" in text for name in RESETS)
