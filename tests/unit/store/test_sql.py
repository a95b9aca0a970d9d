"""Named statements at the width of a batch, and filters as conditions with every value bound."""

from __future__ import annotations

import re
from collections import Counter
from importlib import resources

import pytest

from anew.jobs import State
from anew.store.postgres.words import STATEMENTS as POSTGRES
from anew.store.selection import Filter, Page
from anew.store.sql.filters import count_statement, find_statement, where_clause
from anew.store.sql.statements import WIDTH, Statements, in_lists, in_widths
from anew.store.sqlite.words import STATEMENTS


@pytest.mark.parametrize("width", [1, 2, 100])
def test_a_statement_has_as_many_marks_as_its_batch_needs(width: int) -> None:
    assert STATEMENTS.text("insert_plain", width).count("?") == 8 * width
    assert STATEMENTS.text("insert_attempt", width).count("?") == 10 * width
    assert STATEMENTS.text("finish", width).count("?") == width + 1
    assert STATEMENTS.text("release", width).count("?") == width + 2
    assert STATEMENTS.text("complete", width).count("?") == 2 * width + 1


def test_no_two_statements_have_one_name() -> None:
    text = resources.files("anew.store.sql").joinpath("queries.sql").read_text("utf-8")
    names = re.findall(r"^-- name: (\w+)$", text, re.MULTILINE)
    assert [name for name, times in Counter(names).items() if times > 1] == []


def test_no_placeholder_and_no_comment_is_left() -> None:
    for name in STATEMENTS.named():
        text = STATEMENTS.text(name, 3)
        assert "@" not in text
        assert "--" not in text
        assert ";" not in text


def test_the_widest_statement_stays_within_sqlites_number_of_parameters() -> None:
    """32,766 is SQLite's own bound."""
    assert max(STATEMENTS.text(name, WIDTH).count("?") for name in STATEMENTS.named()) <= 32_766


def test_rows_are_cut_into_pieces_of_few_widths_in_order() -> None:
    """512 prepared statements are kept (apsw 3.54): 23 widths of twenty verbs fit in."""
    pieces = {n: list(in_widths(range(n))) for n in range(1_000)}
    assert all([x for piece in pieces[n] for x in piece] == list(range(n)) for n in pieces)
    assert {len(piece) for found in pieces.values() for piece in found} == {*range(1, 8), *range(8, 129, 8)}
    assert [len(piece) for piece in pieces[300]] == [128, 128, 40, 4]
    assert pieces[0] == []


def test_keys_are_filled_up_to_lists_of_few_lengths() -> None:
    lists = {n: list(in_lists(range(n))) for n in range(1_000)}
    assert all(list(dict.fromkeys(x for keys in lists[n] for x in keys)) == list(range(n)) for n in lists)
    assert len({len(keys) for found in lists.values() for keys in found}) == 14
    assert lists[5] == [(0, 1, 2, 3, 4, 4)]
    assert [len(keys) for keys in lists[300]] == [128, 128, 48]
    assert lists[0] == []


NASTY = "x'; DROP TABLE job; --"


def test_every_value_of_a_filter_is_bound() -> None:
    where = Filter(
        states=frozenset({State.READY}),
        queues=frozenset({NASTY, "b"}),
        types=frozenset({NASTY}),
        keys=frozenset({98_765}),
        priority=(43_210, 54_321),
        ready_at=(1, 2),
        attempts=(3, 4),
    )
    text, bound = where_clause(where)
    assert NASTY not in text
    assert not set("0123456789'") & set(text)
    assert bound == [30, 32, "b", NASTY, NASTY, 98_765, 43_210, 54_321, 1, 2, 3, 4]
    assert text.count("?") == len(bound)


def test_a_filter_of_nothing_binds_nothing() -> None:
    assert where_clause(Filter()) == ("true", [])
    text, bound = count_statement(Filter())
    assert (text.count("?"), bound) == (0, [])


def test_a_page_binds_cursor_and_limit_last() -> None:
    text, bound = find_statement(Filter(queues=frozenset({"q"})), Page(after=9, limit=4, order="desc"))
    assert bound == ["q", 9, 4]
    assert "DESC" in text


def test_hiding_what_is_over_is_asked_for_only_where_something_can_be_over() -> None:
    live = Filter(states=frozenset({State.READY}), visible_at=5)
    assert where_clause(live)[1] == [30, 32]
    assert where_clause(Filter(visible_at=5))[1] == [5]


def test_only_queue_and_state_can_be_answered_by_the_counters() -> None:
    assert Filter().only_counts()
    assert Filter(states=frozenset(), queues=frozenset(), visible_at=1).only_counts()
    for member in ("types", "keys"):
        assert not Filter(**{member: frozenset()}).only_counts()
    for member in ("priority", "ready_at", "attempts"):
        assert not Filter(**{member: (0, 1)}).only_counts()


NESTED = "SELECT 1 WHERE @none(SELECT 1 FROM limited AS r @then(job ON job.id = r.job_id AND abs(r.standing) = ?) WHERE r.name = ?)"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            STATEMENTS,
            "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM limited AS r CROSS JOIN job ON job.id = r.job_id AND abs(r.standing) = ? "
            "WHERE r.name = ?)",
        ),
        (
            POSTGRES,
            "SELECT 1 WHERE (SELECT 1 FROM limited AS r CROSS JOIN LATERAL (SELECT * FROM job WHERE job.id = r.job_id "
            "AND abs(r.standing) = $1 OFFSET 0) AS job WHERE r.name = $2 LIMIT 1) IS NULL",
        ),
    ],
)
def test_a_word_with_brackets_may_stand_in_another_and_have_brackets(words: Statements, said: str) -> None:
    assert words.say(NESTED) == said
