"""Cron entries in Zizq's form: groups and their entries, put, shown, paused, removed, and what they enqueue."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from .client import JSON, MSGPACK, Client, now_ms
from .server import ServerProcess
from .wire import Response

Connect = Callable[..., Client]
Start = Callable[..., ServerProcess]
Entry = dict[str, Any]

JOB = {"type": "send", "queue": "mail", "payload": {"n": 1}}
SECONDLY = "* * * * * *"
BACKOFF = {"exponent": 2.0, "base_ms": 100, "jitter_ms": 0}


def entry(name: str = "digest", expression: str = "@daily", **more: Any) -> Entry:
    return {"name": name, "expression": expression, "job": JOB} | more


def put(client: Client, group: str, *entries: Entry, **more: Any) -> Any:
    response = client.put(f"/crons/{group}", {"entries": list(entries)} | more)
    assert response.status == 200, response.body
    return response.data


def shown(client: Client, group: str) -> Any:
    response = client.get(f"/crons/{group}")
    assert response.status == 200, response.body
    return response.data


def refused(response: Response, words: str, status: int = 400) -> None:
    assert (response.status, response.content_type) == (status, JSON), response.body
    assert words in response.error, response.error


@pytest.fixture
def group(queue: str) -> str:
    """A group's name that no other test uses."""
    return f"group-{queue}"


# -- putting and showing


