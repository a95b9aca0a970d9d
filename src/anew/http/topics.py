"""Topics over HTTP: publish, subscribe, and look after deliveries. Errors are ``application/problem+json``."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from anew.engine import Batch, Call
from anew.engine.ops import Verb
from anew.errors import AnewError, InvalidInput, MalformedRequest, NotFound, TooLarge
from anew.http.api import Context
from anew.http.formats import JSON, Format
from anew.http.query_strings import query_pairs
from anew.http.replies import answering, error_words, retry_after
from anew.http.router import Doc, Handler, Router
from anew.http.turns import Turns
from anew.jobs.ids import COUNTER_BITS, MAX_KEY
from anew.net.seam import Kind, Request
from anew.topics import asked, reading, redelivery, registry
from anew.topics.bodies import (
    BulkRedeliveryBody,
    ConversionBody,
    RedeliveryBody,
    SubscriptionBody,
    SubscriptionPatchBody,
    TestBody,
    TopicBody,
)
from anew.topics.delivery_policy import effective, engine_policy, layer_of
from anew.topics.documents import TopicDocument, check_topic_name
from anew.topics.foreign_policy import from_sns, from_zaqar
from anew.topics.guard import GuardSettings
from anew.topics.publishing import Published, publish
from anew.topics.steering import ABOUT, Action, Turn, moment, steer
from anew.topics.terms import TopicTerms
from anew.topics.views import (
    View,
    delivery_views,
    lab_link,
    policy_view,
    subscription_view,
    task_view,
    topic_view,
)

PROBLEM: Final = b"application/problem+json"
MAX_BODY: Final = 256 << 10
MOST_TOLD: Final = 2_000
"""Characters of an error that are told: a member's name may be as long as its body."""

FIRST_LOOK_S: Final = 0.05
LONGEST_LOOK_S: Final = 1.0
"""How long a test of an endpoint waits between two looks: ever longer, as many may wait for endpoints that do not answer."""

LONGEST_TEST_MS: Final = 35_000
"""How long a test of an endpoint is waited for; its own time-out is 30 s at most, and there may be no process that delivers."""

PAGES: Final = frozenset({"limit", "cursor"})
DELIVERIES: Final = frozenset({"status", "dead_reason", "topic", "subscription", "message", "since", "until"})
"""Parameters that choose a page, and those that choose deliveries."""

_KINDS: Final = {
    "sub_": "subscription",
    "dlv_": "delivery",
    "msg_": "message",
    "tsk_": "task",
    "att_": "attempt",
}
"""What an id is of, by its prefix."""

_ENDED = ("delivered", "dead", "cancelled")
MOST_LIMIT: Final = 100
MOST_COUNTED: Final = 100_000
_number = re.compile(r"[0-9]{1,9}").fullmatch


def problem(request: Request, form: Format, error: AnewError) -> None:
    """Answer with an error as RFC 9457 has it, in JSON whatever the format."""
    does_not_fit = isinstance(error, InvalidInput) and not isinstance(error, MalformedRequest | TooLarge)
    status = 422 if does_not_fit else error.status
    detail = error_words(error)["error"][:MOST_TOLD]
    body: dict[str, Any] = {"type": "about:blank", "title": error.code, "status": status, "code": error.code}
    body |= {"detail": detail, "error": detail}
    if isinstance(error, InvalidInput) and (error.field or status == 422):
        is_path = error.field and not error.field.startswith("/")
        pointer = "/" + error.field.replace(".", "/") if is_path else error.field
        body["errors"] = [{"pointer": pointer[:MOST_TOLD], "detail": detail}]
    request.reply(status, msgspec.json.encode(body), PROBLEM, retry_after(status))


