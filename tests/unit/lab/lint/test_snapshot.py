"""Snapshots: the same schedules give the same text; what changed is said in words and shown retry by retry."""

from __future__ import annotations

import json

import pytest

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab.lint.snapshot import Schedule, changes, read_snapshot, schedule_of, write_snapshot


def schedule(body: object) -> Schedule:
    return schedule_of(Policy.from_json(body))


TABLE = {"curve": {"table": ["10s", "1m", "10m"]}, "jitter": {"below": 0.2}, "limit": 4}


def test_a_schedule_holds_what_a_policy_does() -> None:
    # 8 + 48 + 480 + 480 s and 10 + 60 + 600 + 600 s.
    assert schedule(TABLE) == Schedule(
        retries="4",
        window="16m56s to 21m10s",
        jitter="{below: 0.2}",
        then="dead",
        waits=("10s (8s to 10s)", "1m (48s to 1m)", "10m (8m to 10m)", "10m (8m to 10m)"),
    )


def test_what_is_the_same_is_written_once() -> None:
    assert schedule({"curve": {"constant": "1m"}, "limit": 1}).waits == ("1m",)
    # A minute of the curve, held to half of it.
    assert schedule({"curve": {"constant": "1m"}, "ceil": "30s", "limit": 1}).waits == ("1m (30s)",)


def test_ends_are_told() -> None:
    endless = schedule({"curve": {"constant": "1m"}, "limit": None, "on_exhausted": "discard"})
    assert (endless.retries, endless.then, len(endless.waits)) == ("no end", "discard", 100)
    late = schedule({"curve": {"constant": "1m"}, "deadline": "5m"})
    assert (late.retries, late.window) == ("25, 5 before the deadline", "5m")
    none = schedule({"curve": {"constant": "1m"}, "limit": 0})
    assert (none.retries, none.window, none.waits) == ("0", "0s", ())


def test_it_is_about_what_a_policy_does_and_not_how_it_is_written() -> None:
    spelled = Policy.from_json("zizq").to_json()
    assert schedule("zizq") == schedule(spelled)
    assert schedule({"preset": "sidekiq"}) == schedule("faktory")


def test_two_jitters_with_the_same_bounds_are_told_apart() -> None:
    body = {"curve": {"constant": "1m"}, "jitter": {"above": {"share": 0.5, "source": "job"}}}
    other = {"curve": {"constant": "1m"}, "jitter": {"above": 0.5}}
    (change,) = changes({"web": schedule(other)}, {"web": schedule(body)})
    assert change.words == ("jitter {above: 0.5} -> {above: {share: 0.5, source: job}}",)


def test_the_text_is_sorted_and_reads_back() -> None:
    schedules = {"web": schedule(TABLE), "mail": schedule("even")}
    text = write_snapshot(schedules)
    assert text == write_snapshot(dict(reversed(schedules.items())))
    assert [*json.loads(text)] == ["mail", "web"]
    assert read_snapshot(text) == schedules
    # One line a retry: a diff shows which.
    assert text.decode().splitlines().count('      "10m (8m to 10m)"') == 1
    assert '      "1m (48s to 1m)",' in text.decode().splitlines()


def test_equal_schedules_are_not_mentioned() -> None:
    assert changes({"web": schedule(TABLE)}, {"web": schedule(TABLE)}) == []


def test_from_zero_to_one_is_four_days_and_a_half() -> None:
    # Sums of the fourth powers of 0 to 24 and of 1 to 25, and 25 times 15 s: 20.41 d and 24.93 d.
    zero = {"curve": {"power": {"base": "15s", "exponent": 4}}, "limit": 25}
    one = {"curve": {"power": {"base": "15s", "exponent": 4, "origin": 1}}, "limit": 25}
    (change,) = changes({"web": schedule(zero)}, {"web": schedule(one)})
    assert change.kind == "changed"
    assert change.words == (
        "window 20 d 9 h -> 24 d 22 h",
        "25 of 25 waits differ",
        "the first is retry 1: 15 s -> 16 s",
    )
    assert change.table()[:3] == [
        ["", "retry", "stored", "now"],
        ["*", "1", "15 s", "16 s"],
        ["*", "2", "16 s", "31 s"],
    ]


