"""What ``explain`` says, in JSON and as a table, and where it stops."""

import json
import math
from typing import Any

import pytest

from anew.backoff import Custom, Exhausted, Policy, UpTo, next_wait, preset
from anew.backoff.curves import Constant
from anew.errors import InvalidInput, InvalidPolicy
from anew.lab import Explanation, explain

from ..backoff.helpers import make_draws, make_policy


def test_the_json_has_exactly_this_shape() -> None:
    """Zizq's first two: 16 s and up to 30 s more, 31 s and up to 60 s more, each cut to milliseconds."""
    assert explain(preset("zizq", limit=2), outages_ms=[47_000, 200_000]).to_json() == {
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
                "mean_ms": 30_999.5,
                "sd_ms": pytest.approx(30_000 / math.sqrt(12), abs=1e-3),
                "percentiles_ms": {"5": 17_499, "50": 30_999, "95": 44_499},
                "share": None,
                "nearly": False,
            },
            {
                "retry": 2,
                "nominal_ms": 31_000,
                "earliest_ms": 31_000,
                "latest_ms": 91_000,
                "window_earliest_ms": 47_000,
                "window_latest_ms": 137_000,
                "mean_ms": 60_999.5,
                "sd_ms": pytest.approx(60_000 / math.sqrt(12), abs=1e-3),
                "percentiles_ms": {"5": 33_999, "50": 60_999, "95": 87_999},
                "share": None,
                "nearly": False,
            },
        ],
        "total_runs": 3,
        "window": {
            "earliest_ms": 47_000,
            "latest_ms": 137_000,
            "nearly": False,
            "error": 0.0031,
            "mean_ms": pytest.approx(91_999, abs=250),
            "sd_ms": pytest.approx(math.sqrt((30_000**2 + 60_000**2) / 12), rel=5e-3),
            # A trapezium: a share p below 1/4 lies under 47 s + sqrt(p * 2 * 30 * 60) s, and likewise from above.
            "percentiles_ms": {
                "5": pytest.approx(47_000 + 1000 * math.sqrt(0.05 * 3_600), abs=500),
                "50": pytest.approx(92_000, abs=500),
                "95": pytest.approx(137_000 - 1000 * math.sqrt(0.05 * 3_600), abs=500),
            },
        },
        "outlives": [{"outage_ms": 47_000, "share": 1.0}, {"outage_ms": 200_000, "share": 0.0}],
        "outlived_ms": {
            "99": pytest.approx(53_000, abs=500),
            "50": pytest.approx(92_000, abs=500),
            "1": pytest.approx(131_000, abs=500),
        },
        "dead_by_ms": {
            "1": pytest.approx(53_000, abs=500),
            "50": pytest.approx(92_000, abs=500),
            "99": pytest.approx(131_000, abs=500),
            "100": 137_000,
        },
    }


def test_the_json_is_json() -> None:
    for name in ("zizq", "even", "aws_decorrelated"):
        written = explain(preset(name)).to_json()
        assert json.loads(json.dumps(written, allow_nan=False)) == written


def test_what_never_ends_has_no_window() -> None:
    written = explain(make_policy(limit=None), 1, outages_ms=[5]).to_json()
    assert (written["total_runs"], written["window"], written["dead_by_ms"], written["outlived_ms"]) == (
        None,
    ) * 4
    assert written["outlives"] == [{"outage_ms": 5, "share": 1.0}]


def test_the_table_is_for_people() -> None:
    assert explain(preset("zizq", limit=2)).table() == [
        ["retry", "nominal", "earliest", "latest", "mean", "5-95 %", "from start", "to"],
        ["1", "16 s", "16 s", "46 s", "31 s", "17.5-44.5 s", "16 s", "46 s"],
        ["2", "31 s", "31 s", "1 min 31 s", "1 min 1 s", "34-88 s", "47 s", "2 min 17 s"],
    ]


def test_without_jitter_the_table_has_no_law() -> None:
    assert explain(make_policy(limit=1)).table() == [
        ["retry", "nominal", "earliest", "latest", "from start", "to"],
        ["1", "10 s", "10 s", "10 s", "10 s", "10 s"],
    ]


def test_percentiles_that_are_asked_for_get_a_column_each() -> None:
    shown = explain(make_policy(jitter="full", limit=1), percentiles=[90, 10, 99.9, 10])
    assert shown.percents == (10, 90, 99.9)
    assert shown.table(shown.percents) == [
        ["retry", "nominal", "earliest", "latest", "mean", "10 %", "90 %", "99.9 %", "from start", "to"],
        ["1", "10 s", "0 ms", "10 s", "5 s", "999 ms", "9 s", "10 s", "0 ms", "10 s"],
    ]
    assert shown.rows[0].percentiles_ms == {"10": 999, "90": 8_999, "99.9": 9_989}


@pytest.mark.parametrize("name", ["zizq", "even", "faktory", "aws_decorrelated", "zzz_jobs"])
def test_the_table_fits_a_hundred_columns(name: str) -> None:
    from anew.cli.output import table

    heading, *rows = explain(preset(name)).table()
    assert max(len(line) for line in table(heading, rows)) <= 100
    assert max(len(line) for line in explain(preset(name)).words()) <= 100


