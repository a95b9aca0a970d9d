"""The dashboard's pages of topics: what they show, what their forms do, and what they never show."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from anew.topics.reading import RECENT
from anew.web.dashboard import webhooks
from tests.e2e.client import Client
from tests.e2e.server import ServerProcess
from tests.e2e.test_dashboard import NASTY, page, send, text_of
from tests.waiting import until

from .receivers import Receiver, answers, script
from .test_live import HERE, call, delivered, publish, subscribe

STEADY = {"breaker_failures": None, "disable_after": None}


@pytest.fixture(scope="module")
def topics_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that delivers nothing: things stay as they were made."""
    server = ServerProcess(tmp_path_factory.mktemp("topics"), **HERE, deliverers=0)
    yield server
    server.close()
    assert not server.new_complaints()


@pytest.fixture
def client(topics_server: ServerProcess) -> Iterator[Client]:
    """A client of it."""
    client = Client(topics_server.address)
    yield client
    client.close()


@pytest.fixture
def topic(client: Client, queue: str) -> str:
    """The name of a topic that no other test uses."""
    assert client.put(f"/v1/topics/{queue}", {}).status == 201
    return queue


def subscribed(client: Client, topic: str, url: str = "https://93.184.216.34/hook", **document: Any) -> str:
    """A subscription's id."""
    document["endpoint"] = {"type": "webhook", "url": url}
    return str(call(client, "POST", f"/v1/topics/{topic}/subscriptions", document, 201)["id"])


def status_of(client: Client, subscription: str) -> str:
    return str(call(client, "GET", f"/v1/subscriptions/{subscription}")["status"])


def test_topics_are_listed_page_by_page(fresh_server: Any, fresh: Any) -> None:
    client = fresh(fresh_server(**HERE))
    assert "There are no topics yet." in text_of(page(client, "/ui/webhooks"))
    for n in range(webhooks.TOPICS + 1):
        client.put(f"/v1/topics/t{n:03}", {})
    told = page(client, "/ui/webhooks")
    assert len(re.findall(r'href="/ui/webhooks/t\d+"', told)) == webhooks.TOPICS
    (following,) = re.findall(r'href="([^"]+)">Next page', told)
    told = page(client, html.unescape(following))
    assert re.findall(r'href="/ui/webhooks/(t\d+)"', told) == [f"t{webhooks.TOPICS:03}"]
    assert "First page" in told


def test_a_topic_says_its_policy_in_words(client: Client, topic: str) -> None:
    retry = {
        "no_delay_retries": 3,
        "min_delay_retries": 4,
        "min_delay": 5,
        "backoff_retries": 2,
        "max_delay": 60,
    }
    client.put(f"/v1/topics/{topic}", {"delivery_policy": {"retry": retry}, "retention": 3600})
    markup = page(client, f"/ui/webhooks/{topic}")
    told = text_of(markup)
    assert "immediate: 3 retries at once" in told
    assert "pre-backoff: 4 retries 5 s after each failure" in told
    assert "backoff: 2 retries after 5 s and 1 min" in told
    # 4 times 5 s, 5 s and 60 s.
    assert "10 attempts over 1 min 25 s, each wait up to 10 % shorter or longer" in told
    assert "Messages are kept for 1 h" in told
    assert "retry: topic, throttle: default" in told
    placed = client.get(f"/ui/webhooks/{topic}", headers=[("x-script-name", "/ops")]).body.decode()
    links = re.findall(r'\b(?:href|src|action)="([^"]*)"', placed)
    assert [link for link in links if not link.startswith(("/ops/", "#"))] == []
    (lab,) = re.findall(r'href="(/lab\?[^"]+)"', markup)
    assert client.get(html.unescape(lab)).status == 200


def test_subscriptions_are_listed_page_by_page(client: Client, topic: str) -> None:
    for n in range(webhooks.SUBSCRIPTIONS + 1):
        subscribed(client, topic, f"https://93.184.216.34/{n:03}")
    told = page(client, f"/ui/webhooks/{topic}")
    assert re.findall(r"34/(\d+)</a>", told) == [f"{n:03}" for n in range(webhooks.SUBSCRIPTIONS)]
    (following,) = re.findall(r'href="([^"]+)">Next page', told)
    assert re.findall(r"34/(\d+)</a>", page(client, following)) == [f"{webhooks.SUBSCRIPTIONS:03}"]


def test_a_subscription_shows_what_it_is_and_never_its_secret(client: Client, topic: str) -> None:
    request = {"headers": {"X-Key": "do-not-tell"}}
    made = call(
        client,
        "POST",
        f"/v1/topics/{topic}/subscriptions",
        {
            "endpoint": {"type": "webhook", "url": "https://93.184.216.34/hook"},
            "name": "shop",
            "filter": {"types": ["order.*"]},
            "delivery_policy": {"request": request, "throttle": {"max_per_second": 2}},
        },
        201,
    )
    markup = page(client, f"/ui/subscriptions/{made['id']}")
    told = text_of(markup)
    assert "shop active a subscription of" in told
    assert "https://93.184.216.34/hook" in told
    assert "8 at one time, 2 a second" in told
    assert "X-Key" in told
    assert '"order.*"' in told
    assert "do-not-tell" not in markup
    assert made["secret"] not in markup
    assert "whsec_" not in markup