def test_unchanged_retries_are_not_marked() -> None:
    longer = {**TABLE, "limit": 5}
    (change,) = changes({"web": schedule(TABLE)}, {"web": schedule(longer)})
    assert change.words == (
        "window 16 min 56 s to 21 min 10 s -> 24 min 56 s to 31 min 10 s",
        "retries 4 -> 5",
        "1 of 5 waits differ",
        "the first is retry 5: none -> 10 min (8 min to 10 min)",
    )
    assert change.table()[1:] == [
        ["", "", "3 rows unchanged", ""],
        [" ", "4", "10 min (8 min to 10 min)", "10 min (8 min to 10 min)"],
        ["*", "5", "none", "10 min (8 min to 10 min)"],
    ]


def test_only_changed_retries_and_their_neighbours_are_shown() -> None:
    waits = [f"{number}m" for number in range(1, 101)]
    others = [*waits]
    others[49] = "49m30s"
    before, after = ({"curve": {"table": each}, "limit": 100} for each in (waits, others))
    (change,) = changes({"web": schedule(before)}, {"web": schedule(after)})
    assert change.table()[1:] == [
        ["", "", "48 rows unchanged", ""],
        [" ", "49", "49 min", "49 min"],
        ["*", "50", "50 min", "49 min 30 s"],
        [" ", "51", "51 min", "51 min"],
        ["", "", "49 rows unchanged", ""],
    ]


def test_a_difference_that_rounding_would_hide_is_shown_as_it_is() -> None:
    before = {"curve": {"table": ["1d2h3m4s"]}, "limit": 1}
    after = {"curve": {"table": ["1d2h3m5s"]}, "limit": 1}
    (change,) = changes({"web": schedule(before)}, {"web": schedule(after)})
    assert change.words[0] == "window 1d2h3m4s -> 1d2h3m5s"
    assert change.table()[1] == ["*", "1", "1d2h3m4s", "1d2h3m5s"]


def after_a_hundred(wait: str, **more: object) -> Schedule:
    """100 retries of ten seconds, then 50 of another wait."""
    phases = [{"curve": {"constant": "10s"}, "count": 100}, {"curve": {"constant": wait}, "count": 50}]
    return schedule({"phases": phases, "limit": None, **more})


def test_what_changes_after_the_hundredth_retry_is_seen() -> None:
    # 100 times 10 s are 1,000 s; 50 minutes more are 66 min 40 s, and 50 times 5 d are 250 d and 16 min 40 s.
    before, after = after_a_hundred("1m"), after_a_hundred("5d")
    assert (before.last, before.ends) == ("1m", "1h6m40s")
    assert (after.last, after.ends) == ("5d", "250d16m40s")
    assert (before.waits, before.window) == (after.waits, after.window)
    (change,) = changes({"web": before}, {"web": after})
    assert change.words == (
        "the last wait 1 min -> 5 d",
        "the last retry comes after 1 h 6 min -> 250 d",
    )
    assert change.table()[1:] == [["", "", "100 rows unchanged", ""], ["*", "last", "1 min", "5 d"]]
    assert read_snapshot(write_snapshot({"web": after})) == {"web": after}


def test_the_last_wait_has_its_bounds() -> None:
    # Half up: 10 s to 15 s a hundred times, a minute to 90 s fifty times.
    found = after_a_hundred("1m", jitter={"above": 0.5})
    assert (found.last, found.ends) == ("1m (1m to 1m30s)", "1h6m40s to 1h40m")
    # 1.001 times the wait before at most: 10 s * 1.001^200 = 12.2 s before the 200th, the first included.
    slow = schedule({"curve": {"constant": "10s"}, "jitter": {"decorrelated": 1.001}, "limit": 200})
    assert slow.last == "10s (10s to 12.212s)"


def test_an_end_that_never_comes_changes_too() -> None:
    def endless(wait: str, **more: object) -> Schedule:
        phases = [{"curve": {"constant": "10s"}, "count": 100}, {"curve": {"constant": wait}}]
        return schedule({"phases": phases, "limit": None, **more})

    assert (endless("1m").last, endless("1m").ends) == ("1m", None)
    (change,) = changes({"web": endless("1m")}, {"web": endless("5d")})
    assert change.words == ("the last wait 1 min -> 5 d",)
    (change,) = changes({"web": endless("1m")}, {"web": endless("1m", deadline="9d", on_deadline="clip")})
    assert change.words == ("deadline none -> 9d, clip",)
    (change,) = changes({"web": endless("1m", deadline="9d")}, {"web": endless("1m", deadline="8d")})
    assert change.words == ("deadline 9d -> 8d",)


