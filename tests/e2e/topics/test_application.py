"""Topics in a program: on a file and over HTTP it says the same and hears the same; `anew deliver` delivers."""

from __future__ import annotations

import asyncio
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from anew import Anew, Message, Subscription
from anew.errors import BlockedAddress, Conflict, InvalidInput, NotFound, TooLarge
from anew.webhooks import Event, InvalidSignature, verify
from tests.e2e.server import START_TIMEOUT_S, ServerProcess, command, environment

POLICY = {"retry": {"schedule": [5, 10], "jitter": 0}}
LOCAL = {"ANEW_WEBHOOK_ALLOW_HTTP": "true", "ANEW_WEBHOOK_ALLOW_CIDRS": "127.0.0.1/32"}


@pytest.fixture(params=["file", "http", "memory"])
def app(
    request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_server: Callable[..., ServerProcess]
) -> Iterator[Anew]:
    monkeypatch.chdir(tmp_path)
    if request.param == "http":
        host, port = fresh_server(root_dir=tmp_path / "data", deliverers=0).address
        location = f"http://{host}:{port}"
    else:
        location = "jobs.db" if request.param == "file" else ":memory:"
    with Anew(location) as app:
        yield app


def test_publish_and_subscribe(app: Anew) -> None:
    orders = app.topic("orders").create(policy=POLICY, retention="1h")
    assert repr(orders) == "Topic('orders')"
    hook = app.subscribe(
        "orders", "https://shop.example/hook", name="shop", filter={"types": ["order.*"]}, ttl="1d"
    )
    assert (hook.topic, hook.name, hook.endpoint, hook.status) == (
        "orders", "shop", "https://shop.example/hook", "unconfirmed",
    )  # fmt: skip
    assert hook.id.startswith("sub_")
    assert hook.secret is not None
    assert hook.secret.startswith("whsec_")
    assert hook.secret not in repr(hook)
    again = app.subscribe("orders", "https://shop.example/hook")
    assert (again.id, again.secret) == (hook.id, None)
    jobs = app.subscribe("orders", queue="mail", filter={"attributes": {"region": ["eu"]}})
    assert (jobs.endpoint, jobs.status) == ("mail", "active")

    published = orders.publish("order.paid", {"id": 42}, attributes={"region": "eu"})
    assert (published.deliveries, published.expanding, published.repeated) == (1, False, False)
    assert published.id.startswith("msg_")
    assert orders.publish("order.paid", {"id": 43}, attributes={"region": "us"}).deliveries == 0
    many = orders.publish_many([Message("a"), Message("b", [1], {"region": "eu"}, delay="1h", ttl=90)])
    assert (len(many.ids), many.deliveries) == (2, 1)
    assert app.counts("mail") | {"ready": 1, "scheduled": 1} == app.counts("mail")


def test_a_subscription_is_steered(app: Anew) -> None:
    orders = app.topic("orders").create()
    hook = app.subscribe("orders", "https://shop.example/hook", name="shop")

    def status() -> str:
        (found,) = orders.subscriptions()
        assert (found, found.secret) == (replace(hook, status=found.status, secret=None), None)
        return found.status

    steps: list[tuple[Callable[[], object], str]] = [
        (hook.confirm, "active"),
        (lambda: hook.pause("stocktaking"), "paused"),
        (hook.resume, "active"),
        (lambda: hook.disable("moved"), "disabled"),
        (hook.enable, "active"),
    ]
    assert status() == "unconfirmed"
    for step, after in steps:
        step()
        assert status() == after
    with pytest.raises(Conflict, match="waits for no confirmation"):
        hook.confirm()
    hook.delete()
    assert list(orders.subscriptions()) == []
    with pytest.raises(NotFound):
        hook.pause()


def test_a_secret_is_rotated(app: Anew) -> None:
    app.topic("orders").create()
    hook = app.subscribe("orders", "https://shop.example/hook")
    second = hook.rotate(overlap="1h")
    assert second.startswith("whsec_")
    assert second != hook.secret
    third = "whsec_" + "A" * 44
    assert hook.rotate(third) == third
    with pytest.raises(InvalidInput, match="overlap"):
        hook.rotate(overlap="8d")
    with pytest.raises(InvalidInput, match="secret"):
        hook.rotate("whsec_AAAA")