def test_a_subscription_is_paused_resumed_disabled_and_enabled(client: Client, topic: str) -> None:
    id_ = subscribed(client, topic)
    for action, status, said in (
        ("pause", "paused", "Paused."),
        ("resume", "active", "Resumed."),
        ("disable", "disabled", "Disabled."),
        ("enable", "active", "Enabled."),
    ):
        assert f"/ui/subscriptions/{id_}/{action}" in page(client, f"/ui/subscriptions/{id_}")
        response = send(client, f"/ui/subscriptions/{id_}/{action}")
        location = f"/ui/subscriptions/{id_}?done={action}"
        assert (response.status, response.header("location")) == (303, location)
        assert status_of(client, id_) == status
        assert said in page(client, location)


def test_a_form_that_does_not_fit_changes_nothing(client: Client, topic: str) -> None:
    id_ = subscribed(client, topic)
    assert send(client, f"/ui/subscriptions/{id_}/enable").status == 303  # it is active already
    assert send(client, f"/ui/subscriptions/{id_}/ask").status == 409
    assert send(client, f"/ui/subscriptions/{id_}/pause", surprise="1").status == 400
    response = send(client, f"/ui/subscriptions/{id_}/replay", since="1y", include="failed")
    assert response.status == 400
    assert "expected 1h, 1d, 3d, 13d" in html.unescape(response.body.decode())
    assert send(client, f"/ui/subscriptions/{id_}/replay", since="1d", include="some").status == 400
    assert send(client, f"/ui/subscriptions/{id_}/pause", [("origin", "https://evil.example")]).status == 403
    assert status_of(client, id_) == "active"


def test_what_is_not_there_gets_a_page_that_says_so(client: Client, topic: str) -> None:
    id_ = subscribed(client, topic)
    for path in (
        "/ui/webhooks/nothing",
        "/ui/subscriptions/sub_nothing",
        f"/ui/subscriptions/{id_[:-1]}f",
        f"/ui/subscriptions/{id_}?before=dlv_nothing",
        f"/ui/deliveries/{id_}",
        f"/ui/deliveries/dlv_{id_.removeprefix('sub_')}",
    ):
        assert "Not found" in text_of(page(client, path, status=404)), path
    assert "expected scheduled, ready" in text_of(
        page(client, f"/ui/subscriptions/{id_}?status=x", status=400)
    )


def test_deliveries_come_the_newest_first_by_state_and_page_by_page(client: Client, topic: str) -> None:
    id_ = subscribed(client, topic)
    most = webhooks.DELIVERIES
    for n in range(most + 1):
        call(client, "POST", f"/v1/topics/{topic}/messages", {"type": f"n.{n:03}", "data": None}, 202)
    told = page(client, f"/ui/subscriptions/{id_}")
    types = [f"n.{n:03}" for n in range(most, -1, -1)]
    assert re.findall(r"<td>(n\.\d+)</td>", told) == types[:most]
    (following,) = re.findall(r'href="([^"]+)">Next page', told)
    last = page(client, html.unescape(following))
    assert re.findall(r"<td>(n\.\d+)</td>", last) == types[most:]
    assert "First page" in last
    assert "Next page" not in last
    # Eight may be sent at one time.
    assert (
        re.findall(r"<td>(n\.\d+)</td>", page(client, f"/ui/subscriptions/{id_}?status=ready")) == types[-8:]
    )
    assert "There are none." in page(client, f"/ui/subscriptions/{id_}?status=dead")
    # The ready ones are older than those that the topic's page counts.
    assert f"{RECENT} scheduled" in text_of(page(client, f"/ui/webhooks/{topic}"))


def test_a_delivery_shows_its_message_and_is_called_off(client: Client, topic: str) -> None:
    id_ = subscribed(client, topic)
    message = {"type": "order.paid", "data": {"id": 42}, "attributes": {"region": "eu"}}
    call(client, "POST", f"/v1/topics/{topic}/messages", message, 202)
    (delivery,) = re.findall(r'href="(/ui/deliveries/dlv_[^"]+)"', page(client, f"/ui/subscriptions/{id_}"))
    told = text_of(page(client, delivery))
    assert '"id": 42' in told
    assert '"region": "eu"' in told
    assert "Made by a publication" in told
    assert send(client, f"{delivery}/stop").header("location") == f"{delivery}?done=stop"
    told = text_of(page(client, f"{delivery}?done=stop"))
    assert "The delivery is cancelled." in told
    assert send(client, f"{delivery}/stop").status == 409
    assert send(client, f"{delivery}/send").status == 303


