"""The jq filter of lists, counts, patches, deletes and redrives, over a real socket."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from .client import Client
from .command import anew, anew_json
from .server import ServerProcess
from .wire import request_bytes

FAR_MS = 4_102_444_800_000
BOMB = "def f: f; f"
SLOW = "[range(20000)] | length == 3"
"""Some 5 to 10 ms for each payload, far from the 100 ms at which it is refused."""


def filtered(path: str, text: str, **more: Any) -> str:
    parts = [f"{name}={value}" for name, value in more.items()]
    return f"{path}?" + "&".join([*parts, "filter=" + quote(text, safe="")])


def matching(client: Client, queue: str, text: str, **more: Any) -> list[Any]:
    """The payloads of the jobs that are listed."""
    response = client.get(filtered("/jobs", text, queue=queue, **more))
    assert response.status == 200, response.body
    return [job["payload"] for job in response.data["jobs"]]


def put(client: Client, queue: str, *payloads: Any, **fields: Any) -> list[str]:
    jobs = [{"type": "work", "queue": queue, "payload": payload} | fields for payload in payloads]
    response = client.post("/jobs/bulk", {"jobs": jobs})
    assert response.status == 201, response.body
    return [job["id"] for job in response.data["jobs"]]


def children(pid: int) -> list[int]:
    """The processes that a process has started and that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(parent) == pid and state != "Z":
                found.append(int(entry.name))
    return found


def test_zizq_70_a_filter_selects_by_payload(client: Client, queue: str) -> None:
    put(client, queue, {"user_id": 42}, {"user_id": 43}, [], None, "text", {"user_id": 42, "n": 1})
    assert matching(client, queue, ".user_id == 42") == [{"user_id": 42}, {"user_id": 42, "n": 1}]
    assert client.get(filtered("/jobs/count", ".user_id == 42", queue=queue)).data == {"count": 2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".a", [{"a": 1}, {"a": 0}]),
        (".a.b", []),
        ("empty", []),
        ("error", []),
        ("null, false", []),
        ("false, .a", [{"a": 1}, {"a": 0}]),
        (".", [{"a": 1}, {"a": 0}, {"a": None}, {"a": False}]),
        ('.a | tostring | test("^[0-9]$")', [{"a": 1}, {"a": 0}]),
        ("select(.a > 0)", [{"a": 1}]),
    ],
)
def test_zizq_70_any_true_output_matches_and_a_run_time_error_does_not(
    client: Client, queue: str, text: str, expected: list[Any]
) -> None:
    put(client, queue, {"a": 1}, {"a": 0}, {"a": None}, {"a": False})
    assert matching(client, queue, text) == expected


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/jobs"), ("GET", "/v1/jobs"), ("GET", "/jobs/count"), ("PATCH", "/jobs"),
                         ("DELETE", "/jobs"), ("POST", "/v1/jobs/retry")]
)  # fmt: skip
@pytest.mark.parametrize("text", ["", ".a ==", "now", "x" * 4097])
def test_zizq_70_what_does_not_compile_is_400_and_changes_nothing(
    client: Client, queue: str, method: str, path: str, text: str
) -> None:
    put(client, queue, 1)
    body = None if method in ("GET", "DELETE") else {}
    response = client.request(method, filtered(path, text, queue=queue), data=body)
    assert (response.status, response.data["code"]) == (400, "invalid_expression")
    assert response.error.startswith("invalid filter: ")
    assert client.count(queue=queue) == 1


def test_zizq_70_other_complaints_come_first(client: Client) -> None:
    assert client.get(filtered("/jobs", "", id="x")).error == 'invalid job ID: "x"'
    assert client.get(filtered("/jobs", "", limit="0")).error.startswith("limit must be")
    patch = client.patch(filtered("/jobs", ""), {"queue": None})
    assert (patch.status, patch.error) == (422, "queue cannot be null")
    patch = client.patch(filtered("/jobs", "", status="dead"), {})
    assert (patch.status, patch.error) == (422, "cannot patch jobs in Dead status")
    twice = client.get("/jobs?filter=.&filter=.")
    assert (twice.status, twice.data["code"]) == (400, "malformed_request")


