"""Fit: the equations are solved, the window is within a thousandth, and what cannot be done is said."""

from __future__ import annotations

import sys

import pytest

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab.explain import explain
from anew.lab.families import FAMILIES
from anew.lab.fit import Fit, fit, nominal_window
from anew.lab.lint import Severity, lint
from anew.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS


def bare(found: Fit) -> Policy:
    """The same policy without its jitter (and with the cap that the jitter left): its schedule is the nominal one."""
    body = {**found.policy.to_json(), "jitter": "none", "cap": found.policy.effective_cap_ms}
    return Policy.from_json(body)


def checked(found: Fit, window_ms: int, first_ms: int, retries: int) -> Fit:
    """Hold a proposal against the explanation of its policy, read back from JSON."""
    assert Policy.from_json(found.policy.to_json()) == found.policy
    rows = explain(bare(found)).rows if retries <= 100 else explain(bare(found), retries).rows
    assert len(rows) == retries == found.policy.retries
    assert rows[0].nominal_ms == first_ms == found.first_ms
    assert rows[-1].window_earliest_ms == found.window_ms == window_ms + found.off_ms
    assert abs(found.off_ms) <= window_ms / 1_000
    return found


@pytest.mark.parametrize("like", [name for name in FAMILIES if name != "constant"])
@pytest.mark.parametrize(
    ("window_ms", "first_ms", "retries"),
    [
        (3 * DAY_MS, 10 * SECOND_MS, 12),
        (20 * DAY_MS, 15 * SECOND_MS, 25),
        (HOUR_MS, SECOND_MS, 5),
        (10 * MINUTE_MS, 10 * SECOND_MS, 40),
        (30 * SECOND_MS, 5 * SECOND_MS, 2),
    ],
)
def test_every_family_reaches_an_ordinary_window(
    like: str, window_ms: int, first_ms: int, retries: int
) -> None:
    found = checked(fit(window_ms, first_ms, retries, like=like), window_ms, first_ms, retries)
    assert abs(found.window_ms - window_ms) <= window_ms / 1_000


# -- by hand


def test_sidekiqs_own_numbers_come_back() -> None:
    # Twenty-five times 15 s and the fourth powers of 0 to 24, 1,763,020: Sidekiq's scale of 1 s.
    window = (25 * 15 + 1_763_020) * SECOND_MS
    found = fit(window, 15 * SECOND_MS, 25, like="sidekiq")
    assert found.policy == Policy.from_json({"preset": "sidekiq", "limit": 25})
    assert found.solved == {"scale": "1s"}
    assert found.off_ms == 0
    assert "25 * 15s + scale * 1763020 (1^4 + ... + 24^4) = 20d9h49m55s: scale = 1s" in found.how
    assert "the window is exactly the one asked for" in found.how


def test_a_range_whose_ends_read_the_same_is_one_time() -> None:
    """The last waits are 17/18 h, so all jobs make their last retry within an hour after 3 d."""
    found = fit(None, 10 * SECOND_MS, like="exponential", outlive_ms=3 * DAY_MS, cap_ms=HOUR_MS)
    assert "with its jitter the last retry comes 3 d after the first failure" in found.how


def test_zizqs_own_numbers_come_back() -> None:
    # The first wait is 15 s + 1^4 s; 25 * 15 s and the fourth powers of 1 to 25, 2,153,645.
    window = (25 * 15 + 2_153_645) * SECOND_MS
    found = fit(window, 16 * SECOND_MS, 25, like="zizq")
    assert found.policy.to_json()["curve"] == {"power": {"base": "15s", "exponent": 4, "origin": 1}}


def test_a_doubling_is_found() -> None:
    # 1 + 2 + 4 + ... + 512 = 1023 s.
    found = fit(1_023 * SECOND_MS, SECOND_MS, 10, like="exponential")
    assert found.solved == {"factor": "2"}
    assert found.policy.nominal(10) == 512_000


