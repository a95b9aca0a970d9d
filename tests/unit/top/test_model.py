"""What `anew top` makes of a server's messages."""

from __future__ import annotations

from typing import Any

import pytest

from anew.top import model as module
from anew.top.model import Model, cells, details, printable, short_time

NOW = 1_700_000_000_000


def job(job_id: str, **members: Any) -> dict[str, Any]:
    """A job as a server shows it."""
    return {
        "id": job_id, "queue": "q", "job_type": "t", "priority": 5, "ready_at": NOW - 3_000, "attempts": 0,
    } | members  # fmt: skip


def server(**totals: int) -> dict[str, Any]:
    return {"version": "0.6.1", "uptime_ms": 5, "tier": "pro"} | {
        f"total_{name}": n for name, n in totals.items()
    }


def snapshot(first: int = 0, **windows: list[dict[str, Any]]) -> dict[str, Any]:
    shown = {
        name: {"items": windows.get(name, []), "first_position": first, "total": 9}
        for name in ("ready", "in_flight", "scheduled")
    }
    return {"server": server(ready=9, in_flight=8, scheduled=7), "event": "job_snapshot"} | shown


def changed(status: str, job_id: str, **members: Any) -> dict[str, Any]:
    message = {"server": server(), "event": "job_changed", "id": job_id, "status": status}
    return message | (
        {"job": job(job_id, **members)}
        if not status.endswith(("_removed", "ed", "dead")) or status == "scheduled"
        else {}
    )


def ids(model: Model, name: str) -> list[str]:
    return [*model.lists[name].rows]


def test_a_snapshot_replaces_what_is_known() -> None:
    model = Model()
    model.take(snapshot(ready=[job("a"), job("b")]), NOW)
    assert ids(model, "ready") == ["a", "b"]
    model.take(snapshot(first=4, ready=[job("c")]), NOW)
    assert ids(model, "ready") == ["c"]
    assert model.lists["ready"].first == 4
    assert [model.lists[name].total for name in ("ready", "in_flight", "scheduled")] == [9, 8, 7]


@pytest.mark.parametrize(
    ("name", "by"), [("ready", "priority"), ("in_flight", "dequeued_at"), ("scheduled", "ready_at")]
)
def test_what_comes_takes_its_place_and_what_leaves_is_gone(name: str, by: str) -> None:
    model = Model()
    model.take(snapshot(**{name: [job("b", **{by: 2}), job("d", **{by: 4})]}), NOW)
    for job_id, value in (("c", 3), ("a", 2), ("e", 4)):
        model.take(changed(name, job_id, **{by: value}), NOW)
    assert ids(model, name) == ["a", "b", "c", "d", "e"]
    model.take(changed(f"{name}_removed", "c"), NOW)
    model.take(changed(f"{name}_removed", "unknown"), NOW)
    assert ids(model, name) == ["a", "b", "d", "e"]


def test_a_window_is_bounded_whatever_a_server_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 3)
    model = Model()
    for n in range(9):
        model.take(changed("ready", str(n)), NOW)
    assert ids(model, "ready") == ["0", "1", "2"]


def test_rates_are_those_of_the_last_five_seconds() -> None:
    model = Model()
    for at in range(10):
        model.take(changed("completed", "a"), NOW + at * 1_000)
    model.take(changed("dead", "a"), NOW + 9_000)
    assert model.rates(NOW + 9_000) == (1.0, 0.2)
    assert model.rates(NOW + 14_000) == (0.0, 0.0)


@pytest.mark.parametrize(
    "message",
    [{}, {"event": "heartbeat"}, {"event": "new one"}, {"event": "job_changed", "id": "a", "status": "new"}],
)
def test_what_is_not_known_is_passed_over(message: dict[str, Any]) -> None:
    model = Model()
    model.take(snapshot(ready=[job("a")]), NOW)
    model.take({"server": server()} | message, NOW)
    assert ids(model, "ready") == ["a"]


def test_a_search_says_where_it_has_found_something() -> None:
    model = Model()
    window = {"items": [], "first_position": 0, "total": 9, "resolved_anchor": "a"}
    model.take({"event": "find_result", "list": "ready", "matched_position": 3, "window": window}, NOW)
    assert model.found == ("ready", "a")
    model.take({"event": "find_result", "list": "ready", "matched_position": None, "window": window}, NOW)
    assert model.found == ("ready", None)


def test_a_job_is_shown_with_how_long_it_runs_waits_or_has_to_wait() -> None:
    shown = job("id", attempts=2, dequeued_at=NOW - 65_000)
    assert cells("ready", shown, NOW) == ("3 s", "2", "5", "q", "t", "id")
    assert cells("in_flight", shown, NOW)[0] == "1 min 5 s"
    assert cells("scheduled", job("id", ready_at=NOW + 3_700_000), NOW)[0] == "1 h 1 min"
    assert cells("scheduled", shown, NOW)[0] == "0 s"
    assert [short_time(ms) for ms in (-5, 0, 999, 1_999)] == ["0 s", "0 s", "0 s", "1 s"]


def test_names_cannot_steer_the_terminal() -> None:
    shown = job("i\x1b[2J", queue="q\r\n\x07", job_type="\x9b31mred\u202e")
    assert not any(
        char in "".join((*cells("ready", shown, NOW), str(details(shown, NOW))))
        for char in "\x1b\x07\x9b\r\n\u202e"
    )
    assert printable("ä😀 x") == "ä😀 x"


def test_the_detail_of_a_job_has_what_there_is() -> None:
    shown = job(
        "id", failed_at=NOW - 2_000, retry_limit=0, backoff={"exponent": 4.0, "base_ms": 1, "jitter_ms": 2}, unique_key="k",
    )  # fmt: skip
    assert details(shown, NOW) == [
        ("id", "id"), ("queue", "q"), ("type", "t"), ("priority", "5"), ("attempts", "0"), ("ready", "3 s ago"),
        ("failed", "2 s ago"), ("retry limit", "0"), ("unique key", "k"), ("backoff", "exponent 4.0, base_ms 1, jitter_ms 2"),
    ]  # fmt: skip
    assert ("ready", "in 9 s") in details(job("id", ready_at=NOW + 9_000), NOW)