def test_zizq_81_a_group_is_given_back_as_it_was_put_and_shown_by_names(client: Client, group: str) -> None:
    before = now_ms()
    made = put(client, group, entry("b", timezone="UTC"), entry("a", "*/15 * * * *"), entry("B"))
    assert list(made) == ["name", "paused", "entries"]
    assert (made["name"], made["paused"]) == (group, False)
    first = made["entries"][0]
    midnight = (before // 86_400_000 + 1) * 86_400_000
    assert first == {
        "name": "b",
        "expression": "@daily",
        "timezone": "UTC",
        "paused": False,
        "job": {"type": "send", "queue": "mail", "priority": 32768, "payload": {"n": 1}},
        "next_enqueue_at": midnight,
    }
    assert list(first) == ["name", "expression", "timezone", "paused", "job", "next_enqueue_at"]
    assert list(first["job"]) == ["type", "queue", "priority", "payload"]
    assert "timezone" not in made["entries"][1]
    assert [one["name"] for one in made["entries"]] == ["b", "a", "B"]
    assert [one["name"] for one in shown(client, group)["entries"]] == ["B", "a", "b"]
    assert client.get(f"/crons/{group}/entries/b").data == first


def test_zizq_81_a_job_is_shown_with_all_that_was_said_of_it(client: Client, group: str) -> None:
    job = JOB | {
        "priority": 7,
        "payload": None,
        "retry_limit": 3,
        "backoff": BACKOFF,
        "retention": {"dead_ms": 5},
        "unique_key": "",
        "unique_while": "active",
    }
    (made,) = put(client, group, entry(job=job | {"colour": "unknown members are ignored"}))["entries"]
    assert made["job"] == job
    (made,) = put(client, group, entry(job=JOB | {"unique_key": "k"}))["entries"]
    assert made["job"] == JOB | {"priority": 32768, "unique_key": "k"}
    (made,) = put(client, group, entry(job=JOB | {"unique_while": "exists"}))["entries"]
    assert made["job"] == JOB | {"priority": 32768, "unique_while": "exists"}, "a scope alone is let be"
    (made,) = put(client, group, entry(job=JOB | {"policy": {"preset": "even"}}))["entries"]
    assert made["job"]["policy"] == {"preset": "even"}


def test_zizq_81_what_never_fires_has_no_next_time(client: Client, group: str) -> None:
    (made,) = put(client, group, entry(expression="0 0 31 2 *"))["entries"]
    assert "next_enqueue_at" not in made
    assert put(client, group) == {"name": group, "paused": False, "entries": []}
    assert shown(client, group) == {"name": group, "paused": False, "entries": []}


def test_zizq_81_both_formats_say_the_same(client: Client, group: str) -> None:
    job = JOB | {"backoff": BACKOFF, "payload": [1, None, "é", {"a": 1.5}]}
    body = {"entries": [entry(job=job, timezone="UTC")], "paused": None}
    response = client.request("PUT", f"/crons/{group}", packed=body, accept=MSGPACK)
    assert (response.status, response.content_type) == (200, MSGPACK)
    packed = msgspec.msgpack.decode(response.body)
    assert packed == shown(client, group)
    assert msgspec.msgpack.decode(client.get(f"/crons/{group}", accept=MSGPACK).body) == packed
    one = client.request("PUT", f"/crons/{group}/entries/x", packed=entry(job=job), accept=MSGPACK)
    assert msgspec.msgpack.decode(one.body) == client.get(f"/crons/{group}/entries/x").data
    # Ruby writes integers as floats.
    floats = JOB | {"backoff": {"exponent": 2, "base_ms": 100.0, "jitter_ms": 0.0}, "priority": 5.0}
    response = client.request("PUT", f"/crons/{group}", packed={"entries": [entry(job=floats)]})
    assert response.data["entries"][0]["job"] == JOB | {"priority": 5, "backoff": BACKOFF}


def test_zizq_82_a_repeated_put_keeps_the_schedule(client: Client, group: str) -> None:
    put(client, group, entry("gone"), entry("kept", timezone="UTC"), entry("moved", timezone="UTC"))
    before = shown(client, group)["entries"][1:]
    made = put(client, group, entry("kept", timezone="UTC"), entry("moved", timezone="UTC"))
    assert made["entries"] == before
    changed = put(
        client,
        group,
        entry("kept", timezone="UTC", job=JOB | {"queue": "other"}),
        entry("moved", "0 12 * * *", timezone="UTC"),
    )["entries"]
    assert changed[0] == before[0] | {"job": before[0]["job"] | {"queue": "other"}}
    assert (changed[1]["next_enqueue_at"] - before[1]["next_enqueue_at"]) % 86_400_000 == 43_200_000
    assert shown(client, group)["entries"] == changed


def test_zizq_82_another_time_zone_is_another_schedule(client: Client, group: str) -> None:
    """Q6: Zizq keeps the next time of the old zone."""
    (before,) = put(client, group, entry(timezone="UTC"))["entries"]
    (after,) = put(client, group, entry(timezone="Etc/GMT-5"))["entries"]  # five hours east
    assert (after["next_enqueue_at"] - before["next_enqueue_at"]) % 86_400_000 == 19 * 3_600_000


def test_a_groups_zone_is_that_of_entries_that_name_none(client: Client, group: str) -> None:
    """As clients of Zizq 0.7 send it."""
    entries = [entry(), entry("own", timezone="UTC")]
    east, utc = (made := put(client, group, *entries, timezone="Etc/GMT-5"))["entries"]
    assert list(made) == ["name", "timezone", "paused", "entries"]
    assert made["timezone"] == "Etc/GMT-5"
    assert "timezone" not in east
    assert (east["next_enqueue_at"] - utc["next_enqueue_at"]) % 86_400_000 == 19 * 3_600_000
    assert put(client, group, *entries, timezone="Etc/GMT-5") == made
    assert (
        shown(client, group)["timezone"]
        == client.patch(f"/crons/{group}", {"paused": False}).data["timezone"]
    )
    listed = [one for one in client.get("/v1/crons").data["crons"] if one["group"] == group]
    assert [one["timezone"] for one in listed] == ["Etc/GMT-5", "UTC"]
    again = put(client, group, *entries)
    assert "timezone" not in again
    first = next(one for one in client.get("/v1/crons").data["crons"] if one["group"] == group)
    assert first["timezone"] is None
    response = client.put(f"/crons/{group}", {"entries": entries, "timezone": "Mars/Olympus"})
    refused(response, 'invalid timezone: "Mars/Olympus"')


def test_zizq_83_pauses_of_groups_say_since_when_and_are_kept(client: Client, group: str) -> None:
    before = now_ms()
    made = put(client, group, entry(), paused=True)
    assert list(made) == ["name", "paused", "paused_at", "entries"]
    assert before <= made["paused_at"] <= now_ms()
    assert made["entries"][0]["paused"] is False
    assert put(client, group, entry()) == made, "an omitted flag keeps the state"
    assert client.patch(f"/crons/{group}", {"paused": True}).data == made, "it is paused already"
    resumed = client.patch(f"/crons/{group}", {"paused": False}).data
    assert list(resumed) == ["name", "paused", "paused_at", "resumed_at", "entries"]
    assert (resumed["paused"], resumed["paused_at"]) == (False, made["paused_at"])
    assert resumed["resumed_at"] >= made["paused_at"]
    assert put(client, group, entry()) == resumed
    again = put(client, group, entry(), paused=True)
    assert again["paused_at"] >= resumed["resumed_at"] == again["resumed_at"]


def test_zizq_83_pauses_of_entries_say_since_when_and_are_kept(client: Client, group: str) -> None:
    put(client, group, entry())
    target = f"/crons/{group}/entries/digest"
    before = client.get(target).data
    paused = client.patch(target, {"paused": True, "expression": "@hourly"}).data
    assert paused == before | {"paused": True, "paused_at": paused["paused_at"]}
    assert put(client, group, entry())["entries"] == [paused]
    assert client.put(target, entry()).data == paused
    (resumed,) = put(client, group, entry(paused=False))["entries"]
    assert resumed == paused | {"paused": False, "resumed_at": resumed["resumed_at"]}
    (new,) = put(client, group, entry("new", paused=True))["entries"]
    assert (new["paused"], "paused_at" in new) == (True, True)  # Q7: Zizq does not say since when
    assert shown(client, group)["paused"] is False


@pytest.mark.parametrize("what", ["", "/entries/digest"])
@pytest.mark.parametrize("body", [{}, {"paused": None}, {"paused": 1}, {"paused": "true"}, [], None])
def test_zizq_83_a_pause_must_say_so(client: Client, group: str, what: str, body: Any) -> None:
    put(client, group, entry())
    response = client.request("PATCH", f"/crons/{group}{what}", body=msgspec.json.encode(body))
    assert response.status == 400
    assert shown(client, group)["entries"][0]["paused"] is False


# -- refusals


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": ""}, "cron entry name must not be empty"),
        ({"name": "a,b"}, "cron entry name must not contain ','"),
        ({"name": "a\0b"}, "cron entry name must not contain null bytes"),
        ({"name": "a*b"}, "cron entry name must not contain '*' (reserved)"),
        ({"name": "n" * 513}, "cron entry name must not be longer than 512 bytes"),
        ({"job": JOB | {"type": ""}}, "type must not be empty"),
        ({"job": JOB | {"queue": "a?"}}, "queue must not contain '?' (reserved)"),
        ({"job": JOB | {"ready_at": 5}}, "ready_at is not supported for cron entries"),
        ({"job": JOB | {"unique_while": "ever"}}, 'invalid unique_while: "ever" (expected "queued", "active", or "exists")'),
        ({"job": JOB | {"unique_key": "k", "unique_while": "ever"}}, "invalid unique_while"),
        ({"job": JOB | {"priority": 65_536}}, "priority"),
        ({"job": {"type": "t", "queue": "q"}}, "payload"),
        ({"job": None}, "job"),
        ({"expression": "every day"}, 'invalid cron expression: "every day" is not valid; expected five to seven fields'),
        ({"expression": "60 * * * *"}, "invalid cron expression: "),
        ({"expression": ""}, "invalid cron expression: "),
        ({"expression": "*" * 1_025}, "at most 1024 characters"),
        ({"expression": 5}, "expression: expected str, got int 5"),
        ({"timezone": "Mars/Olympus"}, 'invalid timezone: "Mars/Olympus"'),
        ({"timezone": "../../etc/passwd"}, "invalid timezone: "),
        ({"timezone": ""}, "invalid timezone: "),
        ({"paused": "yes"}, "paused: expected bool"),
    ],
)  # fmt: skip
def test_zizq_85_what_does_not_fit_is_refused_and_changes_nothing(
    client: Client, group: str, change: dict[str, Any], words: str
) -> None:
    before = put(client, group, entry())
    bad = entry("bad") | change
    refused(client.put(f"/crons/{group}", {"entries": [entry("new"), bad]}), words)
    assert client.put(f"/crons/{group}", {"entries": [entry("new"), bad]}).error.startswith("entries[1]")
    refused(client.post(f"/crons/{group}/entries", bad), words)
    refused(client.put(f"/crons/{group}/entries/digest", bad), words)
    assert shown(client, group) == before