def test_what_was_missed_is_sent_again(app: Anew) -> None:
    orders = app.topic("orders").create()
    jobs = app.subscribe("orders", queue="mail")
    jobs.disable()
    orders.publish("order.paid", {"id": 42})
    began = datetime.now(UTC) - timedelta(minutes=1)
    jobs.enable(replay_missed_since=began)
    jobs.replay("1m", include="all")
    for refused in (lambda: jobs.replay("15d"), lambda: jobs.replay("1d", include="none")):
        with pytest.raises(InvalidInput):
            refused()
    naive = datetime(2026, 1, 1)
    for field, ask in (
        ("since", lambda: jobs.replay(naive)),
        ("until", lambda: jobs.replay("1m", naive)),
        ("replay_missed_since", lambda: jobs.enable(replay_missed_since=naive)),
    ):
        with pytest.raises(InvalidInput, match=f"^{field}: .* time zone"):
            ask()


def test_many_subscriptions_are_walked_through(app: Anew) -> None:
    orders = app.topic("orders").create()
    made = [app.subscribe("orders", queue=f"q{number}").id for number in range(101)]
    assert [found.id for found in orders.subscriptions()] == made


def test_a_key_is_used_once(app: Anew) -> None:
    orders = app.topic("orders").create()
    first = orders.publish("order.paid", {"id": 42}, key="order 42")
    again = orders.publish("order.paid", {"id": 42}, key="order 42")
    assert (again.ids, again.repeated) == (first.ids, True)
    with pytest.raises(Conflict, match="Idempotency-Key"):
        orders.publish("order.paid", {"id": 43}, key="order 42")
    for wrong in ("a\r\nb", 7):
        with pytest.raises(InvalidInput, match="key"):
            orders.publish("order.paid", key=wrong)  # type: ignore[arg-type]


def test_publishing_beside_an_event_loop(app: Anew) -> None:
    orders = app.topic("orders").create()
    app.subscribe("orders", queue="mail")

    async def publish() -> int:
        one = await orders.apublish("order.paid", {"id": 42})
        more = await orders.apublish_many([Message("a"), Message("b")])
        return one.deliveries + more.deliveries

    assert asyncio.run(publish()) == 3


@pytest.mark.parametrize(
    ("ask", "kind", "field"),
    [
        (lambda app: app.topic("nowhere").publish("a"), NotFound, None),
        (lambda app: app.subscribe("nowhere", queue="q"), NotFound, None),
        (lambda app: app.topic("no/topic").create(), InvalidInput, "/topic"),
        (lambda app: app.topic("orders").publish("a b"), InvalidInput, "/type"),
        (lambda app: app.topic("orders").publish("a", attributes={"a": None}), InvalidInput, "/attributes/-"),
        (lambda app: app.topic("orders").publish("a", ttl=1), InvalidInput, "/ttl"),
        (lambda app: app.topic("orders").publish("a", "x" * 300_000), TooLarge, ""),
        (lambda app: app.topic("orders").publish_many([]), InvalidInput, "/messages"),
        (lambda app: app.topic("orders").publish("a", object()), InvalidInput, "data"),
        (lambda app: app.topic("orders").publish("a", [{"a": float("nan")}]), InvalidInput, "data"),
        (lambda app: app.topic("orders").create(policy={"retry": {"jitter": 2}}), InvalidInput,
         "/delivery_policy/retry/jitter"),
        (lambda app: app.topic("orders").create(retention="1s"), InvalidInput, "/retention"),
        (lambda app: app.subscribe("orders"), InvalidInput, "url"),
        (lambda app: app.subscribe("orders", "https://a.example", queue="q"), InvalidInput, "url"),
        (lambda app: app.subscribe("orders", "http://a.example"), InvalidInput, "/endpoint/url"),
        (lambda app: app.subscribe("orders", "https://127.0.0.1/"), BlockedAddress, "/endpoint/url"),
        (lambda app: app.subscribe("orders", queue="$deliveries"), InvalidInput, "/endpoint/queue"),
        (lambda app: app.subscribe("orders", "https://a.example", secret="whsec_AAAA"), InvalidInput, "/secret"),
        (lambda app: app.subscribe("orders", "https://a.example", filter={"x": 1}), InvalidInput, "/filter/x"),
        (lambda app: app.subscribe("locked", "https://a.example", policy=POLICY), Conflict, None),
    ],
)  # fmt: skip
def test_what_is_refused(
    app: Anew, ask: Callable[[Anew], object], kind: type[Exception], field: str | None
) -> None:
    app.topic("orders").create()
    app.topic("locked").create(policy=POLICY, lock_policy=True)
    with pytest.raises(kind) as refused:
        ask(app)
    assert type(refused.value) is kind
    if isinstance(refused.value, InvalidInput):
        assert refused.value.field.lstrip("/") == (field or "").lstrip("/")


