"""The OpenAPI document against the real server: requests made from it, every answer held against it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from uuid import uuid4

import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from anew.http.openapi import document
from tests.routes import every_route

from .client import Client
from .server import ServerProcess
from .stream import TakeStream

_TIMES = 10 if os.environ.get("ANEW_NIGHTLY") else 1
EXAMPLES = {GenerationMode.POSITIVE: 8 * _TIMES, GenerationMode.NEGATIVE: 5 * _TIMES}
ENDLESS = "/jobs/take"
WAITS = "/v1/subscriptions/{subscription}/test"
"""It waits for an endpoint's answer."""
REPORTS = ("POST /v1/jobs/failure", "POST /v1/jobs/reports")
ANY_TEXT = (
    "POST /v1/workers/{worker}/quiet",
    "POST /v1/workers/{worker}/terminate",
    "POST /v1/breakers/{breaker}/close",
    "GET /v1/confirm/{token}",
    "POST /v1/confirm/{token}",
)
"""What these take is a name of the caller's own choice: nothing that is a path is none."""

HELD = "held"
"""A queue whose jobs are in flight from the start, since a stream takes whatever comes."""

DOCUMENT = document(every_route())
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)


def about_topics(name: str) -> bool:
    """Whether an operation, as ``GET /jobs``, is one of topics."""
    method, path = name.split()
    return bool(DOCUMENT["paths"][path][method.lower()]["tags"] == ["topics"])


def names(*, with_input: bool) -> list[str]:
    """Operations as ``GET /jobs``, all of them or those that take any input."""
    return [
        f"{method.upper()} {path}"
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
        if path not in (ENDLESS, WAITS)
        and (not with_input or "parameters" in operation or "requestBody" in operation)
    ]


@schemathesis.serializer("application/msgpack")
def packed(context: Any, value: Any) -> bytes:
    """Write a generated body as MessagePack, which knows no longer integers."""
    return msgspec.msgpack.encode(_short(value))


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _short(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_short(inner) for inner in value]
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**64 else value


@schemathesis.deserializer("application/msgpack")
def unpacked(context: Any, response: Any) -> Any:
    """Read an answer in MessagePack."""
    return msgspec.msgpack.decode(response.content)


class Target:
    """A server with a worker, and jobs and topics for every path.

    Args:
        server: Its process.
    """

    def __init__(self, server: ServerProcess) -> None:
        self.url = "http://{}:{}".format(*server.address)
        self.client = Client(server.address)
        self.stream: TakeStream = self.client.take(HELD, prefetch=0)
        self._topics = 0

    def close(self) -> None:
        self.stream.close()
        self.client.close()

    def job_for(self, path: str) -> str:
        """A new job in a state that suits the path."""
        if path.endswith(("/success", "/failure")):
            return self.client.enqueue(HELD)["id"]
        if "/errors" in path or path.endswith("/retry"):
            job_id = self.client.enqueue(HELD)["id"]
            self.client.fail(job_id, kill=True, error_type="E", backtrace="b")
            return job_id
        return self.client.enqueue("any", payload={"a": 1}, retry_limit=1, retention={"dead_ms": 1})["id"]

    def parameters_for(self, method: str, path: str) -> dict[str, Any]:
        """Parameters for a path about topics, which name what there is: what is new, if it is to be removed."""
        there = self.topic() if method == "DELETE" else self.a_topic
        return {name: value for name, value in there.items() if f"{{{name}}}" in path}

    @cached_property
    def a_topic(self) -> dict[str, str]:
        """What `topic` gives, always the same."""
        return self.topic()

    def topic(self) -> dict[str, str]:
        """A new topic with a subscription, a message and its delivery, and a task that does nothing."""
        self._topics += 1
        name = f"t{self._topics}"
        endpoint = {"type": "webhook", "url": f"https://example.com/{name}"}
        self.client.put(f"/v1/topics/{name}", {})
        made = self.client.post(f"/v1/topics/{name}/subscriptions", {"endpoint": endpoint}).data["id"]
        message = {"type": "order.paid", "data": {"a": 1}, "attributes": {"b": True}}
        (sent,) = self.client.post(f"/v1/topics/{name}/messages", message).data["ids"]
        found = self.client.get(f"/v1/deliveries?subscription={made}").data["deliveries"][0]["id"]
        task = self.client.post("/v1/deliveries/redeliver", {"topic": name}).data["task_id"]
        attempt = f"att_{found[4:]}-1"
        return {
            "topic": name, "subscription": made, "message": sent, "delivery": found, "task": task, "attempt_id": attempt
        }  # fmt: skip


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    server = ServerProcess(tmp_path_factory.mktemp("openapi") / "data", webhook_confirmation="off")
    target = Target(server)
    yield target
    target.close()
    server.close()
    assert not server.new_complaints()