def test_zizq_85_reasons_come_in_the_order_of_the_peer(client: Client, group: str) -> None:
    bad = entry("twice", "nonsense", job=JOB | {"ready_at": 1}, timezone="nowhere")
    refused(client.put("/crons/a,b", {"entries": [bad, bad]}), "cron group name must not contain ','")
    refused(client.put(f"/crons/{group}", {"entries": [bad, bad]}), 'duplicate cron entry name: "twice"')
    refused(
        client.put(f"/crons/{group}", {"entries": [entry("a", "nonsense"), bad]}),
        "entries[1]: ready_at is not",
    )
    refused(client.put(f"/crons/{group}", {"entries": [bad | {"job": JOB}]}), "invalid cron expression")
    assert client.get(f"/crons/{group}").status == 404


def test_zizq_85_a_group_must_say_its_entries(client: Client, group: str) -> None:
    for body in ({}, {"entries": None}, {"entries": {}}, {"entries": [1]}, [], {"entries": [], "paused": 1}):
        assert client.put(f"/crons/{group}", body).status == 400, body
    for missing in ("name", "expression", "job"):
        rest = {name: value for name, value in entry().items() if name != missing}
        for response in (
            client.put(f"/crons/{group}", {"entries": [rest]}),
            client.post(f"/crons/{group}/entries", rest),
            client.put(f"/crons/{group}/entries/e", rest),
        ):
            refused(response, missing)
    assert client.get(f"/crons/{group}").status == 404