# -- delivered


@contextmanager
def receiving(secrets: queue.SimpleQueue[str]) -> Iterator[tuple[str, queue.SimpleQueue[Event | Exception]]]:
    """A receiver as docs/webhooks.md has it, without a framework; it waits for its secret."""
    events: queue.SimpleQueue[Event | Exception] = queue.SimpleQueue()
    known: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            if not known:
                known.append(secrets.get(timeout=START_TIMEOUT_S))
            body = self.rfile.read(int(self.headers["content-length"]))
            try:
                event = verify(known[0], self.headers, body)
            except InvalidSignature as error:
                events.put(error)
                self.send_error(401)
                return
            events.put(event)
            answer = json.dumps({"challenge": event.challenge}).encode() if event.challenge else b""
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", events
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_deliverer_delivers_what_programs_publish_on_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in LOCAL.items():
        monkeypatch.setenv(name, value)
    secrets: queue.SimpleQueue[str] = queue.SimpleQueue()
    deliverer = subprocess.Popen(
        [*command(), "deliver", "--root-dir", "jobs.db"], env=environment() | LOCAL, cwd=tmp_path
    )
    try:
        with receiving(secrets) as (url, events), Anew("jobs.db") as app:
            orders = app.topic("orders").create()
            hook: Subscription = app.subscribe("orders", url)
            assert hook.secret is not None
            secrets.put(hook.secret)
            asked = events.get(timeout=START_TIMEOUT_S)
            assert isinstance(asked, Event)
            assert asked.challenge
            # It is confirmed once the answer is settled; until then messages go to nobody.
            for number in range(10_000):
                if orders.publish("order.paid", {"id": number}).deliveries:
                    break
            event = events.get(timeout=START_TIMEOUT_S)
            assert isinstance(event, Event)
            assert (event.type, event.data, event.topic, event.attempt) == (
                "order.paid", {"id": number}, "orders", 1,
            )  # fmt: skip
        assert (tmp_path / "jobs.db-webhooks.key").stat().st_mode & 0o777 == 0o600
    finally:
        deliverer.terminate()
        assert deliverer.wait(START_TIMEOUT_S) == 0


def test_a_program_publishes_without_other_packages(tmp_path: Path) -> None:
    with Anew(tmp_path / "jobs.db") as app:
        app.topic("orders").create()
        app.subscribe("orders", "https://shop.example/hook")
        app.subscribe("orders", queue="mail")
    code = f"""
import sys
for name in ("aiohttp", "cryptography", "idna"):
    sys.modules[name] = None
from anew import Anew
from anew.errors import InvalidConfig
with Anew({str(tmp_path / "jobs.db")!r}) as app:
    print(app.topic("orders").publish("order.paid", {{"id": 42}}).deliveries)
    try:
        app.subscribe("orders", queue="other")
    except InvalidConfig as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == [
        "1", "the keys of subscriptions need more packages: pip install 'anew[webhooks]'",
    ]  # fmt: skip


def test_a_test_of_an_application_sees_what_a_queue_gets() -> None:
    app = Anew("nowhere.db")
    ran: list[dict[str, Any]] = []

    @app.task(name="order.paid", queue="mail")
    def paid(type: str, timestamp: str, data: dict[str, Any]) -> None:
        ran.append(data)

    with app.test() as test:
        app.topic("orders").create()
        app.subscribe("orders", queue="mail")
        app.topic("orders").publish("order.paid", {"id": 42})
        test.drain().check()
    assert ran == [{"id": 42}]