def can_be_said(case: Case) -> bool:
    """Leave out what the document does not say: low ends before high ends, the inside of a policy, which batches there are."""
    query: dict[str, Any] = case.query if isinstance(case.query, dict) else {}
    for name in ("priority", "ready_at", "attempts"):
        ends = re.fullmatch(r"(\d+)\.\.(\d+)", str(query.get(name)), re.ASCII)
        if ends is not None and int(ends[1]) > int(ends[2]):
            return False
    body = case.body
    jobs = body.get("jobs", [body]) if isinstance(body, dict) else []
    jobs = jobs if isinstance(jobs, list) else []
    callbacks = [body.get("on_success"), body.get("on_complete")] if isinstance(body, dict) else []
    jobs = [*jobs, *callbacks, *_jobs_of_entries(body)]
    if any(isinstance(job, dict) and isinstance(job.get("policy"), dict) for job in jobs):
        return False
    if any(isinstance(job, dict) and job.get("batch") is not None for job in jobs):  # jq's language
        return False
    tied = [job["ties"] for job in jobs if isinstance(job, dict) and isinstance(job.get("ties"), dict)]
    # Which batches there are, jq's language, and what may not stand beside what.
    return not any(ties.get(name) is not None for ties in tied for name in ("batch", "fold"))


def _jobs_of_entries(body: Any) -> list[Any]:
    entries = body.get("entries", [body]) if isinstance(body, dict) else []
    return (
        [entry.get("job") for entry in entries if isinstance(entry, dict)]
        if isinstance(entries, list)
        else []
    )


def complete(case: Case) -> None:
    """Put in what the document does not say: which texts are schedules, expressions and digests, and who must be named twice."""
    if isinstance(case.query, dict) and "filter" in case.query:
        case.query["filter"] = ".a == 1"
    body = case.body
    if (case.method, case.path) == ("PUT", "/v1/crons/{group}"):
        for at, entry in enumerate(body["entries"]):
            entry |= {"name": f"e{at}", "schedule": "@daily", "timezone": None}
    if case.path.startswith("/crons/{group}") and case.method in ("PUT", "POST"):
        body["timezone"] = "UTC"
        for at, entry in enumerate(body.get("entries", [body])):
            entry |= {"name": f"e{at}", "expression": "@daily", "timezone": None}
    if (case.method, case.path) == ("POST", "/v1/breakers"):
        cooldown = {"preset": "even"}
        body["settings"] = {
            f"service {at}": terms | {"cooldown": cooldown}
            for at, terms in enumerate(body["settings"].values())
        }
        for run in (*body.get("ended", ()), *body.get("waiting", ())):
            run["breaker"] = "stripe"
            body["settings"]["stripe"] = {
                "failures": 0.5, "least": 5, "window_ms": 1, "spacing_ms": 1, "cooldown": cooldown
            }  # fmt: skip


def fill(case: Case, there: dict[str, str]) -> None:
    """Put in what the document does not say of topics: ids that there are, instants, filters, policies, URLs, secrets.

    Args:
        case: The request.
        there: Names of what there is.
    """
    if isinstance(case.query, dict) and case.query.keys() & {"cursor", "subscription", "message", "since"}:
        found = there
        cursors = {"/v1/topics": found["topic"], "/v1/deliveries": found["delivery"]}
        cursors |= {"/v1/deliveries/{delivery}/attempts": "7"}
        values = found | {"cursor": cursors.get(case.path, found["subscription"])} | INSTANTS
        case.query = {name: values.get(name, value) for name, value in case.query.items()} | (
            {"topic": case.query["topic"]} if "topic" in case.query else {}
        )
    if case.path.endswith("/secret/rotate"):  # else the tenth of them is refused
        case.body = {**(case.body if isinstance(case.body, dict) else {}), "overlap": 0}
        case.media_type = "application/json"
    body = case.body
    if not isinstance(body, dict):
        return
    if case.path == "/v1/delivery-policies/preview":
        case.body = {"retry": {"preset": "sns"}}
    elif case.path == "/v1/delivery-policies/convert":
        body["policy"] = {}
    else:
        values = {
            **SAID,
            **INSTANTS,
            "endpoint": {"type": "webhook", "url": "https://example.com/" + uuid4().hex},
        }
        if case.path == "/v1/deliveries/redeliver":
            values |= there
        body |= {name: value for name, value in values.items() if body.get(name) is not None}
        body.pop("token", None)  # without it, it is the owner's word


NOW = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
INSTANTS = dict.fromkeys(("since", "until", "replay_missed_since"), NOW)
SAID = {
    "filter": {"types": ["order.*"], "attributes": {"a": [1]}},
    "delivery_policy": {"retry": {"preset": "sns"}},
    "name": "n",
    "secret": "whsec_" + "A" * 32,
}
"""What fits where the document says less than the server asks for."""