class TopicRoutes:
    """Serves topics. `guard` says which URLs may be subscribed; `subscribed` is called when there is somebody to deliver to."""

    def __init__(
        self, context: Context, terms: TopicTerms, guard: GuardSettings, subscribed: Callable[[], None]
    ) -> None:
        self._submit = context.commit.submit
        self._turns = Turns(context.commit.submit)
        self._ids = context.engine.ids
        self._clock = context.engine.clock
        self._terms = terms
        self._guard = guard
        self._subscribed = subscribed

    # -- the way of a request

    def _do(self, request: Request, verb: Verb, then: Callable[[Any], None], *, writes: bool = True) -> None:
        """Run a verb, and answer."""
        self._submit(Call(verb, answering(request, JSON, then, problem), durable=writes, waits=writes))

    def _look(self, request: Request, verb: Verb) -> None:
        """Run a verb that writes nothing, and answer with what it gives."""
        self._do(request, verb, lambda shown: reply(request, 200, shown), writes=False)

    def _show(
        self,
        request: Request,
        verb: Verb,
        view: Callable[[Batch, Any], Any],
        status: int = 200,
    ) -> None:
        """Run a verb, and answer with what it gives, as it is shown in the same transaction."""

        def shown(batch: Batch) -> Any:
            return view(batch, verb(batch))

        self._do(request, shown, lambda value: reply(request, status, value))

    def _key(self, text: str, prefix: str, pointer: str = "") -> int:
        key = self._ids.read(text.removeprefix(prefix)) if text.startswith(prefix) else -1
        if key < 0:
            if pointer:
                raise InvalidInput(f"{pointer}: expected an id {prefix}…, got {text!r:.60}", field=pointer)
            raise NotFound(f"there is no such {_KINDS[prefix]}")
        return key

    # -- topics

    def put_topic(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Create a topic, or give it the settings of the body."""
        check_topic_name(params[0])
        document = asked.topic_of(TopicDocument(), asked.decoded(request.body, TopicBody, optional=True))

        def verb(batch: Batch) -> Any:
            row, is_new = registry.put_topic(params[0], document)(batch)
            return 201 if is_new else 200, topic_view(row, self._terms)

        self._do(request, verb, lambda answer: reply(request, *answer))

    def patch_topic(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Change some members of a topic."""
        body = asked.decoded(request.body, TopicBody)
        verb = registry.change_topic(params[0], lambda before: asked.topic_of(before, body))
        self._show(request, verb, lambda _, row: topic_view(row, self._terms))

    def get_topic(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show a topic."""
        self._look(request, reading.topic(self._terms, params[0]))

    def list_topics(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List topics by name."""
        query = query_pairs(request.query, PAGES)
        self._look(request, reading.topics(self._terms, query.get("cursor", ""), _limit(query)))

    def delete_topic(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Remove a topic."""
        given = query_pairs(request.query, {"force"}).get("force", "false")
        force = asked.choice(given, "/force", ("true", "false")) == "true"
        verb = registry.drop_topic(params[0], force=force)
        self._do(request, verb, lambda _: request.reply(204, b"", None))

    # -- messages

    def publish(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Publish a message, or several, all or none."""
        terms = self._terms
        key = request.headers.get(b"idempotency-key")
        messages = asked.messages_of(request.body, terms)
        text = None if key is None else asked.idempotency_key(key.decode("latin-1"))
        digest = hashlib.sha256(request.body).digest() if text else b""

        def then(published: Published) -> None:
            ids = [f"msg_{self._ids.write(one)}" for one in published.ids]
            reply(request, 202, asked.published_view(published, ids))

        verb = publish(terms, params[0], messages, text, digest)
        done = answering(request, JSON, then, problem)
        self._turns.add(params[0], len(messages), len(request.body), verb, done)

    def get_message(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show a message, with its deliveries by status."""
        self._look(request, reading.message(self._key(params[0], "msg_")))

    # -- subscriptions

    def subscribe(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Subscribe an endpoint to a topic; the answer has its secret, once."""
        terms = self._terms
        body = asked.decoded(request.body, SubscriptionBody)
        new = asked.subscription_of(body, self._guard)

        def verb(batch: Batch) -> Any:
            subscribed = registry.subscribe(terms, params[0], new, secrets.token_bytes)(batch)
            return 200 if subscribed.ring is None else 201, asked.subscribed_view(batch, subscribed, terms)

        def then(answer: tuple[int, Any]) -> None:
            self._subscribed()
            reply(request, *answer)

        self._do(request, verb, then)

    def list_subscriptions(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List the subscriptions of a topic."""
        query = query_pairs(request.query, PAGES)
        limit = _limit(query)
        after = self._key(query["cursor"], "sub_", "/cursor") if query.get("cursor") else -1
        self._look(request, reading.subscriptions(self._terms, params[0], after, limit))

    def get_subscription(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show a subscription."""
        key = self._key(params[0], "sub_")

        def verb(batch: Batch) -> View:
            return subscription_view(batch, registry.known_subscription(batch, key), self._terms)

        self._look(request, verb)

    def patch_subscription(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Change some members of a subscription; another URL is to be confirmed again."""
        key, body = self._key(params[0], "sub_"), asked.decoded(request.body, SubscriptionPatchBody)
        given = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not UNSET}
        checks: dict[str, Callable[[Any], Any]] = {
            "filter": asked.filter_document,
            "delivery_policy": asked.policy_of,
            "name": asked.name_of,
            "dead_letter_queue": lambda queue: (
                None if queue is None else asked.queue_of(queue, "/dead_letter_queue")
            ),
        }
        patch = registry.SubscriptionPatch(
            members={name: check(given[name]) for name, check in checks.items() if name in given},
            kind=None if body.endpoint is UNSET else body.endpoint.type,
            endpoint=None if body.endpoint is UNSET else asked.endpoint_of(body.endpoint, self._guard),
            ttl=asked.ttl_of(body.ttl),
        )
        verb = registry.change_subscription(self._terms, key, patch, secrets.token_bytes)
        self._show(request, verb, lambda batch, row: subscription_view(batch, row, self._terms))

    def steering(self, action: Action, status: int) -> Handler:
        """Give the route of what an owner does with a subscription; 204 shows nothing."""

        def handler(request: Request, form: Format, params: tuple[str, ...]) -> None:
            key = self._key(params[0], "sub_")
            verb = steer(self._terms, key, action, bytes(request.body), secrets.token_bytes)

            def then(shown: View) -> None:
                request.reply(204, b"", None) if status == 204 else reply(request, status, shown)

            self._do(request, verb, then)

        handler.__doc__ = ABOUT[action]
        return handler

    def confirm_by_visit(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Confirm the subscription whose token this is: what a receiver's visit to `confirm_url` does."""

        def view(batch: Batch, row: Any) -> View:
            return {"confirmed": True, "subscription_id": registry.id_of(batch, row), "topic": row.topic}

        self._show(request, registry.confirm_by(self._terms, params[0]), view)

    def resend(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Send an endpoint the question again whether it wants the messages."""
        key = self._key(params[0], "sub_")
        verb = registry.resend(self._terms, key, secrets.token_bytes)
        self._do(request, verb, lambda _: reply(request, 202, {}))

    def try_out(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Send a message of type `anew.test` to a subscription, once; the answer has the attempt, whether it succeeded or not."""
        key, body = self._key(params[0], "sub_"), asked.decoded(request.body, TestBody, optional=True)
        began = self._clock.monotonic()
        pause = FIRST_LOOK_S

        def look(delivery: str) -> None:
            if request.gone:
                return
            id_ = self._key(delivery, "dlv_")
            self._do(request, reading.delivery(id_), shown, writes=False)

        def shown(view: dict[str, Any]) -> None:
            nonlocal pause
            attempt = view["last_attempt"]
            has_ended = view["status"] in _ENDED
            if has_ended and attempt is not None:
                reply(request, 200, attempt)
            elif has_ended or self._clock.monotonic() - began > LONGEST_TEST_MS:  # a queue makes no attempt
                reply(request, 202, view)
            else:
                asyncio.get_running_loop().call_later(pause, look, view["id"])
                pause = min(pause * 1.5, LONGEST_LOOK_S)

        verb = redelivery.try_out(self._terms, key, Raw(b"null") if body.data is UNSET else body.data)
        self._do(request, lambda batch: _delivery_view(batch, verb(batch)), shown)

    def secret(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show the current secret of a subscription."""
        key, terms = self._key(params[0], "sub_"), self._terms

        def verb(batch: Batch) -> Any:
            return asked.secret_view(registry.ring_of(terms, registry.known_subscription(batch, key)).current)

        self._look(request, verb)

    # -- deliveries

    def _selection(self, query: Mapping[str, str | None]) -> redelivery.Selection:
        subscription, message = query.get("subscription"), query.get("message")
        return redelivery.Selection(
            status=query.get("status"),
            dead_reason=query.get("dead_reason"),
            topic=query.get("topic"),
            subscription=None if subscription is None else self._key(subscription, "sub_", "/subscription"),
            message=None if message is None else self._key(message, "msg_", "/message"),
            since=moment(query.get("since"), "/since") or 0,
            until=moment(query.get("until"), "/until"),
        )

    def list_deliveries(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List deliveries, those of the oldest messages first."""
        query = query_pairs(request.query, DELIVERIES | PAGES)
        limit, chosen = _limit(query), self._selection(query)
        if chosen.status is not None:
            asked.choice(chosen.status, "/status", reading.STATUSES)
        after = self._key(query["cursor"], "dlv_", "/cursor") if query.get("cursor") else -1
        after = min(max(after, (chosen.since << COUNTER_BITS) - 1), MAX_KEY)
        self._look(request, reading.deliveries(chosen, after, limit))

    def get_delivery(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show a delivery."""
        key = self._key(params[0], "dlv_")
        self._look(request, reading.delivery(key))

    def list_attempts(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List the attempts of a delivery, the first one first."""
        key = self._key(params[0], "dlv_")
        query = query_pairs(request.query, PAGES)
        limit, cursor = _limit(query), query.get("cursor") or "0"
        if not _number(cursor):
            raise InvalidInput(f"/cursor: expected an attempt's number, got {cursor!r:.60}", field="/cursor")
        self._look(request, reading.attempts(key, int(cursor), limit))

    def get_attempt(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show an attempt."""
        text, _, number = params[0].rpartition("-")
        key = self._key(text, "att_")
        self._look(request, reading.attempt(key, int(number) if _number(number) else 0))

    def redeliver(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Send a delivery again, or now if it waits."""
        key, body = self._key(params[0], "dlv_"), asked.decoded(request.body, RedeliveryBody, optional=True)
        mode = asked.choice(body.mode, "/mode", ("full", "once"))
        verb = redelivery.redeliver(self._terms, key, mode, force=body.force)
        self._show(request, verb, _delivery_view, 202)

    def cancel(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Cancel a delivery."""
        verb = redelivery.cancel(self._terms, self._key(params[0], "dlv_"))
        self._show(request, verb, _delivery_view)

    def delete_delivery(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Remove a dead delivery."""
        verb = redelivery.remove(self._key(params[0], "dlv_"))
        self._do(request, verb, lambda _: request.reply(204, b"", None))

    def redeliver_many(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Send all deliveries again that match; with `dry_run` they are only counted."""
        body = asked.decoded(request.body, BulkRedeliveryBody)
        chosen = self._selection(msgspec.structs.asdict(body))
        if chosen.status not in (None, "dead", "delivered"):
            raise InvalidInput(
                f"/status: expected dead or delivered, got {chosen.status!r:.60}", field="/status"
            )
        chosen = replace(chosen, status=chosen.status or "dead")
        mode = asked.choice(body.mode, "/mode", ("full", "once"))
        if body.dry_run:
            self._count(request, chosen)
            return

        def view(batch: Batch, row: Any) -> View:
            return {"task_id": f"tsk_{batch.ids.write(row.id)}"}

        document = redelivery.TaskDocument(selection=chosen, mode=mode)
        self._show(request, redelivery.start(self._terms, document), view, 202)

    def _count(
        self, request: Request, chosen: redelivery.Selection, found: int = 0, after: int | None = None
    ) -> None:
        """Count deliveries, some in each transaction, up to a number of them."""

        def counted(result: tuple[int, int | None]) -> None:
            number, last = found + result[0], result[1]
            if last is None or number >= MOST_COUNTED:
                reply(request, 200, {"count": min(number, MOST_COUNTED)})
            elif not request.gone:
                self._count(request, chosen, number, last)

        self._do(request, lambda batch: redelivery.count(batch, chosen, after), counted, writes=False)

    # -- tasks and policies

    def get_task(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show the progress of a task."""
        key = self._key(params[0], "tsk_")
        self._look(request, lambda batch: task_view(batch, redelivery.known_task(batch, key)))

    def stop_task(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Stop a task; what it has done stays."""
        self._show(request, redelivery.stop(self._key(params[0], "tsk_")), task_view, 202)

    def preview(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show the waits of a delivery policy."""
        document = asked.decoded(request.body, dict)
        policy, _ = effective([("given", layer_of(document))])
        waits = policy.retry.delays_ms
        shown = {
            "delays": [wait / 1_000 for wait in waits],
            "total": sum(waits) / 1_000,
            "attempts": len(waits) + 1,
            "policy": policy_view(policy),
            "lab": lab_link(engine_policy(policy.retry)),
        }
        reply(request, 200, shown)

    def convert(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Convert a policy of SNS or Zaqar to one of Anew's."""
        body = asked.decoded(request.body, ConversionBody)
        if asked.choice(body.source, "/from", ("sns", "zaqar")) == "sns":
            converted = from_sns(body.policy)
        else:
            mode = asked.choice(body.mode, "/mode", ("as_shipped", "as_documented"))
            converted = from_zaqar(body.policy, mode)
        shown = {"policy": converted.policy, "warnings": converted.warnings, "lock": converted.lock}
        reply(request, 200, shown)


def reply(request: Request, status: int, value: object) -> None:
    """Answer with JSON."""
    request.reply(status, msgspec.json.encode(value))


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", "20")
    if not _number(text) or not 1 <= int(text) <= MOST_LIMIT:
        raise InvalidInput(f"/limit: expected 1 to {MOST_LIMIT}, got {text!r:.60}", field="/limit")
    return int(text)


def _delivery_view(batch: Batch, row: Any) -> View:
    return delivery_views(batch, [row])[0]


def _guarded(handler: Handler) -> Handler:
    """Answer what a handler refuses as a problem."""

    def guarded(request: Request, form: Format, params: tuple[str, ...]) -> None:
        try:
            handler(request, form, params)
        except AnewError as error:
            problem(request, form, error)

    guarded.__doc__ = handler.__doc__
    return guarded


def add_routes(
    router: Router, context: Context, terms: TopicTerms, guard: GuardSettings, subscribed: Callable[[], None]
) -> None:
    """Serve the routes of topics; see `TopicRoutes`."""
    routes = TopicRoutes(context, terms, guard, subscribed)

    def add(
        method: str, path: str, handler: Handler, doc: Doc, kind: Kind = Kind.other, most: int = MAX_BODY
    ) -> None:
        most_bytes = None if method == "GET" else most
        router.add(method, path, _guarded(handler), doc, kind=kind, most_bytes=most_bytes)

    def doc(
        name: str, answers: dict[int, str], body: str = "", query: str = "", *, optional: bool = False
    ) -> Doc:
        return Doc(
            name, "topics", answers, body, not optional, query, forms=("application/json",), problems=True
        )

    most = terms.publish_bytes + (64 << 10)
    topic, subscription = "/v1/topics/{topic}", "/v1/subscriptions/{subscription}"
    delivery = "/v1/deliveries/{delivery}"
    shown, gone = {200: "Subscription"}, {204: ""}
    add("GET", "/v1/topics", routes.list_topics, doc("listTopics", {200: "TopicPage"}, query="topic_pages"))
    put = doc("putTopic", {200: "Topic", 201: "Topic"}, "TopicBody", optional=True)
    add("PUT", topic, routes.put_topic, put)
    add("GET", topic, routes.get_topic, doc("getTopic", {200: "Topic"}))
    add("PATCH", topic, routes.patch_topic, doc("patchTopic", {200: "Topic"}, "TopicBody"))
    add("DELETE", topic, routes.delete_topic, doc("deleteTopic", gone, query="force"))
    published = doc("publish", {202: "Published"}, "Publishing")
    add("POST", f"{topic}/messages", routes.publish, published, Kind.new_work, most)
    add("GET", "/v1/messages/{message}", routes.get_message, doc("getMessage", {200: "Message"}))
    created = doc("subscribe", {200: "Subscription", 201: "NewSubscription"}, "SubscriptionBody")
    add("POST", f"{topic}/subscriptions", routes.subscribe, created)
    page = doc("listSubscriptions", {200: "SubscriptionPage"}, query="subscription_pages")
    add("GET", f"{topic}/subscriptions", routes.list_subscriptions, page)
    add("GET", subscription, routes.get_subscription, doc("getSubscription", shown))
    patched = doc("patchSubscription", shown, "SubscriptionPatchBody")
    add("PATCH", subscription, routes.patch_subscription, patched)
    add("DELETE", subscription, routes.steering("delete", 204), doc("deleteSubscription", gone))
    confirmed = doc("confirmSubscription", gone, "TurnBody", optional=True)
    add("POST", f"{subscription}/confirm", routes.steering("confirm", 204), confirmed)
    resent = doc("resendConfirmation", {202: "Resent"})
    add("POST", f"{subscription}/resend-confirmation", routes.resend, resent)
    visited = {200: "Confirmed"}
    add("GET", "/v1/confirm/{token}", routes.confirm_by_visit, doc("confirmByVisit", visited))
    add("POST", "/v1/confirm/{token}", routes.confirm_by_visit, doc("confirmByPost", visited))
    moves: tuple[Turn, ...] = ("pause", "resume", "disable", "enable")
    for move in moves:
        turned = doc(f"{move}Subscription", shown, "TurnBody", optional=True)
        add("POST", f"{subscription}/{move}", routes.steering(move, 200), turned)
    tried = doc("testSubscription", {200: "Attempt", 202: "Delivery"}, "TestBody", optional=True)
    add("POST", f"{subscription}/test", routes.try_out, tried)
    add("GET", f"{subscription}/secret", routes.secret, doc("getSecret", {200: "Secret"}))
    rotated = doc("rotateSecret", {200: "Secret"}, "RotationBody", optional=True)
    add("POST", f"{subscription}/secret/rotate", routes.steering("rotate", 200), rotated)
    replay = doc("replay", {202: "TaskBegun"}, "ReplayBody")
    add("POST", f"{subscription}/replay", routes.steering("replay", 202), replay)
    page = doc("listDeliveries", {200: "DeliveryPage"}, query="delivery_pages")
    add("GET", "/v1/deliveries", routes.list_deliveries, page)
    several = doc("redeliverMany", {200: "Count", 202: "TaskBegun"}, "BulkRedeliveryBody")
    add("POST", "/v1/deliveries/redeliver", routes.redeliver_many, several)
    add("GET", delivery, routes.get_delivery, doc("getDelivery", {200: "Delivery"}))
    add("DELETE", delivery, routes.delete_delivery, doc("deleteDelivery", gone))
    page = doc("listAttempts", {200: "AttemptPage"}, query="attempt_pages")
    add("GET", f"{delivery}/attempts", routes.list_attempts, page)
    again = doc("redeliver", {202: "Delivery"}, "RedeliveryBody", optional=True)
    add("POST", f"{delivery}/redeliver", routes.redeliver, again)
    add("POST", f"{delivery}/cancel", routes.cancel, doc("cancelDelivery", {200: "Delivery"}))
    add("GET", "/v1/attempts/{attempt_id}", routes.get_attempt, doc("getAttempt", {200: "Attempt"}))
    add("GET", "/v1/tasks/{task}", routes.get_task, doc("getTask", {200: "Task"}))
    add("DELETE", "/v1/tasks/{task}", routes.stop_task, doc("stopTask", {202: "Task"}))
    preview = doc("previewPolicy", {200: "PolicyPreview"}, "DeliveryPolicy")
    add("POST", "/v1/delivery-policies/preview", routes.preview, preview)
    converted = doc("convertPolicy", {200: "ConvertedPolicy"}, "ConversionBody")
    add("POST", "/v1/delivery-policies/convert", routes.convert, converted)
