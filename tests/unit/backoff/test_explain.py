"""What ``explain`` says, in JSON and as a table, and where it stops."""

import json
import math
from typing import Any

import pytest

from anew.backoff import Custom, Exhausted, Explanation, Policy, UpTo, explain, next_wait, preset
from anew.backoff.curves import Constant
from anew.errors import InvalidPolicy

from .helpers import make_draws, make_policy


def test_the_json_has_exactly_this_shape() -> None:
    assert explain(preset("zizq", limit=2)).to_json() == {
        "policy": {
            "curve": {"power": {"base": "15s", "exponent": 4, "origin": 1}},
            "jitter": {"grow": "30s"},
            "limit": 2,
        },
        "limit": 2,
        "retries": [
            {
                "retry": 1,
                "nominal_ms": 16_000,
                "earliest_ms": 16_000,
                "latest_ms": 46_000,
                "window_earliest_ms": 16_000,
                "window_latest_ms": 46_000,
            },
            {
                "retry": 2,
                "nominal_ms": 31_000,
                "earliest_ms": 31_000,
                "latest_ms": 91_000,
                "window_earliest_ms": 47_000,
                "window_latest_ms": 137_000,
            },
        ],
    }


def test_the_json_is_json() -> None:
    for name in ("zizq", "even", "aws_decorrelated"):
        written = explain(preset(name)).to_json()
        assert json.loads(json.dumps(written, allow_nan=False)) == written


def test_the_table_is_for_people() -> None:
    assert explain(preset("zizq", limit=2)).table() == [
        ["retry", "nominal", "earliest", "latest", "from start: earliest", "latest"],
        ["1", "16 s", "16 s", "46 s", "16 s", "46 s"],
        ["2", "31 s", "31 s", "1 min 31 s", "47 s", "2 min 17 s"],
    ]


@pytest.mark.parametrize(
    ("policy", "rows", "summary"),
    [
        ("zizq", None, "25 retries; retry 25 comes 24 d 22 h to 25 d 1 h after the first failure"),
        (
            {"preset": "zizq", "limit": None},
            3,
            "unlimited retries, the first 3 shown; retry 3 comes 2 min 23 s to 5 min 23 s after the first failure",
        ),
        ({"preset": "zizq", "limit": 0}, None, "no retry"),
        ({"preset": "constant", "limit": 1}, None, "1 retry; retry 1 comes 5 min after the first failure"),
    ],
)  # fmt: skip
def test_the_summary_is_one_line(policy: Any, rows: int | None, summary: str) -> None:
    assert explain(Policy.from_json(policy), rows).summary() == summary


def test_unlimited_and_huge_limits_show_a_bounded_number_of_rows() -> None:
    for limit in (None, 10**9):
        shown = explain(make_policy(limit=limit))
        assert len(shown.rows) == 100
        assert not shown.complete
        assert shown.to_json()["limit"] == limit
    assert len(explain(make_policy(limit=None), 10_000).rows) == 10_000
    assert explain(make_policy(limit=5), 10_000).complete
    assert explain(make_policy(limit=5), 0).rows == ()


@pytest.mark.parametrize("rows", [-1, 10_001])
def test_too_many_rows_are_refused(rows: int) -> None:
    with pytest.raises(InvalidPolicy, match=r"^retries: -?\d+ is not valid; expected a whole number from 0"):
        explain(make_policy(), rows)


def test_the_limit_shown_is_what_phases_leave() -> None:
    phases = [{"curve": {"constant": "1s"}, "count": 2}, {"curve": {"constant": "5s"}, "count": 1}]
    assert explain(make_policy(curve=..., phases=phases)).to_json()["limit"] == 3


def all_unknown(explanation: Explanation) -> bool:
    return all(
        row.nominal_ms is row.earliest_ms is row.latest_ms is row.window_earliest_ms is row.window_latest_ms
        is None
        for row in explanation.rows
    )  # fmt: skip


def test_a_custom_piece_gives_null_and_is_not_even_asked() -> None:
    def never(k: int) -> float:
        raise AssertionError(k)

    assert all_unknown(explain(Policy(curve=Custom(function=never))))
    assert all_unknown(
        explain(Policy(curve=Constant(wait_ms=1), jitter=UpTo(curve=Custom(function=lambda k: math.inf))))
    )
    table = explain(Policy(curve=Custom(function=never), limit=1)).table()
    assert table[1] == ["1", "-", "-", "-", "-", "-"]
    assert explain(Policy(curve=Custom(function=never), limit=1)).summary() == "1 retry"


def test_after_a_custom_phase_waits_are_known_and_windows_are_not() -> None:
    from anew.backoff import Phase

    phases = (
        Phase(curve=Constant(wait_ms=1_000), count=1),
        Phase(curve=Custom(function=lambda k: 1.0), count=1),
        Phase(curve=Constant(wait_ms=5_000), count=1),
    )
    first, second, third = explain(Policy(phases=phases)).rows
    assert (first.latest_ms, first.window_latest_ms) == (1_000, 1_000)
    assert (second.latest_ms, second.window_latest_ms) == (None, None)
    assert (third.latest_ms, third.window_latest_ms) == (5_000, None)


def test_a_deadline_ends_the_rows() -> None:
    """10 s each, up to 2 s more, within 45 s: the fourth can come at 40 s to 45 s, a fifth never."""
    shown = explain(make_policy(jitter={"add": "2s"}, deadline="45s"))
    assert [(row.window_earliest_ms, row.window_latest_ms) for row in shown.rows] == [
        (10_000, 12_000),
        (20_000, 24_000),
        (30_000, 36_000),
        (40_000, 45_000),
    ]
    assert shown.rows[-1].latest_ms == 12_000
    assert shown.complete
    assert shown.summary().startswith("25 retries, 4 before the deadline; retry 4 comes 40 s to 45 s")


def test_a_retry_exactly_at_the_deadline_still_comes() -> None:
    assert [row.window_latest_ms for row in explain(make_policy(deadline="30s")).rows] == [
        10_000,
        20_000,
        30_000,
    ]
    assert next_wait(make_policy(deadline="30s"), 3, make_draws(), elapsed_ms=20_000)


def test_the_clamp_shows_in_the_bounds() -> None:
    row = explain(make_policy(jitter="full", floor="2s", ceil="9s")).rows[2]
    assert (row.nominal_ms, row.earliest_ms, row.latest_ms) == (10_000, 2_000, 9_000)
    assert (row.window_earliest_ms, row.window_latest_ms) == (6_000, 27_000)


def test_a_deadline_that_clips_leaves_one_more() -> None:
    shown = explain(make_policy(deadline="45s", on_deadline="clip"))
    last = shown.rows[-1]
    assert (last.retry, last.earliest_ms, last.latest_ms) == (5, 5_000, 5_000)
    assert (last.window_earliest_ms, last.window_latest_ms) == (45_000, 45_000)


def test_explain_and_the_decision_agree_on_where_it_ends() -> None:
    for clip in ("finish", "clip"):
        policy = make_policy(deadline="45s", on_deadline=clip)
        shown = explain(policy)
        elapsed = 0
        for row in shown.rows:
            wait = next_wait(policy, row.retry, make_draws(), elapsed_ms=elapsed)
            assert not isinstance(wait, Exhausted)
            elapsed += wait.wait_ms
            assert row.window_latest_ms == elapsed
        assert isinstance(next_wait(policy, len(shown.rows) + 1, make_draws(), elapsed_ms=elapsed), Exhausted)