BATCH = {"key": "k", "when": "true", "fold": "$existing + $new"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"when": "("}, "batch expression: when: "),
        ({"fold": "("}, "batch expression: fold: "),
        ({"fold": "empty"}, "batch dry-run: fold: "),
    ],
)
def test_zizq_85_a_bad_batch_expression_is_400(
    client: Client, group: str, change: dict[str, Any], words: str
) -> None:
    """Where the enqueue of such a job is 422."""
    bad = entry(job=JOB | {"batch": BATCH | change})
    refused(client.put(f"/crons/{group}", {"entries": [entry("good"), bad]}), f"entries[1]: {words}")
    refused(client.post(f"/crons/{group}/entries", bad), words)
    refused(client.put(f"/crons/{group}/entries/e", bad), words)
    assert client.get(f"/crons/{group}").status == 404


def test_zizq_85_a_template_has_one_key(client: Client, group: str) -> None:
    both = entry(expression="nonsense", job=JOB | {"batch": BATCH, "unique_key": "k"})
    refused(client.post(f"/crons/{group}/entries", both), "unique_key and batch cannot be combined")
    more = BATCH | {"unknown": "field"}  # is ignored, and not shown
    (made,) = put(client, group, entry(job=JOB | {"batch": more, "unique_while": "queued"}))["entries"]
    assert made["job"] == JOB | {"priority": 32768, "batch": BATCH, "unique_while": "queued"}
    packed = msgspec.msgpack.decode(client.get(f"/crons/{group}", accept=MSGPACK).body)
    assert packed["entries"] == [made]


def test_a_batched_template_folds_into_the_job_that_waits(client: Client, group: str, queue: str) -> None:
    batch = BATCH | {"key": f"key of {queue}"}
    put(client, group, entry(expression=SECONDLY, job=JOB | {"queue": queue, "payload": [1], "batch": batch}))
    first = when_fired(client, queue)[0]
    folded = client.eventually(
        lambda: len((job := client.job(first["id"]))["payload"]) >= 3 and job, "two folds"
    )
    assert set(folded["payload"]) == {1}
    assert (client.count(queue=queue), folded["batch"]) == (1, batch)
    client.delete(f"/crons/{group}")


def test_a_group_is_bounded(client: Client, group: str) -> None:
    many = [entry(str(n)) for n in range(1_001)]
    refused(client.put(f"/crons/{group}", {"entries": many}), "at most 1000", 413)
    put(client, group, *many[:1_000])
    refused(client.post(f"/crons/{group}/entries", entry("one more")), "at most 1000 entries", 413)
    assert client.put(f"/crons/{group}/entries/7", entry("7", "@hourly")).status == 200
    assert len(shown(client, group)["entries"]) == 1_000
    assert client.delete(f"/crons/{group}").status == 204
    long = entry("long", job=JOB | {"payload": "x" * (4 << 20)})
    refused(client.put(f"/crons/{group}", {"entries": [long]}), "at most 4194304 bytes", 413)
    half = JOB | {"payload": "x" * 3_000_000}
    for name in ("a", "b"):
        assert client.post(f"/crons/{group}/entries", entry(name, job=half)).status == 201
    refused(
        client.post(f"/crons/{group}/entries", entry("c", job=half)), "at most 8388608 bytes together", 413
    )
    packed = client.get(f"/crons/{group}", accept=MSGPACK)
    assert [len(one["job"]["payload"]) for one in msgspec.msgpack.decode(packed.body)["entries"]] == [
        3_000_000
    ] * 2
    assert client.delete(f"/crons/{group}").status == 204


