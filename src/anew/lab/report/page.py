"""The report as one HTML page that needs nothing else: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from typing import Final

from anew.lab.measure import Yardstick
from anew.lab.report import words
from anew.lab.report.markup import Markup, tag
from anew.lab.report.pictures import calls, front, herd, load
from anew.lab.report.run import CHART_JOBS, JOBS, Report, Result, yardstick
from anew.lab.report.schemes import SCHEMES, Scheme
from anew.lab.report.style import RETRIES, style
from anew.lab.report.tables import is_even, table, tally

_PAIRS: Final = (
    ("chart_constant", "chart_constant_even"),
    ("chart_exponential", "chart_exponential_even"),
    ("chart_sidekiq", "chart_sidekiq_even"),
    ("chart_buckets", "chart_buckets_even"),
    ("chart_full", "chart_full_even"),
)
"""A known policy, and ``even`` on the same mean curve."""

_LOADS: Final = ("no_jitter", "sidekiq", "buckets", "full", "even_hash", "even_seq")
_MOST: Final = 4.0
# Enough for a curve on paper; the tables have yardsticks of their own.
_DRAWN_SAMPLE: Final = 20_000


def page(report: Report, version: str) -> str:
    """Give the whole page.

    Args:
        report: What was measured.
        version: Anew's, for the last line.
    """
    results = {result.key: result for result in report.tables}
    body = [
        _top(report),
        _herds(report.seed),
        _result(results["result"], words.RESULT),
        _loads(report.seed),
        _front(report, results["front"]),
        _all(results),
        _how(report, version),
    ]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width,initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", words.TITLE),
        tag("style", Markup(style())),
    ]
    return (
        "<!doctype html>\n" + tag("html", tag("head", head), tag("body", tag("main", body)), lang="en") + "\n"
    )


def _top(report: Report) -> list[Markup]:
    counts = tally(report.tables)
    facts = [
        tag("div", tag("b", number), tag("span", text)) for number, text in words.facts(report.figure, counts)
    ]
    links = [tag("a", text, href=f"#{name}") for name, text in words.SECTIONS]
    return [
        tag("h1", words.TITLE),
        tag("p", words.LEAD, class_="lead"),
        tag("div", facts, class_="facts"),
        tag("nav", links, aria_label="Sections"),
    ]


def _section(name: str, *text: str) -> list[Markup]:
    return [tag("h2", dict(words.SECTIONS)[name], id=name), *(tag("p", paragraph) for paragraph in text)]


def _herds(seed: int) -> list[Markup]:
    key = [
        tag("span", tag("i", style=f"background:var(--r{retry})"), f"retry {retry}")
        for retry in range(1, RETRIES + 1)
    ]
    return [
        *_section("herds", *words.HERDS),
        tag("div", key, class_="key"),
        *(_pair(SCHEMES[known], SCHEMES[ours], seed) for known, ours in _PAIRS),
    ]


def _pair(known: Scheme, ours: Scheme, seed: int) -> Markup:
    """Draw two herds on the same axes."""
    both = [scheme.instants(CHART_JOBS, seed) for scheme in (known, ours)]
    end_ms = max(int(instants.max()) for instants in both)
    most = max(int(calls(instants, end_ms).max()) for instants in both)
    figures = []
    for scheme, instants in zip((known, ours), both, strict=True):
        told = f", at most {int(calls(instants, end_ms).max())} calls at once"
        picture = herd(instants, scheme.label + told, end_ms, most)
        figures.append(_figure(scheme, picture))
    return tag("div", figures, class_="pair")


def _result(result: Result, text: tuple[str, ...]) -> list[Markup]:
    return [*_section("result", *text), table(result), tag("p", words.READING, class_="quiet")]


def _loads(seed: int) -> list[Markup]:
    figures = [_load(SCHEMES[key], seed) for key in _LOADS]
    return [*_section("load", *words.LOAD), tag("div", figures, class_="pair")]


def _load(scheme: Scheme, seed: int) -> Markup:
    stick: Yardstick = yardstick(scheme, _DRAWN_SAMPLE)
    picture = load(scheme.instants(JOBS, seed), stick, f"Load of {scheme.label} over twenty gaps", _MOST)
    return _figure(scheme, picture)


def _figure(scheme: Scheme, picture: Markup) -> Markup:
    return tag(
        "figure", tag("figcaption", scheme.label), picture, class_="ours" if is_even(scheme.key) else None
    )


def _front(report: Report, result: Result) -> list[Markup]:
    figure = tag("figure", front(report), class_="wide")
    return [*_section("front", *words.FRONT), figure, tag("h3", result.title), table(result)]


def _all(results: dict[str, Result]) -> list[Markup]:
    parts = _section("tables", *words.TABLES)
    for key in ("polynomial", "capped", "doubling", "worst_second", "chart"):
        result = results[key]
        parts += [tag("h3", result.title), table(result)]
        if key in words.NOTES:
            parts.append(tag("p", words.NOTES[key], class_="quiet"))
    return parts


def _how(report: Report, version: str) -> list[Markup]:
    terms = [[tag("dt", term), tag("dd", text)] for term, text in words.MEASURES]
    effort = report.effort
    return [
        *_section("how", *words.HOW),
        tag("dl", terms),
        tag("h3", words.PROTOCOL_TITLE),
        *(tag("p", text) for text in words.protocol(effort.sample, effort.repeats, effort.chart_repeats)),
        tag("pre", tag("code", words.command(report.seed, effort.sample))),
        tag("p", words.source(version), class_="quiet"),
    ]