def test_a_straight_line_is_found() -> None:
    # 10 * 15 s + 45 * 5 s.
    found = fit(375 * SECOND_MS, 15 * SECOND_MS, 10, like="linear")
    assert found.solved == {"step": "5s"}


def test_the_ends_of_between_are_exact() -> None:
    # Zaqar's 5 s to 260 s in ten equal steps: 10 * (5 + 260) / 2 = 1325 s.
    found = fit(1_325 * SECOND_MS, 5 * SECOND_MS, 10, like="between")
    assert found.solved == {"high": "4m20s"}


def test_a_square_is_found() -> None:
    # 1 + 4 + 9 + ... + 100 = 385.
    found = fit(385 * SECOND_MS, SECOND_MS, 10, like="power")
    assert found.solved == {"exponent": "2"}


def test_a_constant_fits_its_own_window_only() -> None:
    assert fit(2 * MINUTE_MS, 10 * SECOND_MS, 12, like="constant").off_ms == 0
    with pytest.raises(
        InvalidInput, match="constant comes no closer than 2 min with 12 retries from 10 s on"
    ):
        fit(3 * MINUTE_MS, 10 * SECOND_MS, 12, like="constant")


def test_where_milliseconds_are_too_coarse_the_exponent_helps() -> None:
    # A millisecond of scale is 2,611 s of window, ten times a thousandth of three days.
    found = checked(fit(3 * DAY_MS, 10 * SECOND_MS, 27), 3 * DAY_MS, 10 * SECOND_MS, 27)
    assert found.solved.keys() == {"scale", "exponent"}
    assert len(found.how) == 6
    assert found.how[1].endswith(
        f"scale = {found.solved['scale']}, and whole milliseconds are too coarse, so"
    )


def test_what_was_solved_is_what_the_policy_holds() -> None:
    # 1^4 + ... + 999^4 is 2 * 10^14: a scale of 1 ms is far too much, and none is too little.
    found = checked(fit(3 * DAY_MS, 10 * SECOND_MS, 1_000), 3 * DAY_MS, 10 * SECOND_MS, 1_000)
    assert found.policy.to_json()["curve"] == {
        "power": {"base": "10s", "scale": found.solved["scale"], "exponent": float(found.solved["exponent"])}
    }
    assert found.solved["scale"] == "1ms"


@pytest.mark.parametrize("like", [name for name in FAMILIES if name != "constant"])
def test_a_window_of_first_waits_is_a_constant_and_lint_agrees(like: str) -> None:
    found = fit(12 * MINUTE_MS, MINUTE_MS, 12, like=like)
    assert found.policy.to_json()["curve"] == {"constant": "1m"}
    assert not [
        finding for finding in lint(found.policy.to_json()) if finding.severity.at_least(Severity.WARNING)
    ]


@pytest.mark.parametrize(
    ("retries", "equation"),
    [(2, "scale * 1 (1^4)"), (4, "scale * 98 (1^4 + 2^4 + 3^4)"), (5, "scale * 354 (1^4 + ... + 4^4)")],
)
def test_short_sums_are_written_out(retries: int, equation: str) -> None:
    assert equation in fit(HOUR_MS, SECOND_MS, retries).how[1]


def test_zizqs_curve_gets_steeper_where_its_scale_has_no_room() -> None:
    # At most first * (1 + 2^4 + ... + 12^4) = 10 s * 60,710: 7 d 38 min; beyond that the exponent grows.
    found = checked(fit(30 * DAY_MS, 10 * SECOND_MS, 12, like="zizq"), 30 * DAY_MS, 10 * SECOND_MS, 12)
    assert found.solved.keys() == {"exponent"}
    assert float(found.solved["exponent"]) > 4


def test_a_cap_holds_the_curve_and_the_window_is_reached_all_the_same() -> None:
    found = checked(
        fit(3 * DAY_MS, 10 * SECOND_MS, 20, like="zzz_jobs", cap_ms=6 * HOUR_MS),
        3 * DAY_MS,
        10 * SECOND_MS,
        20,
    )
    assert found.policy.cap_ms == 6 * HOUR_MS
    assert found.policy.nominal(20) == 6 * HOUR_MS
    assert any("each wait held to the cap" in sentence for sentence in found.how)