# -- entries one by one


def test_zizq_86_an_entry_is_added_once(client: Client, group: str) -> None:
    added = client.post(f"/crons/{group}/entries", entry(timezone="UTC"))
    assert (added.status, added.data["name"]) == (201, "digest")
    assert shown(client, group)["entries"] == [added.data]
    again = client.post(f"/crons/{group}/entries", entry(expression="@hourly"))
    refused(again, f"cron entry 'digest' already exists in group '{group}'", 409)
    assert shown(client, group)["entries"] == [added.data]


def test_zizq_86_an_entry_that_is_put_has_the_name_of_its_path(client: Client, group: str) -> None:
    made = client.put(f"/crons/{group}/entries/by%20path%2F*", entry("by body", timezone="UTC"))
    assert (made.status, made.data["name"]) == (200, "by path/*")
    again = client.put(f"/crons/{group}/entries/by%20path%2F*", entry("other", timezone="UTC"))
    assert again.data == made.data
    assert [one["name"] for one in shown(client, group)["entries"]] == ["by path/*"]
    assert client.delete(f"/crons/{group}/entries/by%20path%2F*").status == 204
    assert shown(client, group)["entries"] == [], "its group stays"
    refused(client.put(f"/crons/{group}/entries/{'n' * 513}", entry()), "512 bytes")


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_zizq_87_what_is_not_there_is_404(client: Client, group: str, method: str) -> None:
    data = {"paused": True} if method == "PATCH" else None
    refused(client.request(method, f"/crons/{group}", data=data), f"cron group '{group}' not found", 404)
    target = f"/crons/{group}/entries/e"
    refused(client.request(method, target, data=data), f"cron entry 'e' not found in group '{group}'", 404)
    put(client, group)
    refused(client.request(method, target, data=data), f"cron entry 'e' not found in group '{group}'", 404)
    packed = client.request(method, target, data=data, accept=MSGPACK)
    assert (packed.status, packed.content_type) == (404, MSGPACK)


def test_zizq_87_groups_are_listed_and_removed(fresh: Connect) -> None:
    client = fresh()
    assert client.get("/crons").data == {"crons": []}
    assert client.delete("/crons").data == {"deleted": 0}
    for name in ("b", "a%20b", "Z", "%C3%A9"):
        put(client, name, entry())
    assert client.get("/crons").data == {"crons": ["Z", "a b", "b", "é"]}
    removed = client.delete("/crons/a%20b")
    assert (removed.status, removed.body, removed.content_type) == (204, b"", None)
    assert client.delete("/crons/a%20b").status == 404
    assert client.delete("/crons").data == {"deleted": 3}
    assert client.get("/crons").data == {"crons": []}
    assert client.get("/v1/crons").data == {"crons": []}


# -- firing


def when_fired(client: Client, queue: str, count: int = 1) -> list[Any]:
    """Wait until a queue has got jobs."""
    return client.eventually(
        lambda: (jobs := client.jobs(queue=queue))[count - 1 :] and jobs, f"{count} jobs in {queue}"
    )


@pytest.mark.parametrize("pause", ["group", "entry"])
def test_zizq_84_what_is_paused_enqueues_nothing_and_does_not_catch_up(
    client: Client, group: str, queue: str, pause: str
) -> None:
    clock = f"{queue}-clock"
    put(client, f"{group}-clock", entry(expression=SECONDLY, job=JOB | {"queue": clock}))
    flags = {"paused": True} if pause == "entry" else {}
    paused = entry(expression=SECONDLY, job=JOB | {"queue": queue}, **flags)
    (before,) = put(client, group, paused, **({"paused": True} if pause == "group" else {}))["entries"]
    when_fired(client, clock, 3)
    during = client.get(f"/crons/{group}/entries/digest").data
    assert client.count(queue=queue) == 0
    assert "last_enqueue_at" not in during
    assert during["next_enqueue_at"] >= before["next_enqueue_at"] + 2_000
    target = f"/crons/{group}" + ("/entries/digest" if pause == "entry" else "")
    resumed_at = client.patch(target, {"paused": False}).data["resumed_at"]
    first = when_fired(client, queue)[0]
    assert first["ready_at"] >= resumed_at
    client.delete(f"/crons/{group}")
    client.delete(f"/crons/{group}-clock")
    # No more than one for each second since then.
    assert client.count(queue=queue) <= (now_ms() - resumed_at) // 1_000 + 1