def test_no_more_is_stored_where_all_retries_are_shown() -> None:
    for body in (TABLE, {"curve": {"constant": "1m"}, "limit": 100, "deadline": "1d"}):
        assert [*json.loads(write_snapshot({"web": schedule(body)}))["web"]] == [
            "retries", "window", "jitter", "then", "waits",
        ]  # fmt: skip
    # The deadline comes with the hundredth minute: no more retries than those.
    assert schedule({"curve": {"constant": "1m"}, "limit": None, "deadline": "100m"}).last is None


def test_a_snapshot_that_was_stored_before_gives_no_false_alarm() -> None:
    now = {"web": after_a_hundred("5d", deadline="300d"), "mail": schedule(TABLE)}
    raw = json.loads(write_snapshot(now))
    for name in ("last", "ends", "deadline"):
        del raw["web"][name]
    old = read_snapshot(json.dumps(raw).encode())
    assert changes(old, now) == []
    assert changes(now, old) == []
    # What it does hold still counts.
    (change,) = changes(old, now | {"web": after_a_hundred("5d", on_exhausted="discard")})
    assert change.words == ("then dead -> discard",)


def test_new_and_removed_policies_are_told() -> None:
    found = changes(
        {"old": schedule(TABLE), "same": schedule("even")}, {"new": schedule(TABLE), "same": schedule("even")}
    )
    assert [(change.policy, change.kind) for change in found] == [("new", "new"), ("old", "removed")]


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", '{"web": 3}', '{"web": {}}', "[" * 100_000,
        '{"web": {"retries": "1", "window": "soon", "jitter": "none", "then": "dead", "waits": []}}',
        '{"web": {"retries": "1", "window": "1s", "jitter": "none", "then": "dead", "waits": [""]}}',
        '{"web": {"retries": "1", "window": "1s", "jitter": "none", "then": "dead", "waits": ["1s (2s to"]}}',
        '{"web": {"retries": "1", "window": "1s", "jitter": "none", "then": "dead", "waits": ["1s (2s to x)"]}}',
        '{"web": {"retries": "1", "window": "1s", "jitter": "none", "then": "dead", "waits": [], "more": 1}}',
        '{"web": {"retries": "1", "window": "1s", "jitter": "none", "then": "dead", "waits": [], "last": ""}}',
        '{"web": {"retries": "1", "window": "1s", "jitter": "none", "then": "dead", "waits": [], "last": "1s", "ends": "x"}}',
        '{"web": {"retries": "1", "window": "1s", "jitter": "none", "then": "dead", "waits": [], "deadline": "1s, clap"}}',
        '{"web": {"retries": "\\ud800", "window": "1s", "jitter": "none", "then": "dead", "waits": []}}',
        '{"\\udfff": {"retries": "1", "window": "1s", "jitter": "none", "then": "dead", "waits": []}}',
        '{"web": {"retries": "1", "window": "1s", "jitter": "none", "then": "dead", "waits": [' + '"1s", ' * 100 + '"1s"]}}',
    ],
)  # fmt: skip
def test_what_is_no_snapshot_is_refused(text: str) -> None:
    with pytest.raises(
        InvalidInput, match=r"^snapshot: .*; expected what --update-snapshot writes$"
    ) as caught:
        read_snapshot(text.encode())
    assert "(char" not in str(caught.value)


def test_what_is_wrong_with_a_snapshot_is_said_plainly() -> None:
    with pytest.raises(
        InvalidInput, match=r"^snapshot: it is no JSON \(Expecting value at line 1, column 2\); expected"
    ):
        read_snapshot(b"[policies.web]")
    with pytest.raises(
        InvalidInput, match=r'^snapshot: "a" stands in one object twice; expected different names; expected'
    ):
        read_snapshot(b'{"a": 1, "a": 2}')
