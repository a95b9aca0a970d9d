"""The page without NumPy: slower, and the same."""

from __future__ import annotations

import subprocess
import sys

import msgspec

from .pages import Page

QUERIES = (
    "a=even&b=sidekiq&jobs=40&outage=1h&herd=heat",
    "a=constant&jobs=40&herd=heat",
    "a=constant&b=zizq&jobs=40&herd=lines&scale=linear&until=10m",
    "a=zizq&a.deadline=1h&b=aws_full&jobs=40&herd=heat&retry=3",
)
SCRIPT = f"""
import sys
if sys.argv[1] == "without":
    sys.modules["numpy"] = None
import msgspec
import anew.web.lab.herds
anew.web.lab.herds._DRAWN = 300  # as many as both draw: without NumPy there are fewer than with it
from anew.web.lab.computing import Ask
from anew.web.lab.page import make
pages = [make(Ask(query.encode())).html.decode() for query in {QUERIES!r}]
sys.stdout.buffer.write(msgspec.json.encode(pages))
"""


def pages(numpy: str) -> list[str]:
    """The pages of all queries, made by a process of their own ``with`` or ``without`` NumPy."""
    made = subprocess.run([sys.executable, "-c", SCRIPT, numpy], capture_output=True, timeout=60, check=True)
    return msgspec.json.decode(made.stdout, type=list[str])


def test_the_page_is_the_same_without_numpy() -> None:
    """Every number that is drawn, and every word."""
    for query, first, second in zip(QUERIES, pages("with"), pages("without"), strict=True):
        data = Page(first).data
        assert data["herds"], query
        assert data == Page(second).data, query
        assert first == second, query


def test_every_call_is_drawn_without_numpy() -> None:
    """40 jobs with 25 retries each; the last wave comes at the very end of the axis."""
    (herd,) = Page(pages("without")[1]).data["herds"]
    assert [sum(row) for row in herd["heat"]] == [40] * 25