@pytest.mark.file
def test_zizq_88_times_that_were_missed_are_one_job(fresh_server: Start, fresh: Connect) -> None:
    server = fresh_server()
    client = fresh(server)
    later = datetime.now(UTC) + timedelta(hours=12)
    put(client, "g", entry(expression=f"{later.minute} {later.hour} * * *", timezone="UTC"))
    next_at = shown(client, "g")["entries"][0]["next_enqueue_at"]
    server.kill()
    with closing(sqlite3.connect(server.root_dir / "anew.db")) as store, store:
        store.execute("UPDATE cron SET next_at = next_at - ?", (5 * 86_400_000,))
    before = now_ms()
    client = fresh(fresh_server(root_dir=server.root_dir))
    (job,) = when_fired(client, "mail")
    (after,) = shown(client, "g")["entries"]
    assert after["next_enqueue_at"] == next_at
    assert before <= after["last_enqueue_at"] == job["ready_at"] <= now_ms()
    assert client.count() == 1


def test_zizq_89_six_fields_fire_on_the_second(client: Client, group: str, queue: str) -> None:
    (made,) = put(client, group, entry(expression=SECONDLY, job=JOB | {"queue": queue, "priority": 3}))[
        "entries"
    ]
    assert made["next_enqueue_at"] % 1_000 == 0
    first, second = when_fired(client, queue, 2)[:2]
    assert first["ready_at"] >= made["next_enqueue_at"]
    assert second["ready_at"] // 1_000 > first["ready_at"] // 1_000
    assert (first["type"], first["priority"], first["payload"]) == ("send", 3, {"n": 1})
    assert "jid" not in first
    fired = client.get(f"/crons/{group}/entries/digest").data
    assert fired["last_enqueue_at"] >= second["ready_at"]
    client.delete(f"/crons/{group}")


@pytest.mark.parametrize(
    ("expression", "zone", "at"),
    [
        ("0 0 12 1 7 * 2050", "UTC", datetime(2050, 7, 1, 12, tzinfo=UTC)),
        ("0 0 12 1 7 * 2050", "America/New_York", datetime(2050, 7, 1, 16, tzinfo=UTC)),
        # On 27 March 2050 Berlin's clocks jump from 02:00 to 03:00, at 01:00 UTC; on 30 October back, at 01:00 UTC.
        ("0 30 2 27 3 * 2050", "Europe/Berlin", datetime(2050, 3, 27, 1, tzinfo=UTC)),
        ("0 30 2 30 10 * 2050", "Europe/Berlin", datetime(2050, 10, 30, 0, 30, tzinfo=UTC)),
    ],
)
def test_zizq_89_a_time_zone_moves_the_wall_clock_also_where_clocks_are_changed(
    client: Client, group: str, expression: str, zone: str, at: datetime
) -> None:
    (made,) = put(client, group, entry(expression=expression, timezone=zone))["entries"]
    assert made["next_enqueue_at"] == at.timestamp() * 1_000
    assert made["expression"] == expression


@pytest.mark.parametrize("scope", ["queued", "active", "exists", None])
def test_zizq_90_a_unique_template_does_not_pile_up_jobs(
    client: Client, group: str, queue: str, scope: str | None
) -> None:
    clock = f"{queue}-clock"
    unique = JOB | {"queue": queue, "unique_key": f"key of {queue}", "unique_while": scope}
    put(
        client,
        group,
        entry("unique", SECONDLY, job=unique),
        entry("clock", SECONDLY, job=JOB | {"queue": clock}),
    )
    first = when_fired(client, queue)[0]
    when_fired(client, clock, client.count(queue=clock) + 2)
    assert client.count(queue=queue) == 1
    assert (first["unique_key"], first["unique_while"]) == (f"key of {queue}", scope or "queued")
    assert "jid" not in first
    moved = client.get(f"/crons/{group}/entries/unique").data["last_enqueue_at"]
    assert moved > first["ready_at"], "a duplicate is silent, and the entry has fired"
    client.run_one(queue, client.succeed)
    when_fired(client, queue)
    client.delete(f"/crons/{group}")


