"""Topics on pages: who is subscribed, how endpoints do, what became of deliveries, and what an owner does about it.

Each page is read by the same verbs as the API's answers, and each form comes to one of its verbs.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from anew.engine import Batch, Call
from anew.engine.ops import Verb
from anew.errors import NotFound
from anew.http.api import Context
from anew.http.formats import Format
from anew.http.query_strings import bad_query, encoded, query_pairs
from anew.http.router import Handler, Router
from anew.net.seam import Request
from anew.topics import reading, redelivery, registry
from anew.topics.delivery_policy import Preview
from anew.topics.redelivery import Selection
from anew.topics.steering import Turn, steer
from anew.topics.terms import TopicTerms
from anew.topics.views import View, subscription_view
from anew.units import DAY_MS, HOUR_MS, format_duration
from anew.web.dashboard import shown_webhooks as shown
from anew.web.dashboard.actions import MOST_BYTES
from anew.web.dashboard.pages import UI
from anew.web.dashboard.rendering import done_words
from anew.web.dashboard.replies import go_to, later, paged, show

TOPICS: Final = 20
"""Topics of one page."""

SUBSCRIPTIONS: Final = 20
"""Subscriptions of one page: of each the last deliveries are read."""

DELIVERIES: Final = 50
"""Deliveries of one page."""

ATTEMPTS: Final = 50
"""Attempts of one delivery that its page shows, the latest."""

_LAST: Final = (1 << 63) - 1
_HERE: Final = UI + "/webhooks"
_PERIODS: Final[Mapping[str, int]] = {"1h": HOUR_MS, "1d": DAY_MS, "3d": 3 * DAY_MS, "13d": 13 * DAY_MS}
"""From when on things are sent again; more than 14 days back nothing is."""


class Webhooks:
    """Shows topics, and does what the forms of their pages ask for.

    Args:
        context: What routes may use.
        terms: What holds for topics.
    """

    def __init__(self, context: Context, terms: TopicTerms) -> None:
        self._reads = context.reads
        self._submit = context.commit.submit
        self._ids = context.engine.ids
        self._now = context.engine.clock.now
        self._terms = terms

    # -- pages

    def topics(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List topics by name."""
        start, terms = query_pairs(request.query, {"after"}).get("after", ""), self._terms

        def verb(batch: Batch) -> list[tuple[View, int, Preview]]:
            views = reading.topics(terms, start, TOPICS + 1)(batch)["topics"]
            names = [view["name"] for view in views]
            of_each = (
                (reading.subscribers(batch, name), reading.schedule(batch, terms, name)) for name in names
            )
            return [(view, *more) for view, more in zip(views, of_each, strict=True)]

        def told(found: list[tuple[View, int, Preview]]) -> dict[str, Any]:
            now = self._now()
            rows = [
                {
                    "name": view["name"],
                    "path": _topic_path(view["name"]),
                    "subscriptions": number,
                    "retries": shown.total(preview),
                    "made": shown.at(view["created_at"], now),
                }
                for view, number, preview in found[:TOPICS]
            ]
            behind = [f"{_HERE}?after={encoded(row['name'])}" for row in rows[-1:] if len(found) > TOPICS]
            return {"topics": rows, "start": start, "most": reading.COUNTED, "next": behind}

        self._look(request, form, verb, "webhooks.html", told)

    def topic(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show a topic with its subscriptions."""
        start, terms = query_pairs(request.query, {"after"}).get("after", ""), self._terms
        name, after = params[0], self._key(start, "sub_") if start else -1

        def verb(batch: Batch) -> tuple[View, Preview, list[View], list[reading.Recent]]:
            view, preview = reading.topic(terms, name)(batch), reading.schedule(batch, terms, name)
            views = reading.subscriptions(terms, name, after, SUBSCRIPTIONS + 1)(batch)["subscriptions"]
            keys = [self._key(view["id"], "sub_") for view in views[:SUBSCRIPTIONS]]
            return view, preview, views, reading.recent(batch, keys)

        def told(found: tuple[View, Preview, list[View], list[reading.Recent]]) -> dict[str, Any]:
            (view, preview, views, recent), now = found, self._now()
            rows = [shown.subscription_row(*pair, now) for pair in zip(views, recent, strict=False)]
            path = _topic_path(name)
            behind = [f"{path}?after={row['id']}" for row in rows[-1:] if len(views) > SUBSCRIPTIONS]
            return {
                "name": name,
                "path": path,
                "policy": _policy(view, preview),
                "locked": view["lock_delivery_policy"],
                "kept": format_duration(
                    terms.message_kept_ms if view["retention"] is None else 1_000 * view["retention"]
                ),
                "subscriptions": rows,
                "recent": reading.RECENT,
                "start": start,
                "next": behind,
            }

        self._look(request, form, verb, "topic.html", told)

    def subscription(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show a subscription with its last deliveries."""
        given, terms = query_pairs(request.query, {"done", "status", "before"}), self._terms
        status, before, key = given.get("status") or None, given.get("before"), self._key(params[0], "sub_")
        if status is not None and status not in reading.STATUSES:
            raise bad_query(
                f"status: {status[:64]!r} is not valid; expected {', '.join(reading.STATUSES)}", "status"
            )
        after = self._key(before, "dlv_") if before else _LAST
        listed = reading.deliveries(
            Selection(subscription=key, status=status), after, DELIVERIES + 1, newest=True
        )

        def verb(batch: Batch) -> tuple[View, Preview, reading.Recent, View]:
            view = subscription_view(batch, registry.known_subscription(batch, key), terms)
            preview = reading.schedule(batch, terms, view["topic"], key)
            return view, preview, reading.recent(batch, [key])[0], listed(batch)

        def told(found: tuple[View, Preview, reading.Recent, View]) -> dict[str, Any]:
            (view, preview, recent, page), now = found, self._now()
            views = page["deliveries"]
            more = views[DELIVERIES - 1]["id"] if len(views) > DELIVERIES else page["cursor"]
            path = f"{UI}/subscriptions/{params[0]}"
            query = f"status={status}&" if status else ""
            return {
                "said": done_words(given.get("done", ""), ""),
                "id": params[0],
                "path": path,
                "topic": {"name": view["topic"], "path": _topic_path(view["topic"])},
                "name": view["name"] or shown.endpoint(view),
                "status": view["status"],
                "facts": shown.subscription_facts(view, now),
                "policy": _policy(view, preview) if shown.is_webhook(view) else None,
                "filter": None if view["filter"] is None else msgspec.json.encode(view["filter"]),
                "turns": [turn for turn, statuses in shown.TURNS.items() if view["status"] in statuses],
                "counts": shown.counts(recent),
                "recent": reading.RECENT,
                "statuses": reading.STATUSES,
                "asked": status or "",
                "deliveries": [shown.delivery_row(one, now) for one in views[:DELIVERIES]],
                "first": f"{path}?{query}".rstrip("?&") if before else None,
                "next": f"{path}?{query}before={more}" if more else None,
            }

        self._look(request, form, verb, "subscription.html", told)

    def delivery(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show a delivery with its attempts and its message."""
        given, key = query_pairs(request.query, {"done"}), self._key(params[0], "dlv_")

        def verb(batch: Batch) -> tuple[View, list[View], View | None]:
            view = reading.delivery(key)(batch)
            after = max(view["attempts"] + 1 - ATTEMPTS, 0)
            attempts = reading.attempts(key, after, ATTEMPTS)(batch)["attempts"]
            try:
                message = reading.message(self._key(view["message_id"], "msg_"))(batch)
            except NotFound:  # it is kept no longer
                message = None
            return view, attempts, message

        def told(found: tuple[View, list[View], View | None]) -> dict[str, Any]:
            (view, attempts, message), now = found, self._now()
            return {
                "said": done_words(given.get("done", ""), ""),
                "id": params[0],
                "path": f"{UI}/deliveries/{params[0]}",
                "status": view["status"],
                "topic": None
                if view["topic"] is None
                else {"name": view["topic"], "path": _topic_path(view["topic"])},
                "subscription": view["subscription_id"],
                "facts": shown.delivery_facts(view, now),
                "attempts": [shown.attempt(one, now) for one in reversed(attempts)],
                "older": view["attempts"] - len(attempts),
                "kept": message is not None,
                "data": None if message is None or message["data"] is None else bytes(message["data"]),
                "attributes": None
                if message is None or message["attributes"] is None
                else bytes(message["attributes"]),
                "doable": shown.DOABLE.get(view["status"], ()),
            }

        self._look(request, form, verb, "delivery.html", told)

    def _look(
        self,
        request: Request,
        form: Format,
        verb: Verb,
        template: str,
        told: Callable[[Any], Mapping[str, Any]],
    ) -> None:
        """Answer with a page of what a verb reads."""

        def then(found: Any) -> None:
            show(self._reads, request, form, template, lambda: {"here": _HERE, **told(found)})

        self._submit(Call(verb, later(request, form, then), durable=False, waits=False))

    # -- forms

    def forms(self) -> dict[str, Handler]:
        """Give what answers each form, by its path below that of the dashboard."""
        terms, chance = self._terms, secrets.token_bytes

        def turn(move: Turn) -> Callable[[int, Mapping[str, str]], Verb]:
            return lambda key, given: steer(terms, key, move, b"", chance)

        turns: Mapping[str, Callable[[int, Mapping[str, str]], Verb]] = {
            "pause": turn("pause"),
            "resume": turn("resume"),
            "disable": turn("disable"),
            "enable": turn("enable"),
            "ask": lambda key, given: registry.resend(terms, key, chance),
            "replay": lambda key, given: steer(terms, key, "replay", self._again(given), chance),
            "test": lambda key, given: redelivery.try_out(terms, key, Raw(b"null")),
        }
        of_deliveries: Mapping[str, Callable[[int, Mapping[str, str]], Verb]] = {
            "send": lambda key, given: redelivery.redeliver(terms, key, force=True),
            "stop": lambda key, given: redelivery.cancel(terms, key),
        }
        return {
            **{
                f"/subscriptions/{{id}}/{name}": self._form("sub_", name, verb)
                for name, verb in turns.items()
            },
            **{
                f"/deliveries/{{id}}/{name}": self._form("dlv_", name, verb)
                for name, verb in of_deliveries.items()
            },
        }

    def _form(self, prefix: str, action: str, verb_of: Callable[[int, Mapping[str, str]], Verb]) -> Handler:
        """Give what answers a form: a verb is done, and the page that shows what became of it is gone to."""
        fields = {"include", "since"} if action == "replay" else set[str]()
        where = {"sub_": "subscriptions", "dlv_": "deliveries"}[prefix]

        def handle(request: Request, form: Format, params: tuple[str, ...]) -> None:
            verb = verb_of(self._key(params[0], prefix), query_pairs(request.body, fields))

            def done(result: Any) -> None:
                path = (
                    f"/deliveries/dlv_{self._ids.write(result.id)}"
                    if action == "test"
                    else f"/{where}/{params[0]}"
                )
                go_to(request, UI + path, action)

            self._submit(Call(verb, later(request, form, done)))

        return handle

    def _again(self, given: Mapping[str, str]) -> bytes:
        """Give what a form of sending again says, as the API has it."""
        since = given.get("since", "")
        if since not in _PERIODS:
            raise bad_query(f"since: {since[:64]!r} is not valid; expected {', '.join(_PERIODS)}", "since")
        return msgspec.json.encode(
            {"since": str(self._now() - _PERIODS[since]), "include": given.get("include", "failed")}
        )

    def _key(self, text: str, prefix: str) -> int:
        key = self._ids.read(text.removeprefix(prefix)) if text.startswith(prefix) else -1
        if key < 0:
            raise NotFound(f"there is nothing with the id {text[:64]!r}; expected {prefix}… of this store")
        return key


def _topic_path(name: str) -> str:
    return f"{_HERE}/{encoded(name)}"


def _policy(view: View, preview: Preview) -> dict[str, Any]:
    """Give what pages show of the policy that holds."""
    return {
        "phases": shown.phases(preview),
        "total": shown.total(preview),
        "holds": shown.holds(view["effective_delivery_policy"]),
        "sources": view["policy_sources"],
        "lab": view["lab"],
    }


def add_routes(router: Router, context: Context, terms: TopicTerms) -> None:
    """Serve the pages and their forms, whatever `Accept` says."""
    pages = Webhooks(context, terms)
    for path, page in (
        (_HERE, pages.topics),
        (_HERE + "/{topic}", pages.topic),
        (UI + "/subscriptions/{subscription}", pages.subscription),
        (UI + "/deliveries/{delivery}", pages.delivery),
    ):
        router.add("GET", path, paged(page), streams=True)
    for path, handler in pages.forms().items():
        router.add("POST", UI + path, paged(handler), streams=True, most_bytes=MOST_BYTES)