def test_zizq_70_links_carry_the_filter_and_pages_meet(client: Client, queue: str) -> None:
    ids = put(client, queue, *({"n": n} for n in range(9)))
    text = '.n % 2 == 0 # "all" & more'
    page = client.get(filtered("/jobs", text, queue=queue, limit=2)).data
    assert page["pages"]["self"] == (
        f"/jobs?order=asc&limit=2&queue={queue}"
        "&filter=.n%20%25%202%20%3D%3D%200%20%23%20%22all%22%20%26%20more"
    )
    seen = []
    while True:
        seen.append([job["payload"]["n"] for job in page["jobs"]])
        following = page["pages"]["next"]
        if following is None:
            break
        page = client.get(following).data
    assert seen == [[0, 2], [4, 6], [8]]
    back = client.get(page["pages"]["prev"]).data
    assert [job["payload"]["n"] for job in back["jobs"]] == [6, 4]
    assert [job["id"] for job in back["jobs"]] == [ids[6], ids[4]]


def test_zizq_70_the_other_filters_hold_as_well(client: Client, queue: str) -> None:
    put(client, queue, {"a": 1}, {"a": 2}, priority=1)
    put(client, queue, {"a": 1}, type="other")
    assert matching(client, queue, ".a == 1", priority=1) == [{"a": 1}]
    assert client.get(filtered("/jobs/count", ".a == 1", queue=queue, type="other")).data == {"count": 1}
    assert matching(client, f"{queue},{queue}-2", ".a", limit=1, order="desc") == [{"a": 1}]


def test_zizq_70_patch_and_delete_reach_what_matches(client: Client, queue: str) -> None:
    ids = put(client, queue, *({"n": n} for n in range(250)))
    client.run_one(queue, lambda taken: client.fail(taken, message="no", kill=True))
    patched = client.patch(filtered("/jobs", ".n < 3", queue=queue), {"priority": 7})
    assert patched.data == {"patched": 2}  # the first one is dead
    assert [job["payload"]["n"] for job in client.jobs(queue=queue, priority="7")] == [1, 2]
    deleted = client.delete(filtered("/jobs", ".n % 2 == 1", queue=queue))
    assert deleted.data == {"deleted": 125}
    assert client.count(queue=queue) == 125
    assert client.get(f"/jobs/{ids[1]}").status == 404
    assert client.post(filtered("/v1/jobs/retry", ".n > 0", queue=queue), {}).data == {"retried": 0}
    assert client.post(filtered("/v1/jobs/retry", ".n == 0", queue=queue), {}).data == {"retried": 1}


def test_zizq_70_a_redrive_is_spread_over_those_that_match(client: Client, queue: str) -> None:
    put(client, queue, *({"n": n} for n in range(4)))
    for _ in range(4):
        client.run_one(queue, lambda taken: client.fail(taken, message="no", kill=True))
    retried = client.post(filtered("/v1/jobs/retry", ".n >= 2", queue=queue), {"spread": "10m"})
    assert retried.data == {"retried": 2}
    due = sorted(job["ready_at"] for job in client.jobs(queue=queue) if job["status"] != "dead")
    assert due[1] - due[0] == 300_000


def test_a_payload_of_any_length_is_looked_at(client: Client, queue: str) -> None:
    put(client, queue, {"text": "x" * 3_000_000, "n": 1}, {"text": "x" * 3_000, "n": 2}, {"n": 3})
    assert [payload["n"] for payload in matching(client, queue, ".n > 1")] == [2, 3]
    assert [payload["n"] for payload in matching(client, queue, ".text | length > 100000")] == [1]


@pytest.mark.parametrize("text", [BOMB, "[range(1e9)]", "[limit(1e9; repeat(1))]"])
def test_an_expression_that_takes_too_much_is_400(client: Client, queue: str, text: str) -> None:
    put(client, queue, 1)
    response = client.get(filtered("/jobs", text, queue=queue))
    assert (response.status, response.data["code"]) == (400, "expression_too_slow")
    assert response.error.startswith("the expression takes more than ")
    assert matching(client, queue, ". == 1") == [1]