def test_what_an_entry_has_enqueued_stays_when_it_goes(client: Client, group: str, queue: str) -> None:
    put(client, group, entry(expression=SECONDLY, job=JOB | {"queue": queue}))
    when_fired(client, queue)
    assert client.delete(f"/crons/{group}/entries/digest").status == 204
    assert client.count(queue=queue) >= 1
    client.delete(f"/crons/{group}")


# -- one store, several doors


def test_entries_of_other_doors_are_among_them_and_may_be_replaced(
    fresh_server: Start, fresh: Connect, tmp_path: Path
) -> None:
    config = tmp_path / "anew.toml"
    config.write_text(
        '[[fwp.cron]]\nschedule = "@yearly"\ntimezone = "UTC"\n'
        'job = {type = "Report", args = [1, "a"], queue = "slow", custom = {unique_for = 60}}\n'
    )
    client = fresh(fresh_server(config=config, fwp_port=0))
    ties = {"expires_at": 60_000, "limit": {"key": "k", "concurrency": 1}}
    own = {
        "name": "own",
        "schedule": "@daily",
        "timezone": "UTC",
        "job": JOB | {"ties": ties, "carried": {"a": "b"}},
    }
    assert client.put("/v1/crons/mine", {"entries": [own]}).status == 200
    assert client.get("/crons").data == {"crons": ["faktory", "mine"]}
    (theirs,) = shown(client, "faktory")["entries"]
    assert (theirs["name"], theirs["expression"], theirs["timezone"]) == ("Report @yearly", "@yearly", "UTC")
    job = theirs["job"]
    assert (job["type"], job["queue"], job["payload"]) == ("Report", "slow", [1, "a"])
    assert not job.keys() & {"ties", "unique_key", "jid", "carried"}
    before = shown(client, "mine")["entries"][0]
    assert before["job"] == JOB | {"priority": 32768}
    (after,) = put(client, "mine", entry("own", timezone="UTC", job=JOB | {"priority": 1}))["entries"]
    assert after == before | {"job": JOB | {"priority": 1}}, "its schedule stays"
    (listed,) = [one for one in client.get("/v1/crons").data["crons"] if one["group"] == "mine"]
    assert (listed["schedule"], listed["next_at"]) == ("@daily", before["next_enqueue_at"])
    client.patch("/crons/mine", {"paused": True})
    assert [one["paused"] for one in client.get("/v1/crons").data["crons"]] == [False, True]
    assert client.delete("/v1/crons/mine/own").status == 204
    assert shown(client, "mine")["entries"] == []
    assert client.delete("/v1/crons/faktory").data == {"removed": ["Report @yearly"]}
    assert client.get("/crons").data == {"crons": ["mine"]}


def test_a_server_that_names_no_entries_makes_no_group(fresh: Connect) -> None:
    assert fresh(fwp_port=0).get("/crons").data == {"crons": []}


@pytest.mark.file
def test_an_entry_whose_job_is_damaged_is_shown_all_the_same(fresh_server: Start, fresh: Connect) -> None:
    server = fresh_server()
    put(fresh(server), "g", entry("damaged"), entry("whole"))
    server.terminate()
    with closing(sqlite3.connect(server.root_dir / "anew.db")) as store, store:
        store.execute("UPDATE cron SET job = x'5bff' WHERE name = 'damaged'")
    client = fresh(fresh_server(root_dir=server.root_dir))
    damaged, whole = shown(client, "g")["entries"]
    unreadable = {"unreadable": "[\ufffd"}
    assert damaged["job"] == {"type": "", "queue": "", "priority": 32768, "payload": unreadable}
    assert whole["job"] == JOB | {"priority": 32768}
    packed = msgspec.msgpack.decode(client.get("/crons/g", accept=MSGPACK).body)
    assert packed == shown(client, "g")
    assert put(client, "g", entry("damaged"))["entries"][0]["job"] == JOB | {"priority": 32768}


def test_changes_of_crons_last_through_a_kill(fresh_server: Start, fresh: Connect) -> None:
    server = fresh_server()
    client = fresh(server)
    put(client, "kept", entry(), paused=True)
    put(client, "empty")
    put(client, "gone", entry())
    client.delete("/crons/gone")
    client.patch("/crons/kept/entries/digest", {"paused": True})
    before = shown(client, "kept")
    server.kill()
    client = fresh(fresh_server(root_dir=server.root_dir))
    assert client.get("/crons").data == {"crons": ["empty", "kept"]}
    assert shown(client, "kept") == before