def test_even_stays_below_its_cap() -> None:
    # 18/18 - 1/18 of an hour is 56 min 40 s.
    found = checked(fit(DAY_MS, SECOND_MS, 40, cap_ms=HOUR_MS), DAY_MS, SECOND_MS, 40)
    assert found.policy.nominal(40) == 3_400_000


def test_the_jitters_are_those_of_the_family() -> None:
    jitters = {
        name: fit(HOUR_MS, 10 * SECOND_MS, 6, like=name).policy.to_json()["jitter"]
        for name in ("even", "zizq", "river")
    }
    assert jitters == {"even": "even", "zizq": {"grow": "20s"}, "river": {"around": 0.1}}


def test_a_single_retry_is_its_own_window() -> None:
    found = fit(10 * SECOND_MS, 10 * SECOND_MS, 1)
    assert (found.window_ms, found.solved, found.policy.retries) == (10 * SECOND_MS, {}, 1)


def test_a_thousand_retries_are_fitted() -> None:
    found = checked(fit(30 * DAY_MS, 10 * SECOND_MS, 1_000), 30 * DAY_MS, 10 * SECOND_MS, 1_000)
    assert found.policy.retries == 1_000


def test_the_answer_is_json_without_loss() -> None:
    found = fit(3 * DAY_MS, 10 * SECOND_MS, 12)
    body = found.to_json()
    assert Policy.from_json(body["policy"]) == found.policy
    assert body["window_ms"] - body["off_ms"] == 3 * DAY_MS
    assert body["earliest_ms"] < 3 * DAY_MS < body["latest_ms"]


