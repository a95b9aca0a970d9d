"""The examples of docs/telemetry.md run as they are printed, and its tables are complete."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

import anew.prometheus
from anew import Anew
from anew.tasks.events import NAMES
from tests.unit.docs import ROOT, blocks

PAGE = ROOT / "docs" / "telemetry.md"
TEXT = PAGE.read_text("utf-8")


@pytest.fixture
def logger() -> Iterator[None]:
    """Take back what the page does to the logger of all."""
    logger = logging.getLogger("anew.tasks")
    before = logger.level, [*logger.handlers]
    yield
    logger.level, logger.handlers = before


@pytest.mark.usefixtures("logger")
def test_the_examples_run_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks(PAGE, "python"):
        exec(compile(block.text, "telemetry.md", "exec", dont_inherit=True), names)
    printed = capsys.readouterr().out
    assert "to ada@example.org\nINFO succeeded page.send_mail 1\n" in printed
    assert 'anew_runs_total{outcome="succeeded",queue="mail",task="page.send_mail"} 1.0\n' in printed
    assert "for acme\npage.who 1 succeeded None\n" in printed


def test_every_metric_is_in_the_table_with_its_labels() -> None:
    registry = CollectorRegistry()
    app = Anew(":memory:")
    anew.prometheus.instrument(app, registry=registry)
    app.counts()
    expected = set()
    for family in registry.collect():
        suffix = "_total" if family.type == "counter" else ""
        expected.add(family.name + suffix)
    rows = re.findall(r"^\| `(anew_\w+)` \| (.*?) \|", TEXT, re.M)
    assert {name for name, _ in rows} == expected
    assert dict(rows)["anew_runs_total"] == "`task`, `queue`, `outcome`"
    app.close()


def test_every_event_is_in_the_table_of_records() -> None:
    table = TEXT.partition("| `event` |")[2].partition("\n\n")[0]
    first = " ".join(line.split("|")[1] for line in table.splitlines()[2:])
    assert {*re.findall(r"`(\w+)`", first)} == {*NAMES, "duplicate", "lost"}