def test_a_question_does_not_tell_its_token(fresh_server: Any, fresh: Any, tmp_path: Path) -> None:
    asking = {**HERE, "webhook_confirmation": "required"}
    client = fresh(fresh_server(root_dir=tmp_path, **asking, deliverers=0))
    client.put("/v1/topics/orders", {})
    id_ = subscribed(client, "orders")
    told = page(client, f"/ui/subscriptions/{id_}")
    assert "unconfirmed" in text_of(told)
    (delivery,) = re.findall(r'href="(/ui/deliveries/dlv_[^"]+)"', told)
    assert "Its token is not shown." in page(client, delivery)
    assert (
        send(client, f"/ui/subscriptions/{id_}/ask").header("location") == f"/ui/subscriptions/{id_}?done=ask"
    )
    assert len(re.findall(r'href="/ui/deliveries/', page(client, f"/ui/subscriptions/{id_}"))) == 2


def test_a_queue_that_is_subscribed_has_no_delivery_policy(client: Client, topic: str) -> None:
    body = {"endpoint": {"type": "queue", "queue": topic}, "name": "to a queue"}
    id_ = call(client, "POST", f"/v1/topics/{topic}/subscriptions", body, 201)["id"]
    told = text_of(page(client, f"/ui/subscriptions/{id_}"))
    assert f"queue {topic}" in told
    assert "Delivery policy" not in told


def test_names_and_texts_of_topics_are_shown_and_never_run(client: Client, topic: str) -> None:
    id_ = subscribed(client, topic, name=NASTY, filter={"types": ["a"], "attributes": {NASTY: [NASTY]}})
    client.post(f"/v1/subscriptions/{id_}/pause", {"reason": NASTY})
    for target in (f"/ui/webhooks/{topic}", f"/ui/subscriptions/{id_}"):
        told = page(client, target)
        assert "<img" not in told
        assert NASTY in html.unescape(told), target


def test_the_topic_of_events_has_an_address(client: Client) -> None:
    client.put("/v1/topics/$events", {})
    assert f"/ui/webhooks/{quote('$events')}" in page(client, "/ui/webhooks")
    assert "Topic $events" in text_of(page(client, f"/ui/webhooks/{quote('$events')}"))


def test_what_an_endpoint_answers_is_seen_and_what_failed_is_sent_again(tmp_path: Path) -> None:
    """With a real endpoint: it fails, its delivery dies, and goes through once more from the page."""
    server = ServerProcess(tmp_path, **HERE)
    client = Client(server.address)
    try:
        with Receiver(script(answers(503), answers(200), answers(200))) as receiver:
            policy = {"retry": {"schedule": []}, "health": STEADY}
            id_ = subscribe(client, receiver.url, delivery_policy=policy)["id"]
            publish(client)
            until(lambda: "1 dead" in text_of(page(client, "/ui/webhooks/orders")))
            told = page(client, f"/ui/subscriptions/{id_}?status=dead")
            assert "failed for good: 503" in text_of(told)
            assert "1 failure in a row" in text_of(told)
            (delivery,) = re.findall(r'href="(/ui/deliveries/dlv_[^"]+)"', told)
            told = text_of(page(client, delivery))
            assert "1. failed for good: 503" in told
            assert "Dead because exhausted" in told
            response = send(client, f"/ui/subscriptions/{id_}/replay", since="1d", include="failed")
            assert response.header("location") == f"/ui/subscriptions/{id_}?done=replay"
            until(lambda: delivered(client, 1))
            assert "2. delivered: 200" in text_of(page(client, delivery))
            tried = send(client, f"/ui/subscriptions/{id_}/test").header("location") or ""
            assert tried.endswith("?done=test")
            until(lambda: "1. delivered: 200" in text_of(page(client, tried)))
            assert "anew.test" in text_of(page(client, tried))
            # Once more by hand, what was delivered.
            send(client, f"{delivery}/send")
            receiver.wait_for(4)
    finally:
        client.close()
        server.close()


def test_pages_of_topics_in_a_browser(browser: Any, client: Client, topic: str) -> None:
    """They load nothing from elsewhere and break no rule of their own; a form does what it says; a phone sees all of it."""
    from tests.e2e.browser import LabPage

    id_ = subscribed(client, topic, "https://93.184.216.34/" + "long-" * 60, name="shop")
    call(
        client,
        "POST",
        f"/v1/topics/{topic}/messages",
        {"type": "order.paid", "data": {"text": "x" * 500}},
        202,
    )
    tab = LabPage(browser, client.address)
    tab.page.goto(f"{tab.base}/ui/webhooks/{topic}")
    tab.page.get_by_role("link", name="shop").click()
    tab.page.get_by_role("button", name="Pause").click()
    assert tab.page.get_by_role("status").inner_text() == "Paused."
    tab.page.get_by_text("Disable…").click()
    tab.page.get_by_role("button", name="Disable").click()
    assert tab.page.get_by_role("status").inner_text() == "Disabled."
    assert status_of(client, id_) == "disabled"
    delivery = tab.page.locator("td a").first.get_attribute("href")
    tab.close()
    phone = LabPage(browser, client.address, is_mobile=True)
    phone.page.set_viewport_size({"width": 390, "height": 800})
    for path in ("/ui/webhooks", f"/ui/webhooks/{topic}", f"/ui/subscriptions/{id_}", delivery):
        phone.page.goto(f"{phone.base}{path}")
        wide, _ = phone.width()
        assert wide <= 390, path
    phone.close()
