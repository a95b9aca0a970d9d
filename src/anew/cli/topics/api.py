"""The routes of topics, what their commands read alike, and what they show alike."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

import click
import msgspec

from anew.cli.output import moment, now_ms, show_json
from anew.cli.remote import ClientSession, given_text
from anew.cli.values import json_problem, read_moment
from anew.errors import InvalidInput, NotFound
from anew.units import parse_duration_with_unit, refused

POLICY_HELP = "Delivery policy: JSON, @file or -; see anew policy preview."


class Api:
    """The routes of topics, with JSON in and out."""

    def __init__(self, session: ClientSession) -> None:
        self._client = session.client

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Ask, and read the answer."""
        answer = self._client.request(method, path, body)
        return msgspec.json.decode(answer) if answer else None

    def listed(self, path: str, name: str, limit: int, **query: str | None) -> Iterator[dict[str, Any]]:
        """Walk through a list, a page at a time."""
        given = {key: value for key, value in query.items() if value is not None}
        while limit > 0:
            page = self.call("GET", f"{path}?{urlencode(given | {'limit': min(limit, 100)})}")
            yield from page[name]
            limit -= len(page[name])
            if page["cursor"] is None:
                return
            given["cursor"] = page["cursor"]

    def subscription(self, text: str) -> str:
        """Give the id of a subscription: the id itself, or ``TOPIC/NAME``.

        Raises:
            NotFound: No subscription of that topic has this name.
        """
        topic, slash, name = text.partition("/")
        if not slash:
            return text
        for one in self.listed(f"/v1/topics/{quote(topic, safe='')}/subscriptions", "subscriptions", 10_000):
            if one["name"] == name:
                return str(one["id"])
        raise NotFound(
            f"topic {topic!r} has no subscription named {name!r}; list them: anew sub list {topic}"
        )


def topic_path(name: str) -> str:
    """Give the path of a topic."""
    return f"/v1/topics/{quote(name, safe='')}"


def subscription_path(api: Api, text: str, more: str = "") -> str:
    """Give the path of a subscription, or of something below it."""
    return f"/v1/subscriptions/{quote(api.subscription(text), safe='')}{more}"


def read_json(text: str, what: str) -> Any:
    """Read what an option holds or names; errors name it as `what`."""
    return msgspec.json.decode(json_text(text, what))


def json_text(text: str, what: str) -> bytes:
    """Give the JSON that an option holds or names, as it stands there: stdin and pipes can be read once.

    Raises:
        InvalidInput: It is none; the message names it as `what`.
    """
    content = given_text(text, 1 << 20)
    try:
        msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = json_problem(error)
        raise InvalidInput(f"{what}: expected JSON, a file as @file, or -: {problem}", field=what) from error
    return content


def read_since(text: str | None, name: str) -> str | None:
    """Read an instant, or a duration before now, as the API has it."""
    if text is None:
        return None
    try:
        at = now_ms() - parse_duration_with_unit(text, name)
    except InvalidInput:
        at = read_moment(text, name)
    return str(at)


def when(text: str | None, now: int) -> str:
    """Show an instant of the API."""
    if text is None:
        return "-"
    return moment(int(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1_000), now)


def read_seconds(text: str | None, name: str) -> float | None:
    """Read a duration as the API has it."""
    return None if text is None else parse_duration_with_unit(text, name) / 1_000


def read_whole_seconds(text: str | None, name: str) -> int | None:
    """Read a duration of which the API keeps whole seconds.

    Raises:
        InvalidInput: It has a fraction of one.
    """
    seconds = read_seconds(text, name)
    if seconds is None:
        return None
    if not seconds.is_integer():
        raise refused(name, text, "whole seconds")
    return int(seconds)


def given(**members: Any) -> dict[str, Any]:
    """Give the members of a request that were given."""
    return {name: value for name, value in members.items() if value is not None}


def show_policy(session: ClientSession, shown: Mapping[str, Any]) -> None:
    """Show what holds for deliveries."""
    policy = shown["effective_delivery_policy"]
    click.echo(f"retries    {_retries(policy['retry'])}")
    click.echo(f"lab        {session.client.url}{shown['lab']}")
    throttle = policy["throttle"]
    rate = "any rate" if throttle["max_per_second"] is None else f"{throttle['max_per_second']:g} a second"
    click.echo(f"throttle   {throttle['max_in_flight']} at a time, {rate}")


def _retries(retry: Mapping[str, Any]) -> str:
    if "policy" in retry:
        return f"{retry['policy']['limit']}, by {json.dumps(retry['policy'])}"
    waits = retry["schedule"]
    shown = ", ".join(f"{wait:g}" for wait in waits[:12]) + (" ..." if len(waits) > 12 else "")
    return f"{len(waits)}, after {shown or '-'} s (jitter {retry['jitter']:g})"


def sources(shown: Mapping[str, Any]) -> str:
    """Say which layer gave which block of a policy."""
    given_by = shown["policy_sources"].items()
    return ", ".join(f"{block}: {source}" for block, source in given_by if source != "default") or "default"


def show_done(session: ClientSession, shown: Mapping[str, Any], words: str) -> None:
    """Say in words, or as JSON, what was done."""
    if session.as_json:
        show_json(shown)
    else:
        click.echo(words)
