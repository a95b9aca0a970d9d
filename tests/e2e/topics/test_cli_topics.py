"""Topics on the command line, against a real server and a real receiver: set up, broken, repaired, sent again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.client import Client
from tests.e2e.command import anew, anew_json, anew_process
from tests.e2e.server import ServerProcess
from tests.e2e.wire import Address
from tests.waiting import until

from .receivers import Receiver, answers, script

POLICY = json.dumps({"retry": {"schedule": [0.1], "jitter": 0}, "health": {"breaker_failures": None}})


@pytest.fixture
def address(tmp_path: Path) -> Iterator[Address]:
    """A server that delivers to this machine, and asks nobody first."""
    server = ServerProcess(
        tmp_path / "data",
        webhook_confirmation="off",
        webhook_allow_http=True,
        webhook_allow_cidrs="127.0.0.1/32",
    )
    yield server.address
    server.close()


def deliveries(address: Address, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = anew_json(address, "delivery", "list", *options)["deliveries"]
    return found


def test_a_subscription_is_set_up_breaks_is_repaired_and_gets_what_it_has_missed(address: Address) -> None:
    behaviour = script(answers(200), answers(503), answers(503), answers(200))
    with Receiver(behaviour) as receiver:
        assert "topic      orders" in anew(address, "topic", "create", "orders").stdout
        added = anew(
            address, "sub", "add", "orders", receiver.url, "--name", "shop", "--policy", POLICY
        ).stdout
        assert "secret     whsec_" in added
        anew(
            address, "publish", "orders", "--type", "order.paid", "--data", '{"id": 1}', "--attr", "region=eu"
        )
        until(lambda: [one["status"] for one in deliveries(address)] == ["delivered"])
        words = ("publish", "orders", "--type", "order.paid", "--data", "@/dev/stdin")
        anew_process(address, *words, stdin='{"id": 2}')
        until(lambda: deliveries(address, "--status", "dead"))
        (dead,) = deliveries(address, "--status", "dead", "--topic", "orders", "--since", "1h")
        assert (dead["dead_reason"], dead["attempts"]) == ("exhausted", 2)
        table = anew(address, "delivery", "attempts", dead["id"]).stdout
        assert table.count("503") == 2
        assert "2 failures" in anew(address, "sub", "list", "orders").stdout
        counted = anew(address, "delivery", "redeliver", "--all-dead", "--sub", "orders/shop", "--dry-run")
        assert counted.stdout == "1 delivery would be sent again\n"
        again = anew(address, "delivery", "redeliver", "--all-dead", "--sub", "orders/shop")
        assert again.stdout == "1 delivery sent again (done)\n"
        until(lambda: [one["status"] for one in deliveries(address)] == ["delivered", "delivered"])
        assert [json.loads(one.body)["data"] for one in receiver.requests] == [{"id": 1}, *[{"id": 2}] * 3]
        assert receiver.requests[-1].header("anew-redelivery") == "true"


def test_a_dry_run_counts_more_than_one_transaction_looks_at(address: Address) -> None:
    with closing(Client(address)) as client:
        client.put("/v1/topics/orders")
        endpoint = {"type": "queue", "queue": "orders"}
        client.post("/v1/topics/orders/subscriptions", {"endpoint": endpoint})
        for _ in range(21):
            messages = [{"type": "order.paid", "data": number} for number in range(100)]
            published = client.post("/v1/topics/orders/messages", {"messages": messages})
            assert published.status == 202
        asked = {"status": "delivered", "dry_run": True}
        counted = client.post("/v1/deliveries/redeliver", asked)
        assert (counted.status, json.loads(counted.body)) == (200, {"count": 2_100})


def test_what_was_published_while_it_was_disabled_is_replayed(address: Address) -> None:
    with Receiver(answers(200)) as receiver:
        anew(address, "topic", "create", "orders")
        anew(address, "sub", "add", "orders", receiver.url, "--name", "shop")
        assert (
            "disabled (holiday)"
            in anew(address, "sub", "disable", "orders/shop", "--reason", "holiday").stdout
        )
        anew(address, "publish", "orders", "--type", "a", "--data", "7")
        anew(address, "sub", "enable", "orders/shop")
        done = anew(address, "replay", "orders/shop", "--since", "1h", "--include", "missed").stdout
        assert done == "1 delivery sent again (done)\n"
        receiver.wait_for(1)
        assert json.loads(receiver.requests[0].body)["data"] == 7
        tried = anew(address, "sub", "test", "orders/shop").stdout
        assert tried.startswith("delivered  200, ")


def test_a_queue_is_tried_out_by_a_job(address: Address) -> None:
    anew(address, "topic", "create", "orders")
    anew(address, "sub", "add", "orders", "queue:mail", "--name", "mail")
    began = time.monotonic()
    assert anew(address, "sub", "test", "orders/mail").stdout.endswith("delivered: the queue has the job\n")
    assert time.monotonic() - began < 30  # it waited for an attempt as long as one may last


def test_a_subscription_leads_to_the_lab(address: Address) -> None:
    own = {"curve": {"exponential": {"base": "1s"}}, "jitter": "even", "limit": 3}
    anew(address, "topic", "create", "orders")
    policy = json.dumps({"retry": {"policy": own}})
    anew(address, "sub", "add", "orders", "https://hooks.example.org/", "--name", "shop", "--policy", policy)
    shown = anew(address, "sub", "show", "orders/shop").stdout
    (link,) = [line.split()[1] for line in shown.splitlines() if line.startswith("lab ")]
    url = "http://{}:{}".format(*address)
    assert link.startswith(f"{url}/lab?a=")
    with closing(Client(address)) as client:
        answer = client.request("GET", link.removeprefix(url))
    assert answer.status == 200
    assert b"even" in answer.body


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("sub", "add", "orders", "http://10.0.0.1/"), 2, "not allowed"),
        (("sub", "show", "orders/nobody"), 4, "anew sub list orders"),
        (("publish", "nothing", "--type", "a"), 4, "there is no topic 'nothing'"),
        (("publish", "orders", "--type", "a"), 0, "anew sub list orders"),
        (("publish", "$events", "--type", "a"), 2, "expected a topic of your own"),
        (("publish", "orders", "--type", "a", "--data", "{"), 2, "--data: expected JSON"),
        (("publish", "orders", "--type", "a", "--data", "-"), 2, "--data: expected JSON"),
        (("publish", "orders", "--type", "a", "--attr", "x"), 2, "expected NAME=VALUE"),
        (("delivery", "redeliver"), 2, "expected either one id, or --all-dead"),
        (("topic", "set", "orders", "--policy", '{"retry": {"jitter": 2}}'), 2, "/retry/jitter"),
    ],
)
def test_what_is_refused_or_in_vain_says_why(
    address: Address, words: tuple[str, ...], code: int, said: str
) -> None:
    anew(address, "topic", "create", "orders")
    done = anew(address, *words)
    assert said in done.stderr
    assert done.returncode == code
