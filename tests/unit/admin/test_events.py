"""`/events`: what each client is shown, when, and how it is kept from costing too much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from anew.admin import events as module
from anew.engine import watch, windows
from anew.engine.verbs import patch_one
from anew.errors import Overloaded
from anew.jobs.patch import Patch
from tests.unit.engine.rig import call, fail, new_job, succeed

from .scene import HandSocket, Scene

READY = "ready"


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def ids_of(window: dict[str, Any]) -> list[str]:
    return [job["id"] for job in window["items"]]


def changes(messages: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Status and id of each change; nothing else may have come, heartbeats aside."""
    found = [message for message in messages if message["event"] != "heartbeat"]
    assert [message["event"] for message in found] == ["job_changed"] * len(found)
    return [(message["status"], message["id"]) for message in found]


def snapshots(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The snapshots; nothing else may have come, heartbeats aside."""
    found = [message for message in messages if message["event"] != "heartbeat"]
    assert {message["event"] for message in found} <= {"job_snapshot"}
    return found


def subscribe(socket: HandSocket, anchor: dict[str, Any], limit: int = 3, of: str = READY) -> None:
    socket.say(type="subscribe", list=of, anchor=anchor, limit=limit)


# -- on connect, and by itself


def test_zizq_93_a_snapshot_comes_on_connect_with_the_first_200_of_each_list_and_without_detail(
    scene: Scene,
) -> None:
    keys = scene.rig.put(*[new_job(retry_limit=3) for _ in range(201)])
    socket = scene.ask().socket
    scene.loop.advance(0)
    (snapshot,) = socket.heard()
    assert snapshot["event"] == "job_snapshot"
    assert ids_of(snapshot["ready"]) == [scene.write(key) for key in keys[:200]]
    assert (snapshot["ready"]["first_position"], snapshot["ready"]["total"]) == (0, 201)
    assert snapshot["in_flight"] == snapshot["scheduled"] == {"items": [], "first_position": 0, "total": 0}
    assert "retry_limit" not in snapshot["ready"]["items"][0]
    assert snapshot["server"].keys() == {
        "version", "uptime_ms", "tier", "total_ready", "total_in_flight", "total_scheduled",
    }  # fmt: skip
    assert snapshot["server"]["total_ready"] == 201


def test_zizq_93_a_heartbeat_comes_every_two_seconds(scene: Scene) -> None:
    sockets = [scene.client(), scene.client()]
    scene.loop.advance(1_999)
    assert [socket.heard() for socket in sockets] == [[], []]
    for _ in range(3):
        scene.loop.advance(2_000)
        for socket in sockets:
            (beat,) = socket.heard()
            assert beat.keys() == {"server", "event"}
            assert beat["event"] == "heartbeat"


def test_heartbeats_end_with_the_last_client_and_begin_again(scene: Scene) -> None:
    socket = scene.client()
    socket.leave()
    scene.loop.advance(10_000)
    assert socket.heard() == []
    assert scene.loop.live() == []
    again = scene.client()
    scene.loop.advance(2_000)
    assert len(again.heard()) == 1


# -- changes


def test_jobs_that_come_into_a_window_and_leave_it_are_shown(scene: Scene) -> None:
    socket = scene.client()
    (key,) = scene.rig.put(new_job("q", type="t"))
    scene.look()
    (came,) = [message for message in socket.heard() if message["event"] == "job_changed"]
    assert (came["status"], came["id"]) == ("ready", scene.write(key))
    assert (came["job"]["queue"], came["job"]["job_type"]) == ("q", "t")
    worker = scene.rig.worker()
    scene.look()
    messages = socket.heard()
    assert changes(messages) == [("ready_removed", scene.write(key)), ("in_flight", scene.write(key))]
    assert [("job" in message) for message in messages if message["event"] == "job_changed"] == [False, True]
    scene.rig.do(fail(key))
    scene.look()
    assert changes(socket.heard()) == [
        ("dead", scene.write(key)),
        ("in_flight_removed", scene.write(key)),
        ("scheduled", scene.write(key)),
    ]
    scene.rig.advance(10_000)
    scene.look()
    assert worker.keys == [key, key]
    assert changes(socket.heard()) == [
        ("in_flight", scene.write(key)),
        ("scheduled_removed", scene.write(key)),
    ]
    scene.rig.do(succeed(key))
    scene.look()
    assert changes(socket.heard()) == [
        ("completed", scene.write(key)),
        ("in_flight_removed", scene.write(key)),
    ]


def test_successes_and_all_failures_are_told_also_of_jobs_that_no_window_shows(scene: Scene) -> None:
    first, second = scene.rig.put(new_job(), new_job())
    scene.rig.worker()
    socket = scene.client()
    for of in ("in_flight", "scheduled"):
        subscribe(socket, {"kind": "head"}, 0, of)
    scene.look()
    socket.heard()
    scene.rig.do(succeed(first))
    scene.rig.do(fail(second))
    scene.look()
    assert changes(socket.heard()) == [("completed", scene.write(first)), ("dead", scene.write(second))]


def test_removals_come_before_additions_and_what_scrolls_into_view_is_an_addition(scene: Scene) -> None:
    keys = scene.rig.put(*[new_job() for _ in range(4)])
    socket = scene.client()
    subscribe(socket, {"kind": "head"}, 2)
    scene.look()
    socket.heard()
    scene.rig.do(call(lambda batch: batch.delete([keys[0]])))
    scene.look()
    assert changes(socket.heard()) == [
        ("ready_removed", scene.write(keys[0])),
        ("ready", scene.write(keys[2])),
    ]


def test_a_patch_of_a_job_that_is_shown_gives_a_snapshot(scene: Scene) -> None:
    keys = scene.rig.put(new_job(priority=1), new_job(priority=2))
    socket = scene.client()
    scene.rig.do(call(patch_one(keys[1], Patch(priority=0))))
    scene.look()
    (snapshot,) = snapshots(socket.heard())
    assert ids_of(snapshot["ready"]) == [scene.write(keys[1]), scene.write(keys[0])]


def test_many_changes_between_two_looks_are_shown_as_what_has_come_of_them(scene: Scene) -> None:
    socket = scene.client()
    (key,) = scene.rig.put(new_job())
    scene.rig.do(call(lambda batch: batch.delete([key])))
    scene.look()
    assert changes(socket.heard()) == []


# -- what clients ask for


@pytest.mark.parametrize(
    ("anchor", "expected", "first"),
    [
        ({"kind": "head"}, [0, 1, 2], 0),
        ({"kind": "tail"}, [7, 8, 9], 7),
        ({"kind": "offset", "offset": 4}, [4, 5, 6], 4),
        ({"kind": "offset", "offset": 99}, [7, 8, 9], 7),
        ({"kind": "around", "id": 5}, [4, 5, 6], 4),
        ({"kind": "around", "id": None}, [], 0),
        ({"kind": "around", "id": None, "fallback": "head"}, [0, 1, 2], 0),
        ({"kind": "around", "id": None, "fallback": "tail"}, [7, 8, 9], 7),
    ],
    ids=str,
)
def test_zizq_93_a_subscription_is_followed_by_a_snapshot_of_all_three_lists(
    scene: Scene, anchor: dict[str, Any], expected: list[int], first: int
) -> None:
    keys = scene.rig.put(*[new_job() for _ in range(10)])
    if "id" in anchor:
        anchor = anchor | {"id": "gone" if anchor["id"] is None else scene.write(keys[anchor["id"]])}
    socket = scene.client()
    subscribe(socket, anchor)
    scene.look()
    (snapshot,) = snapshots(socket.heard())
    assert ids_of(snapshot["ready"]) == [scene.write(keys[at]) for at in expected]
    assert (snapshot["ready"]["first_position"], snapshot["ready"]["total"]) == (first, 10)
    located = anchor["kind"] == "around" and anchor["id"] != "gone"
    assert ("resolved_anchor" in snapshot["ready"]) is located


def test_a_subscription_replaces_that_lists_window_alone_and_later_changes_are_of_it(scene: Scene) -> None:
    keys = scene.rig.put(*[new_job() for _ in range(5)])
    socket = scene.client()
    subscribe(socket, {"kind": "tail"}, 2)
    scene.look()
    socket.heard()
    (new,) = scene.rig.put(new_job())
    scene.look()
    assert changes(socket.heard()) == [("ready_removed", scene.write(keys[3])), ("ready", scene.write(new))]


def test_a_window_has_at_most_so_many_rows(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "MAX_ROWS", 4)
    scene.rig.put(*[new_job() for _ in range(10)])
    socket = scene.client()
    subscribe(socket, {"kind": "head"}, 2**63)
    scene.look()
    (snapshot,) = snapshots(socket.heard())
    assert len(snapshot["ready"]["items"]) == 4


def test_detail_is_shown_and_hidden_again(scene: Scene) -> None:
    scene.rig.put(new_job(retry_limit=3))
    socket = scene.client()
    for detail in (True, False):
        socket.say(type="set_detail_level", detail=detail)
        scene.look()
        (snapshot,) = snapshots(socket.heard())
        assert snapshot["ready"]["items"][0].get("retry_limit") == (3 if detail else None)
    socket.say(type="set_detail_level", detail=True)
    scene.look()
    socket.heard()
    scene.rig.put(new_job(retry_limit=4))
    scene.look()
    (came,) = [message for message in socket.heard() if message["event"] == "job_changed"]
    assert came["job"]["retry_limit"] == 4


def test_a_job_is_deleted_without_a_reply_but_the_change(scene: Scene) -> None:
    (key,) = scene.rig.put(new_job())
    socket, other = scene.client(), scene.client()
    socket.say(type="delete_job", id=scene.write(key))
    scene.look()
    for one in (socket, other):
        assert changes(one.heard()) == [("ready_removed", scene.write(key))]
    assert scene.rig.state(key) is None
    for unknown in (scene.write(key), "no id of ours"):
        socket.say(type="delete_job", id=unknown)
        scene.look()
        assert changes(socket.heard()) == []


def find(socket: HandSocket, direction: str = "forward", limit: int = 3, **members: Any) -> dict[str, Any]:
    given = {"anchor": {"kind": "start"}, "list": READY} | members
    socket.say(type="find", direction=direction, limit=limit, **given)
    (result,) = [message for message in socket.heard() if message["event"] == "find_result"]
    return result


def test_zizq_93_a_search_goes_forward_and_backward_from_a_job_and_locates_one(scene: Scene) -> None:
    keys = scene.rig.put(*[new_job(type=f"t{n % 4}") for n in range(10)])
    socket = scene.client()
    query = {"types": ["t2"]}
    result = find(socket, query=query)
    assert (result["list"], result["matched_position"]) == ("ready", 2)
    assert result["window"]["resolved_anchor"] == scene.write(keys[2])
    assert ids_of(result["window"]) == [scene.write(key) for key in keys[1:4]]
    assert (result["window"]["first_position"], result["window"]["total"]) == (1, 10)
    at = {"kind": "job_id", "id": scene.write(keys[2])}
    assert find(socket, anchor=at, query=query)["matched_position"] == 6
    assert find(socket, "backward", anchor=at, query=query)["matched_position"] is None
    assert find(socket, "backward", anchor={"kind": "end"}, query=query)["matched_position"] == 6
    assert find(socket, "locate", anchor=at)["matched_position"] == 2
    nothing = find(socket, "locate", anchor={"kind": "job_id", "id": "gone"})
    assert nothing["matched_position"] is None
    assert nothing["window"] == {"items": [], "first_position": 0, "total": 0}
    assert find(socket, "locate", anchor={"kind": "start"})["matched_position"] is None
    assert find(socket, "backward", query={})["matched_position"] is None
    assert find(socket, anchor={"kind": "end"})["matched_position"] is None


def test_a_search_that_cannot_be_done_now_is_answered_as_one_that_finds_nothing(scene: Scene) -> None:
    scene.rig.put(new_job())
    socket = scene.client()
    scene.reads.refusing = True
    assert find(socket)["matched_position"] is None
    scene.reads.refusing, scene.reads.failing = False, Overloaded("planned")
    assert find(socket)["matched_position"] is None
    scene.reads.failing = None
    assert find(socket)["matched_position"] == 0


# -- who costs too much


@pytest.mark.parametrize("text", [b"", b"garbage", b"\xff", b'{"type":"find"}', b"[]"])
def test_zizq_93_what_is_no_message_is_passed_over_without_a_reply(scene: Scene, text: bytes) -> None:
    socket = scene.client()
    socket.say(text)
    scene.look()
    assert snapshots(socket.heard()) == []
    assert find(socket)["matched_position"] is None


def test_zizq_93_a_client_that_reads_nothing_gets_one_snapshot_when_it_reads_again(scene: Scene) -> None:
    socket = scene.client()
    socket.stall()
    for _ in range(20):
        scene.rig.put(new_job())
        scene.look()
    assert socket.heard() == []
    socket.drain()
    scene.look()
    (snapshot,) = snapshots(socket.heard())
    assert snapshot["ready"]["total"] == 20
    scene.rig.put(new_job())
    scene.look()
    assert len(changes(socket.heard())) == 1


def test_a_client_that_misses_nothing_while_it_is_behind_gets_nothing_more(scene: Scene) -> None:
    socket = scene.client()
    socket.stall()
    scene.loop.advance(1_500)
    socket.drain()
    scene.loop.advance(400)
    assert socket.heard() == []


def test_more_ended_attempts_than_are_kept_give_a_snapshot(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "MAX_ENDED", 3)
    keys = scene.rig.put(*[new_job() for _ in range(9)])
    scene.rig.worker()
    socket = scene.client()
    for key in keys[:5]:
        scene.rig.do(succeed(key))
    scene.look()
    (snapshot,) = snapshots(socket.heard())
    assert snapshot["in_flight"]["total"] == 4


def test_messages_that_wait_behind_a_search_are_bounded_and_done_in_order(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    scene.rig.put(*[new_job(type=f"t{n}") for n in range(5)])
    socket = scene.client()
    scene.reads.holding = True
    for n in range(4):
        assert not socket.held
        socket.say(
            type="find",
            list=READY,
            anchor={"kind": "start"},
            direction="forward",
            limit=1,
            query={"types": [f"t{n}"]},
        )
    assert socket.held
    assert len(scene.reads.held) == 1
    scene.reads.release()
    found = [message["matched_position"] for message in socket.heard()]
    assert found == [0, 1, 2, 3]
    assert not socket.held


def test_zizq_93_no_more_clients_than_so_many_may_watch(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CLIENTS", 2)
    first = scene.client()
    scene.client()
    refused = scene.ask().answer
    assert refused.status == 503
    assert "watch already" in refused.data["error"]
    assert scene.counters.refused == {"watchers": 1}
    first.leave()
    scene.client()


def test_a_client_that_has_left_is_shown_and_counted_no_more(scene: Scene) -> None:
    socket, other = scene.client(), scene.client()
    scene.reads.holding = True
    socket.say(type="find", list=READY, anchor={"kind": "start"}, direction="forward", limit=1)
    socket.leave()
    scene.reads.release()
    scene.rig.put(new_job())
    scene.look()
    assert len(changes(other.heard())) == 1
    assert [message["event"] for message in socket.heard()] in ([], ["find_result"])
