"""Markup: escaped by construction, short, well-formed."""

from __future__ import annotations

import pytest

from anew.lab.report.markup import Markup, dots, number, steps, tag


def test_text_and_attributes_are_escaped() -> None:
    built = tag("p", "<b> & 'x'", title='"><script>', class_="a")
    assert built == '<p title="&quot;&gt;&lt;script&gt;" class="a">&lt;b&gt; &amp; \'x\'</p>'


def test_what_was_built_is_taken_as_it_is() -> None:
    assert tag("p", tag("b", "1 < 2"), [Markup("<i>"), "<"]) == "<p><b>1 &lt; 2</b><i>&lt;</p>"


def test_names_of_attributes() -> None:
    assert (
        tag("svg", view_box="0 0 1 1", stroke_width=1.5, d=None)
        == '<svg viewBox="0 0 1 1" stroke-width="1.5"></svg>'
    )
    assert tag("meta", name="viewport") == '<meta name="viewport">'


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "1"), (1.256, "1.26"), (-0.001, "0"), (10, "10"), (100.5, "100.5")]
)
def test_coordinates(value: float, text: str) -> None:
    assert number(value) == text


def test_dots_and_steps() -> None:
    assert dots([1, 2.5], [3, 4]) == "M1 3h0M2.5 4h0"
    # Two equal bins are one line.
    assert steps([0, 1, 2, 3], [5, 5, 2], 9) == "M0 9H0V5H2V2H3V9Z"
