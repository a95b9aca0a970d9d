"""Two deliverers of one server, real sockets, a real server of names.

Numbers are the checklist's of the notification specification, section 5.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import standardwebhooks

from tests.e2e.client import Client, now_ms
from tests.e2e.server import ServerProcess
from tests.waiting import until

from .receivers import Line, Received, Receiver, answers, is_silent, script
from .test_deliverers import deliverers

HERE = {"webhook_confirmation": "off", "webhook_allow_http": True, "webhook_allow_cidrs": "127.0.0.1/32"}
STEADY = {"breaker_failures": None, "disable_after": None}


@contextmanager
def serving(folder: Path, **flags: Any) -> Iterator[tuple[ServerProcess, Client]]:
    """A server that delivers to this machine, and a connection to it."""
    server = ServerProcess(folder / "data", **{**HERE, **flags})
    client = Client(server.address)
    try:
        yield server, client
    finally:
        client.close()
        server.close()


def call(client: Client, method: str, path: str, data: Any = None, status: int = 200) -> Any:
    """Ask, and insist on an answer's status."""
    answer = client.request(method, path, data=data)
    assert answer.status == status, answer.body
    return answer.data if answer.body else None


def subscribe(client: Client, url: str, **document: Any) -> dict[str, Any]:
    """Have a topic with a subscription."""
    client.request("PUT", "/v1/topics/orders")
    document["endpoint"] = {"type": "webhook", "url": url}
    made: dict[str, Any] = call(client, "POST", "/v1/topics/orders/subscriptions", document, 201)
    return made


def publish(client: Client, count: int = 1, data: object = None) -> None:
    """Publish so many messages."""
    messages = [{"type": "order.paid", "data": data} for _ in range(count)]
    call(client, "POST", "/v1/topics/orders/messages", {"messages": messages}, 202)


def delivered(client: Client, count: int) -> bool:
    """Whether so many deliveries have come to their good end."""
    found = call(client, "GET", "/v1/deliveries?status=delivered&limit=100")["deliveries"]
    return len(found) == count


def attempts(client: Client) -> list[dict[str, Any]]:
    """All attempts of all deliveries."""
    found = call(client, "GET", "/v1/deliveries?limit=100")["deliveries"]
    pages = (call(client, "GET", f"/v1/deliveries/{one['id']}/attempts?limit=100") for one in found)
    return [attempt for page in pages for attempt in page["attempts"]]


def test_notifications_02_a_hundred_endpoints_that_never_answer_delay_no_other(tmp_path: Path) -> None:
    async def behave(line: Line, request: Received) -> None:
        await (answers(200) if request.target == "/hook/well" else is_silent())(line, request)

    with serving(tmp_path) as (_, client), Receiver(behave) as receiver:
        for number in range(100):
            subscribe(client, f"{receiver.url}/{number}")
        publish(client)
        receiver.wait_for(100)
        call(client, "PUT", "/v1/topics/other", status=201)
        well = {"endpoint": {"type": "webhook", "url": f"{receiver.url}/well"}}
        call(client, "POST", "/v1/topics/other/subscriptions", well, 201)
        asked_at = now_ms()
        call(client, "POST", "/v1/topics/other/messages", {"type": "order.paid", "data": 1}, 202)
        until(lambda: delivered(client, 1))
        (delivery,) = call(client, "GET", "/v1/deliveries?topic=other")["deliveries"]
        (attempt,) = call(client, "GET", f"/v1/deliveries/{delivery['id']}/attempts")["attempts"]
        assert 0 <= millis(attempt["started_at"]) - asked_at < 2_000


def test_notifications_01_a_kill_between_an_attempt_and_its_retry_moves_the_retry_not(tmp_path: Path) -> None:
    policy = {"retry": {"schedule": [2], "jitter": 0}, "health": STEADY}
    with Receiver(script(answers(503), answers(200))) as receiver:
        with serving(tmp_path) as (server, client):
            subscribe(client, receiver.url, delivery_policy=policy)
            publish(client)
            until(lambda: waiting(client))
            next_at = waiting(client)[0]["next_attempt_at"]
            server.kill()
        with serving(tmp_path) as (_, client):
            assert [one["next_attempt_at"] for one in waiting(client)] == [next_at]
            until(lambda: delivered(client, 1))
            first, second = sorted(attempts(client), key=lambda one: one["number"])
    assert millis(next_at) - millis(first["started_at"]) >= 2_000
    assert 0 <= millis(second["started_at"]) - millis(next_at) < 1_500


def waiting(client: Client) -> list[dict[str, Any]]:
    """The deliveries that have failed and wait for their retry."""
    found = call(client, "GET", "/v1/deliveries?status=scheduled")["deliveries"]
    return [one for one in found if one["attempts"] == 1]