def test_a_list_that_takes_long_ends_early_and_goes_on(client: Client, queue: str) -> None:
    put(client, queue, *range(4_000))  # 5 s are enough for a quarter of them, on a fast machine for half
    response = client.get(filtered("/jobs", f"({SLOW}) or . < 3 or . == 3999", queue=queue))
    assert response.status == 200, response.body
    page = response.data
    assert [job["payload"] for job in page["jobs"]] == [0, 1, 2]
    assert "filter=" in page["pages"]["next"]
    assert f"from={page['jobs'][-1]['id']}" not in page["pages"]["next"]


@pytest.mark.parametrize("path", ["/jobs/count", "/jobs", "PATCH"])
def test_a_search_ends_with_its_client(server: ServerProcess, client: Client, queue: str, path: str) -> None:
    """Else 18 that nobody waits for would keep out all others for half a minute."""
    put(client, queue, *range(2_000))
    method, body = ("PATCH", b"{}") if path == "PATCH" else ("GET", b"")
    target = filtered("/jobs" if path == "PATCH" else path, SLOW, queue=queue)
    wires = [client.wire() for _ in range(18)]
    for wire in wires:
        wire.send(request_bytes(method, target, headers=[("content-type", "application/json")], body=body))
    for wire in wires:
        wire.close()
    began = time.monotonic()
    client.eventually(
        lambda: client.get(filtered("/jobs/count", ". == 1", queue=queue)).status == 200,
        "a search is admitted",
    )
    assert time.monotonic() - began < 5


def test_the_command_line_has_the_filter(server: ServerProcess, client: Client, queue: str) -> None:
    put(client, queue, {"user_id": 42}, {"user_id": 43})
    listed = anew_json(server.address, "jobs", "list", "-q", queue, "--filter", ".user_id == 42")
    assert [job["payload"] for job in listed["jobs"]] == [{"user_id": 42}]
    counted = anew(server.address, "jobs", "list", "-q", queue, "--filter", ".user_id > 42", "--count")
    assert counted.stdout == "1\n"
    words = ("--where-queue", queue, "--where-filter", ".user_id == 42", "--priority", "5")
    assert anew_json(server.address, "jobs", "patch", *words) == {"patched": 1}
    assert client.count(queue=queue, priority="5") == 1
    deleted = anew_json(server.address, "jobs", "delete", "-q", queue, "--filter", ".user_id == 43", "--yes")
    assert deleted == {"deleted": 1}
    refused = anew(server.address, "jobs", "list", "-q", queue, "--filter", ".user_id ==")
    assert refused.returncode != 0
    assert "invalid filter: syntax error" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_killed_process_is_replaced_and_a_stopped_server_leaves_none(
    fresh_server: Callable[..., ServerProcess],
) -> None:
    server = fresh_server()
    client = Client(server.address)
    put(client, "q", 1, 2)
    assert children(server.pid) == []
    assert matching(client, "q", ". == 1") == [1]
    for pid in children(server.pid):
        os.kill(pid, signal.SIGKILL)
    assert matching(client, "q", ". == 2") == [2]
    (child,) = children(server.pid)
    client.close()
    assert server.terminate() == 0
    assert not Path(f"/proc/{child}").exists()


def test_a_server_stops_while_filters_run(fresh_server: Callable[..., ServerProcess]) -> None:
    server = fresh_server(drain_timeout="20s")
    client = Client(server.address)
    put(client, "q", *range(2_000))
    wires = []
    for path in ("/jobs/count", "/jobs", "/jobs/count", "/jobs"):
        wire = client.wire()
        wire.send(f"GET {filtered(path, SLOW, queue='q')} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        wires.append(wire)
    while len(children(server.pid)) < 2:
        assert client.get("/health").status == 200
    started = children(server.pid)
    client.close()
    server.process_signal(signal.SIGTERM)
    answers = [json.loads(wire.read_response().body) for wire in wires]
    for wire in wires:
        wire.close()
    assert {answer["code"] for answer in answers} == {"overloaded"}
    assert server.wait(10) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in started)