def accept(case: Case) -> dict[str, str]:
    """Ask for an answer in the body's own format."""
    return {"accept": case.media_type} if case.media_type is not None else {}


def try_out(name: str, mode: GenerationMode, call: Callable[[Case], None]) -> None:
    """Make requests for one operation."""
    method, path = name.split()
    examples = settings(
        max_examples=EXAMPLES[mode],
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    examples(given(SCHEMA[path][method].as_strategy(mode).filter(can_be_said))(call))()


@pytest.mark.parametrize("name", names(with_input=False))
def test_what_fits_is_accepted_and_answered_as_documented(target: Target, name: str) -> None:
    path = name.split()[1]
    # Whether an id is in flight is not to be seen from it: 422 is right there.
    # Which texts are tokens is not to be seen either, so 410 is.
    unseen = path in ("/jobs/success", "/v1/confirm/{token}")
    excluded = [positive_data_acceptance] if unseen else []

    def call(case: Case) -> None:
        complete(case)
        if "{id}" in path:
            case.path_parameters = dict(case.path_parameters) | {"id": target.job_for(path)}
        if about_topics(name):
            fill(case, target.a_topic)
            if name != "PUT /v1/topics/{topic}" and "{token}" not in path and "{" in path:
                case.path_parameters = target.parameters_for(case.method, path)
        case.call_and_validate(base_url=target.url, headers=accept(case), excluded_checks=excluded)

    try_out(name, GenerationMode.POSITIVE, call)


@pytest.mark.parametrize("name", [name for name in names(with_input=True) if name not in ANY_TEXT])
def test_reliability_43_what_does_not_fit_is_refused_as_documented(target: Target, name: str) -> None:
    # What fits the schema may still be refused: that a text is jq, no schema says.
    # A report in a list that does not fit is refused by itself, in an answer of 200 that says so.
    excluded = [positive_data_acceptance, *([negative_data_rejection] if name in REPORTS else [])]

    def call(case: Case) -> None:
        case.call_and_validate(base_url=target.url, headers=accept(case), excluded_checks=excluded)

    try_out(name, GenerationMode.NEGATIVE, call)


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/topics/deep/messages", b'{"type": "a", "data": ' + DEEP, 400),
        ("POST", "/v1/delivery-policies/preview", b'{"retry": ' + DEEP, 400),
        ("GET", "/v1/deliveries?since=999999999999999", None, 200),
        ("GET", "/v1/deliveries?since=0001-01-01T00:00:00Z", None, 200),
        ("POST", "/v1/deliveries/redeliver", b'{"since": "9999-12-31T23:59:59Z", "dry_run": true}', 200),
        ("POST", "/v1/deliveries/redeliver", b'{"since": "0001-01-01T00:00:00Z", "dry_run": true}', 200),
        ("POST", "/v1/deliveries/redeliver", b'{"since": "9999-12-31T23:59:59Z"}', 202),
        ("GET", "/v1/deliveries/{delivery}/attempts?cursor=" + "9" * 5_000, None, 422),
        ("GET", "/v1/deliveries/{delivery}/attempts?cursor=" + "9" * 30, None, 422),
        ("GET", "/v1/deliveries/{delivery}/attempts?cursor=x", None, 422),
        ("DELETE", "/v1/topics/{topic}?force=maybe", None, 422),
        ("POST", "/v1/topics/{topic}/messages", b'{"type": "a", "data": "\\ud800"}', (202, 400)),
        ("POST", "/v1/topics/{topic}/messages", b'{"type": "a", "data": "\xff"}', 400),
        ("PUT", "/v1/topics/{topic}", b'{"retention": 60.5}', 422),
    ],
)
def test_what_is_deep_long_or_far_is_no_fault_of_the_server(
    target: Target, method: str, path: str, body: bytes | None, status: Any
) -> None:
    there = target.a_topic
    headers = {} if body is None else {"content-type": "application/json"}
    response = requests.request(
        method,
        target.url + re.sub(r"{(\w+)}", lambda found: there[found[1]], path),
        data=body,
        headers=headers,
        timeout=20,
    )
    assert response.status_code in (status if isinstance(status, tuple) else (status,)), response.text[:300]
    if response.status_code == 422:
        (error,) = response.json()["errors"]
        assert error["pointer"] in ("/cursor", "/force", "/retention")


def test_the_server_serves_the_document(target: Target) -> None:
    response = target.client.get("/openapi.json", accept="text/html")
    assert (response.status, response.content_type) == (200, "application/json")
    assert response.data == DOCUMENT