def test_notifications_35_the_reference_library_accepts_a_live_delivery(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, client), Receiver(answers(200)) as receiver:
        secret = subscribe(client, receiver.url)["secret"]
        publish(client, data={"name": "Zoë", "n": 1.5})
        receiver.wait_for(1)
        (request,) = receiver.requests
        names = ("webhook-id", "webhook-timestamp", "webhook-signature")
        headers = {name: request.header(name) for name in names}
        library = standardwebhooks.Webhook(secret)
        assert library.verify(request.body.decode(), headers)["data"] == {"name": "Zoë", "n": 1.5}
        with pytest.raises(standardwebhooks.WebhookVerificationError):
            library.verify(request.body.decode().replace("1.5", "2.5"), headers)


def test_notifications_49_an_endpoint_never_sees_more_requests_at_one_time_than_it_may(
    tmp_path: Path,
) -> None:
    go_on = threading.Semaphore(0)
    running, seen = 0, []

    async def behave(line: Line, request: Received) -> None:
        nonlocal running
        running += 1
        seen.append(running)
        await asyncio.get_running_loop().run_in_executor(None, go_on.acquire)
        running -= 1
        await answers(200)(line, request)

    with ExitStack() as stack:
        server, client = stack.enter_context(serving(tmp_path, deliverers=2))
        receiver = stack.enter_context(Receiver(behave))
        stack.callback(go_on.release, 20)
        policy = {"throttle": {"max_in_flight": 2}, "health": STEADY}
        subscribe(client, receiver.url, delivery_policy=policy)
        until(lambda: len(deliverers(server)) == 2)
        publish(client, 12)
        for done in range(11):
            receiver.wait_for(min(done + 2, 12))
            go_on.release()
        go_on.release()
        until(lambda: delivered(client, 12))
        assert max(seen) == 2


def test_notifications_48_no_more_start_in_any_span_than_the_rate_allows(tmp_path: Path) -> None:
    with serving(tmp_path, deliverers=2) as (server, client), Receiver(answers(200)) as receiver:
        policy = {"throttle": {"max_per_second": 5, "burst": 2}, "health": STEADY}
        subscribe(client, receiver.url, delivery_policy=policy)
        until(lambda: len(deliverers(server)) == 2)
        publish(client, 12)
        until(lambda: delivered(client, 12))
        starts = sorted(one["started_at"] for one in attempts(client))
        assert len(starts) == 12
        # Five a second, and two at once after a quiet time: from the i-th to the j-th pass (j - i - 1) fifths of a second.
        early = [
            (i, j)
            for i in range(12)
            for j in range(i + 2, 12)
            if millis(starts[j]) - millis(starts[i]) < (j - i - 1) * 200 - 1
        ]
        assert early == []


def millis(instant: Any) -> int:
    """Read an instant of an answer, ms."""
    return int(datetime.fromisoformat(instant).timestamp() * 1_000)