@pytest.mark.parametrize(
    ("policy", "outages", "words"),
    [
        (
            make_policy(jitter={"above": {"share": 1, "source": "job"}}, limit=6),
            [],
            # Six times [10, 20 s) with one number: anything in [60, 120 s), so 1 % is 60.6 s.
            [
                "7 runs in all.",
                "Last retry: after 1 min 30 s on average, 1 min 3 s to 1 min 57 s for nine jobs in ten.",
                "Outages outlived: by 99 % of the jobs 1 min 1 s, by 50 % 1 min 30 s, by 1 % 1 min 59 s.",
                "Dead if all runs fail: 1 % by 1 min 1 s, 50 % by 1 min 30 s, 99 % by 1 min 59 s, all by 2 min.",
            ],
        ),
        (
            make_policy(jitter={"above": {"share": 1, "source": "job"}}, limit=6),
            [60_000, 75_000, 120_001],
            [
                "7 runs in all.",
                "Last retry: after 1 min 30 s on average, 1 min 3 s to 1 min 57 s for nine jobs in ten.",
                "An outage of 1 min from the first failure on: every job outlives it.",
                "An outage of 1 min 15 s from the first failure on: 75.0 % of the jobs outlive it (± 0.3 points).",
                "An outage of 2 min from the first failure on: no job outlives it.",
                "Dead if all runs fail: 1 % by 1 min 1 s, 50 % by 1 min 30 s, 99 % by 1 min 59 s, all by 2 min.",
            ],
        ),
        (
            make_policy(limit=3, on_exhausted="discard"),
            [],
            [
                "4 runs in all.",
                "Every job outlives an outage of 30 s, and none a longer one.",
                "Discarded if all runs fail: after 30 s.",
            ],
        ),
        (make_policy(limit=0), [], ["1 run in all.", "Dead if all runs fail: at the first failure."]),
        (
            make_policy(limit=None),
            [],
            ["There is no end: every job outlives every outage, and none is given up."],
        ),
        (
            Policy(curve=Custom(function=float)),
            [],
            ["When the last retry comes cannot be told beforehand."],
        ),
        (
            make_policy(limit=None, deadline="25s"),
            [25_000],
            [
                "3 runs in all at most.",
                "An outage of 25 s from the first failure on: no job outlives it.",
                "Dead if all runs fail: after 20 s.",
            ],
        ),
    ],
    ids=lambda value: "" if isinstance(value, list) else None,
)
def test_the_words(policy: Policy, outages: list[int], words: list[str]) -> None:
    assert explain(policy, outages_ms=outages).words() == words


def test_shares_close_to_the_ends_are_not_rounded_away() -> None:
    policy = make_policy(jitter={"above": {"share": 1, "source": "job"}}, limit=1)
    words = explain(policy, outages_ms=[10_001, 19_999]).words()
    assert "more than 99.9 % of the jobs outlive it" in words[2]
    assert "fewer than 0.1 % of the jobs outlive it" in words[3]


def test_the_law_is_held_to_what_a_deadline_leaves() -> None:
    """10 s and up to 10 s more, 15 s in all: the one retry that fits comes after 10 to 15 s."""
    (row,) = explain(make_policy(jitter={"above": 1}, deadline="15s")).rows
    assert (row.earliest_ms, row.latest_ms) == (10_000, 15_000)
    # Half of the jobs, and these evenly between 10 and 15 s.
    assert row.percentiles_ms == pytest.approx({"5": 10_250, "50": 12_500, "95": 14_750}, abs=60)
    assert row.mean_ms == pytest.approx(12_500, abs=30)
    assert row.sd_ms == pytest.approx(5_000 / math.sqrt(12), abs=15)
    assert row.share == pytest.approx(0.5, abs=0.008)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"percentiles": [50, 101]}, r"^percentiles: 101 is not valid; expected numbers from 0 to 100"),
        ({"percentiles": [math.nan]}, r"^percentiles: nan is not valid"),
        ({"percentiles": list(range(21))}, r"^percentiles: .* expected at most 20 percentiles"),
        ({"outages_ms": [-1]}, r"^outage: -1 is not valid; expected a length in milliseconds"),
    ],
)
def test_bad_questions_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        explain(make_policy(), **given)


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
    assert explain(Policy(curve=Custom(function=never), limit=1)).rows[0].mean_ms is None
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


def test_the_latest_wait_of_a_die_is_the_last_face_that_is_in_time_once_it_is_cut() -> None:
    """40 ms and 0 to 999 times 2.961 ms: 831 of them are 2500.591 ms, which is 2500 ms, and that is the deadline."""
    form = {
        "curve": {"constant": 1},
        "jitter": {
            "window": {"low": {"times": 0, "grow": 40}, "high": {"times": 1, "grow": 3_000}, "faces": 1_000}
        },
        "limit": 1,
    }
    assert explain(form | {"deadline": 2_500}).rows[0].latest_ms == 2_500
    assert explain(form | {"deadline": 2_499}).rows[0].latest_ms == 2_497  # 830 times 2.961, and 40


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


def test_nothing_is_said_of_each_job_where_some_stand_for_all() -> None:
    """Of 30,000 simulated jobs 14 make their last retry before 78 s; a thousand that are walked need not have one."""
    form = {"curve": {"exponential": {"base": 1_698}}, "jitter": "slices", "limit": 8, "deadline": "5m"}
    told = explain(Policy.from_json(form), outages_ms=[78_000, 299_000, 301_000])
    _, _, early, late, beyond, _ = told.words()
    assert (
        early == "An outage of 1 min 18 s from the first failure on: more than 99.9 % of the jobs outlive it."
    )
    assert "no job" not in late
    assert (
        beyond == "An outage of 5 min 1 s from the first failure on: no job outlives it."
    )  # by the deadline
    assert told.words()[-1].startswith("Dead if all runs fail: ")
    assert ", nearly all by " in told.words()[-1]