# -- what cannot be done


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((MINUTE_MS, 10 * SECOND_MS, 12), "a window of 1 min cannot be reached: 12 retries of at least 10 s take 2 min"),
        ((MINUTE_MS, 10 * SECOND_MS, 1), "a window of 1 min cannot be reached: 1 retry comes after 10 s"),
        # One wait of 10 s and one of a year at most.
        ((730 * DAY_MS, 10 * SECOND_MS, 2), "a wait of 10 s and 1 of at most 365 d take 365 d"),
        ((DAY_MS, 0, 5), "first: 0 is not valid; expected a duration from 1 ms to 365d"),
        ((0, SECOND_MS, 5), "window: 0 is not valid; expected a duration from 1 ms"),
        ((DAY_MS, 366 * DAY_MS, 5), "expected a duration from 1 ms to 365d"),
        ((DAY_MS, SECOND_MS, 0), "retries: 0 is not valid; expected a whole number from 1 to 1000"),
        ((DAY_MS, SECOND_MS, 1_001), "retries: 1001 is not valid"),
    ],
)  # fmt: skip
def test_what_no_policy_can_do_is_refused(arguments: tuple[int, int, int], words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        fit(*arguments)
    assert words in str(caught.value)
    assert "expected" in str(caught.value)


def test_a_cap_that_leaves_too_little_is_refused() -> None:
    # 10 s and eleven times 6 h are 2 d 18 h.
    with pytest.raises(InvalidInput, match="a wait of 10 s and 11 of at most 6 h take 2 d 18 h"):
        fit(3 * DAY_MS, 10 * SECOND_MS, 12, like="zzz_jobs", cap_ms=6 * HOUR_MS)
    with pytest.raises(
        InvalidInput, match=r"cap: .*5s.* is not valid; expected at least the first wait, which is 10 s"
    ):
        fit(DAY_MS, 10 * SECOND_MS, 12, like="zzz_jobs", cap_ms=5 * SECOND_MS)
    with pytest.raises(InvalidInput, match=r"even stays 1/18 below it, at 9.444 s"):
        fit(DAY_MS, 10 * SECOND_MS, 12, cap_ms=10 * SECOND_MS)
    with pytest.raises(InvalidInput, match="cap: 0 is not valid"):
        fit(DAY_MS, 10 * SECOND_MS, 12, cap_ms=0)


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(
        InvalidInput, match=r"like: .sidekick. is not valid; expected one of: even, sidekiq, "
    ):
        fit(DAY_MS, SECOND_MS, 5, like="sidekick")


# -- an outage in place of a window


def test_an_outage_that_all_outlive_by_hand() -> None:
    """Ten waits of 10 s: who is spread first makes the last retry after nine and a half, 95 s."""
    found = fit(None, 10 * SECOND_MS, 10, like="constant", outlive_ms=95 * SECOND_MS)
    assert (found.window_ms, found.earliest_ms, found.latest_ms) == (100_000, 95_000, 105_000)
    assert found.outlives == 1.0


def test_a_straight_line_that_outlives_an_outage() -> None:
    """From 10 s to h in ten retries: 5 (10 + h) s in all, half of h less for the first: 50 + 4.5 h = 1220 for h = 260."""
    found = fit(None, 10 * SECOND_MS, 10, like="between", outlive_ms=1_220 * SECOND_MS)
    assert found.earliest_ms >= 1_220 * SECOND_MS
    assert found.policy.nominal(10) == pytest.approx(260_000, rel=0.003)
    assert found.window_ms == pytest.approx(1_350_000, rel=0.003)


@pytest.mark.parametrize("like", FAMILIES)
@pytest.mark.parametrize("retries", [12, None])
def test_no_family_leaves_anybody_behind(like: str, retries: int | None) -> None:
    first = HOUR_MS if like == "constant" else 10 * SECOND_MS
    outage = 11 * HOUR_MS if like == "constant" else 3 * DAY_MS
    found = fit(None, first, retries, like=like, outlive_ms=outage)
    told = explain(found.policy, found.policy.retries)
    assert told.rows[-1].window_earliest_ms == found.earliest_ms
    assert found.earliest_ms >= outage
    assert found.earliest_ms <= outage * (1.1 if like == "constant" else 1.002)
    assert found.how[-1].startswith("every job outlives an outage of ")


def test_who_dies_in_an_outage_of_the_window() -> None:
    """95 s and 10 s times the job's number: half of them come before 100 s. Sidekiq's jitter only adds."""
    assert fit(100 * SECOND_MS, 10 * SECOND_MS, 10, like="constant").outlives == pytest.approx(0.5, abs=1e-6)
    window = (25 * 15 + 1_763_020) * SECOND_MS
    found = fit(window, 15 * SECOND_MS, 25, like="sidekiq")
    assert found.outlives == 1.0
    assert found.how[-1] == "every job outlives an outage of 20d9h49m55s"


# -- no number of retries


def test_as_few_retries_as_keep_the_waits_small() -> None:
    """1 s times factor^(k - 1) for 1023 s, the last no more than a quarter.

    Of a geometric sum the last term is about 1 - 1/factor, so factor <= 4/3; (4/3)^N = 342 for N = 20.3.
    """
    found = fit(1_023 * SECOND_MS, SECOND_MS, like="exponential")
    assert found.policy.retries == 21


def test_as_few_retries_as_keep_the_growth_small() -> None:
    """10 s and a step for 1000 s. Eight: the last is 240 s, but the second 42.9 s; nine: 212.2 s and 36.5 s."""
    found = fit(1_000 * SECOND_MS, 10 * SECOND_MS, like="linear")
    assert found.policy.retries == 9
    assert found.how[1].startswith("9 retries: the fewest with which no wait is longer than a quarter of")


def test_equal_waits_are_as_many_as_fit() -> None:
    assert fit(100 * SECOND_MS, 10 * SECOND_MS, like="constant").policy.retries == 10
    # Nine and a half waits of 10 s are 95 s, ten and a half 105 s.
    found = fit(None, 10 * SECOND_MS, like="constant", outlive_ms=100 * SECOND_MS)
    assert found.policy.retries == 11


def test_one_of_window_and_outage() -> None:
    for window, outage in ((None, None), (1_000, 1_000)):
        with pytest.raises(InvalidInput, match="expected a window, or an outage to outlive"):
            fit(window, 100, 3, outlive_ms=outage)
    with pytest.raises(InvalidInput, match="outlive: -1 is not valid"):
        fit(None, 100, 3, outlive_ms=-1)
    with pytest.raises(InvalidInput, match="first: 0 is not valid"):
        fit(1_000, 0)


# -- how much is reckoned


@pytest.fixture
def reckoned(monkeypatch: pytest.MonkeyPatch) -> list[Policy]:
    """Every policy whose window was asked for."""
    asked: list[Policy] = []

    def noted(policy: Policy) -> int:
        asked.append(policy)
        return nominal_window(policy)

    monkeypatch.setattr(sys.modules["anew.lab.fit"], "nominal_window", noted)
    return asked


@pytest.mark.parametrize("like", [name for name in FAMILIES if name != "constant"])
def test_an_equation_takes_few_windows(like: str, reckoned: list[Policy]) -> None:
    """Halving alone would ask for 35 windows to find a scale, and for some 60 to find an exponent."""
    found = fit(3 * DAY_MS, 10 * SECOND_MS, 12, like=like)
    assert len(reckoned) <= 20 * len(found.solved)


def test_the_fewest_retries_under_a_cap_take_few_windows(reckoned: list[Policy]) -> None:
    """Ten numbers of retries that a cap lets reach it, up to two windows each, two equations a window."""
    found = fit(None, 10 * SECOND_MS, outlive_ms=30 * DAY_MS, cap_ms=HOUR_MS)
    assert found.policy.retries == 770
    assert len(reckoned) <= 450


def test_no_wait_is_reckoned_beyond_the_first_one_at_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Policy.from_json({"curve": {"exponential": {"base": "1s"}}, "cap": "4s", "limit": 1_000})
    asked: list[int] = []
    nominal = Policy.nominal

    def noted(self: Policy, retry: int) -> float:
        asked.append(retry)
        return nominal(self, retry)

    monkeypatch.setattr(Policy, "nominal", noted)
    # 1 s + 2 s + 998 * 4 s.
    assert nominal_window(policy) == 3_995 * SECOND_MS
    assert asked == [1, 2, 3]


def test_a_share_of_the_jobs_outlives_an_outage() -> None:
    """Celery's law, 1 s doubling up to 10 min with full jitter, takes 54 retries for 99 % in 3 h (53 give 98.9 %)."""
    found = fit(
        None, 1_000, 54, like="exponential", cap_ms=600_000, outlive_ms=10_800_000, share=0.99, jitter="full"
    )
    assert 0.99 <= found.outlives <= 0.993
    assert found.policy.to_json()["jitter"] == "full"
    assert any("99 % of the jobs shall outlive" in line for line in found.how)


def test_full_jitter_can_promise_nothing_to_all() -> None:
    with pytest.raises(
        InvalidInput, match='outlive: "3h" is not valid; expected an outage for a share of the jobs'
    ) as error:
        fit(None, 1_000, 20, like="exponential", outlive_ms=10_800_000, jitter="full")
    assert error.value.field == "outlive"


@pytest.mark.parametrize(("share", "why"), [(0.0, "above 0"), (1.01, "at most 1"), (float("nan"), "above 0")])
def test_shares_that_are_none(share: float, why: str) -> None:
    with pytest.raises(InvalidInput, match=f"share: .*{why}"):
        fit(None, 1_000, 5, outlive_ms=10_000, share=share)


def test_a_share_needs_an_outage() -> None:
    with pytest.raises(
        InvalidInput, match=r"share: 0\.5 is given without an outage; expected an outage to outlive"
    ):
        fit(60_000, 1_000, 5, share=0.5)