def test_notifications_36_every_request_of_a_delivery_has_its_id_and_a_time_of_its_own(
    tmp_path: Path,
) -> None:
    behaviour = script(answers(503), answers(200), answers(200))
    with serving(tmp_path) as (_, client), Receiver(behaviour) as receiver:
        policy = {"retry": {"schedule": [1], "jitter": 0}, "health": STEADY}
        subscribe(client, receiver.url, delivery_policy=policy)
        publish(client)
        until(lambda: delivered(client, 1))
        (delivery,) = call(client, "GET", "/v1/deliveries")["deliveries"]
        call(client, "POST", f"/v1/deliveries/{delivery['id']}/redeliver", {"force": True}, 202)
        receiver.wait_for(3)
        until(lambda: len(attempts(client)) == 3 and delivered(client, 1))
        started = [millis(one["started_at"]) // 1_000 for one in attempts(client)]
        stamps = [int(one.header("webhook-timestamp")) for one in receiver.requests]
        assert len({one.header("webhook-id") for one in receiver.requests}) == 1
        assert stamps[1] > stamps[0]  # a second later, as the schedule says
        assert all(0 <= stamp - begun <= 2 for stamp, begun in zip(stamps, sorted(started), strict=True))


def test_notifications_38_no_secret_and_no_payload_is_told_to_anybody(tmp_path: Path) -> None:
    """Log lines of server and deliverer at their most talkative, lists, single answers, attempts and metrics."""
    payload = "a payload that nobody else may see"
    behaviour = script(answers(503), answers(200), answers(200))
    with serving(tmp_path, log_level="trace") as (server, client), Receiver(behaviour) as receiver:
        policy = {"retry": {"schedule": [0.1], "jitter": 0}, "health": STEADY}
        hmac = subscribe(client, receiver.url, delivery_policy=policy, name="one")
        pair = subscribe(client, receiver.url + "/2", signing="ed25519", name="two")
        rotated = call(client, "POST", f"/v1/subscriptions/{hmac['id']}/secret/rotate", {"overlap": 60})
        publish(client, data=payload)
        until(lambda: delivered(client, 2))
        secrets = {
            text.partition("_")[2]
            for answer in (hmac, pair, rotated)
            for text in texts_of(answer)
            if text.startswith(("whsec_", "whsk_"))
        }
        assert len(secrets) >= 2
        told = [
            client.request("GET", path).body.decode()
            for path in (
                "/metrics", "/v1/topics", "/v1/topics/orders", "/v1/topics/orders/subscriptions", "/v1/deliveries",
                f"/v1/subscriptions/{hmac['id']}", f"/v1/subscriptions/{pair['id']}", "/jobs?limit=100",
            )
        ]  # fmt: skip
        told.append(json.dumps(attempts(client)))
        assert server.terminate() == 0
        told.extend(server.output)
        assert any('"logger":"anew.topics' in line or "deliver" in line for line in server.output)
        assert [line for line in told if any(secret in line for secret in secrets)] == []
        assert [line for line in told if payload in line] == []


def texts_of(value: Any) -> list[str]:
    """All texts in a JSON document."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inner for text in texts_of(one)]


# -- a server of names that changes its mind


class Names:
    """Answers questions of the DNS on a loopback address, from lists of addresses that are used up to their last.

    Args:
        answers: Name -> answers in turn, each a list of addresses.
    """

    def __init__(self, answers: dict[str, list[list[str]]]) -> None:
        self.answers = answers
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.host = f"127.{os.getpid() % 200 + 1}.{os.getpid() // 200 % 200 + 1}.53"
        self._socket.bind((self.host, 53))
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Names:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.sendto(b"", (self.host, 53))
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        while True:
            question, sender = self._socket.recvfrom(512)
            if not question:
                return
            self._socket.sendto(self._answer(question), sender)

    def _answer(self, question: bytes) -> bytes:
        labels, at = [], 12
        while length := question[at]:
            labels.append(question[at + 1 : at + 1 + length].decode())
            at += length + 1
        (kind,) = struct.unpack(">H", question[at + 1 : at + 3])
        family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
        turns = self.answers.get(".".join(labels), [[]])
        found = [one for one in turns[0] if family == (socket.AF_INET6 if ":" in one else socket.AF_INET)]
        if family == socket.AF_INET6 and len(turns) > 1:  # it is asked after the other kind
            del turns[0]
        records = b"".join(
            struct.pack(">HHHIH", 0xC00C, kind, 1, 0, len(packed)) + packed
            for packed in (socket.inet_pton(family, one) for one in found if family is not None)
        )
        return (
            question[:2]
            + struct.pack(">HHHHH", 0x8180, 1, len(found), 0, 0)
            + question[12 : at + 5]
            + records
        )


def may_have_own_names() -> bool:
    """Whether this process may give a child a resolv.conf of its own, and serve at port 53."""
    mounting = ["unshare", "--mount", "mount", "--bind", "/dev/null", "/etc/resolv.conf"]
    return (
        shutil.which("unshare") is not None and subprocess.run(mounting, capture_output=True).returncode == 0
    )


@pytest.mark.skipif(not may_have_own_names(), reason="only root may have a server of names of its own")
def test_notifications_44_a_name_that_leads_inward_is_blocked_when_it_is_sent_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = ["93.184.216.34"]
    inward = [["127.0.0.1"], ["169.254.169.254"], ["::ffff:127.0.0.1"], ["10.0.0.7"], [*public, "127.0.0.1"]]
    names = {f"turns{number}.test": [addresses] for number, addresses in enumerate(inward)}
    (tmp_path / "resolv.conf").write_text("")
    with Names(names) as served, Receiver(answers(200)) as receiver:
        (tmp_path / "resolv.conf").write_text(f"nameserver {served.host}\noptions single-request timeout:5\n")
        mounted = (
            f'mount --bind {tmp_path}/resolv.conf /etc/resolv.conf && exec {sys.executable} -m anew "$@"'
        )
        monkeypatch.setenv("ANEW_TEST_SERVER", f"unshare --mount sh -c '{mounted}' anew")
        with serving(tmp_path, webhook_allow_cidrs=None) as (_, client):
            for name in names:
                subscribe(client, f"http://{name}:{receiver.port}/", name=name)
            publish(client)
            until(lambda: dead_reasons(client) == ["blocked_address"] * len(inward))
        assert receiver.lines == []


def dead_reasons(client: Client) -> list[str]:
    """Why deliveries are dead."""
    dead = call(client, "GET", "/v1/deliveries?status=dead&limit=100")["deliveries"]
    return [one["dead_reason"] for one in dead]
