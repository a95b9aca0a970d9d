"""The page stands alone: nothing from elsewhere, no script, well-formed, light and dark, its links lead somewhere."""

from __future__ import annotations

from html.parser import HTMLParser

import msgspec
import pytest

from anew.lab.report.page import page
from anew.lab.report.run import Cell, Effort, Report, run
from anew.lab.report.tables import distance, measured, published, table, tally

VOID = {"meta"}


class Reader(HTMLParser):
    """Checks that elements close in order, and keeps what is to be asked."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(scope="module")
def report() -> Report:
    return run(Effort(1_000, 2, 2))


@pytest.fixture(scope="module")
def text(report: Report) -> str:
    return page(report, "1.2.3")


@pytest.fixture(scope="module")
def reader(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    return reader


def test_it_is_well_formed(text: str, reader: Reader) -> None:
    assert text.startswith('<!doctype html>\n<html lang="en">')
    assert reader.open == []


def test_it_needs_nothing_else(text: str, reader: Reader) -> None:
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in reader.seen}
    assert text.replace("http://www.w3.org/2000/svg", "").count("//") == 0
    assert "url(" not in text
    assert "@import" not in text


def test_it_is_readable_on_a_phone_and_in_the_dark(text: str, reader: Reader) -> None:
    assert ("meta", {"name": "viewport", "content": "width=device-width,initial-scale=1"}) in reader.seen
    assert "@media (prefers-color-scheme:dark)" in text


def test_links_lead_to_sections(reader: Reader) -> None:
    ids = {attributes["id"] for _, attributes in reader.seen if "id" in attributes}
    links = [attributes["href"] for tag, attributes in reader.seen if tag == "a"]
    assert len(links) == 6
    assert {link.removeprefix("#") for link in links if link is not None} == ids


def test_pictures_say_what_they_show(reader: Reader) -> None:
    pictures = [attributes for tag, attributes in reader.seen if tag == "svg"]
    # Five pairs of herds, six loads, the front.
    assert len(pictures) == 17
    assert {attributes.get("role") for attributes in pictures} == {"img"}
    titles = [place for place, (tag, _) in enumerate(reader.seen) if tag == "svg"]
    assert all(reader.seen[place + 1][0] == "title" for place in titles)


def test_every_figure_is_there_with_the_published_one(report: Report, reader: Reader) -> None:
    cells = [attributes for tag, attributes in reader.seen if tag == "td"]
    assert len(cells) == tally(report.tables)["figures"] == len(report.cells())
    assert "anew lab report --quick" in reader.words
    assert "Measured by Anew 1.2.3." in reader.words


def test_names_are_escaped(report: Report) -> None:
    row = report.tables[0].rows[0]
    evil = msgspec.structs.replace(row, label="<script>alert(1)</script>")
    first = msgspec.structs.replace(report.tables[0], rows=(evil, *report.tables[0].rows[1:]))
    changed = msgspec.structs.replace(report, tables=(first, *report.tables[1:]))
    assert "<script" not in page(changed, "1.2.3")
    assert "&lt;script&gt;" in page(changed, "1.2.3")


def test_figures_are_written_like_the_published_ones() -> None:
    cell = Cell("cv4", ".939", 0.94049, 0.001, 1.26)
    assert (measured(cell), published(cell), distance(cell)) == ("0.940", "0.939", "+1.3σ")
    large = Cell("max", "1016", 1004.4, 20, -0.5)
    assert (measured(large), published(large), distance(large)) == ("1,004", "1,016", "−0.5σ")
    assert distance(Cell("rsd", "0", 0, 0, 0.0)) == "="


def test_a_figure_that_is_not_reproduced_has_a_frame(report: Report) -> None:
    first = report.tables[0]
    row = first.rows[0]
    cells = tuple(
        msgspec.structs.replace(cell, off=off)
        for cell, off in zip(row.cells, (4.1, 3.9, -4.1, 0, 1), strict=True)
    )
    written = table(msgspec.structs.replace(first, rows=(msgspec.structs.replace(row, cells=cells),)))
    assert written.count('class="off"') == 2
