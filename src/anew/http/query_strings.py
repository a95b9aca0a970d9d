"""Query strings: form rules, the filters that lists, counts and bulk verbs share, links to pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, unquote_to_bytes

from anew.errors import MalformedRequest
from anew.http.render import STATUS
from anew.jobs import IdText, State
from anew.jobs.codec import U64_MAX
from anew.store.selection import Filter, Page, Range

Order = Literal["asc", "desc"]

U16_MAX = (1 << 16) - 1
U32_MAX = (1 << 32) - 1

RANGES = {"priority": U16_MAX, "ready_at": U64_MAX, "attempts": U32_MAX}
"""Range filters in the order of links, with the greatest value of each."""

FILTERS = frozenset({"status", "state", "queue", "type", "id", "jid", "error_type", "filter", *RANGES})
PAGING = frozenset({"from", "order", "limit"})

STATES: dict[str, frozenset[State]] = {
    name: frozenset(state for state in State if STATUS[state] == name)
    for name in ("scheduled", "ready", "in_flight", "completed", "dead")
}
"""What each status of the API means, in the order of a job's life."""

DEFAULT_LIMIT = 50
MOST_LIMIT = 2_000

_ID = re.compile(r"[0-9a-z]{25}\Z")
_NUMBER = re.compile(r"[0-9]{1,20}\Z")
_SHOWN = 64


def query_pairs(query: bytes, known: Set[str]) -> dict[str, str]:
    """Read a query string by form rules: ``+`` is a space, what is badly encoded stays as it is.

    Args:
        query: Raw, without the question mark; empty gives nothing.
        known: The parameters that may occur, each once.

    Raises:
        MalformedRequest: A parameter is unknown or repeated.
    """
    found: dict[str, str] = {}
    for part in query.split(b"&"):
        if not part:
            continue
        name, _, value = part.partition(b"=")
        key = _decode(name)
        if key not in known:
            raise bad_query(
                f"unknown parameter {_brief(key)}; expected {', '.join(sorted(known)) or 'none'}", key
            )
        if key in found:
            raise bad_query(f"parameter {key} is given twice; expected once", key)
        found[key] = _decode(value)
    return found


def bad_query(reason: str, field: str) -> MalformedRequest:
    """Word a complaint about a query string."""
    return MalformedRequest(f"invalid query parameters: {reason}", field=field)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which jobs a request means; members are ANDed, values inside one ORed, empty means any.

    Attributes:
        status: Names as the API knows them, in the order of a job's life.
        state: Anew's own names, which tell dead from cancelled and scheduled from retrying, in that order too.
        queue, type, id, jid, error_type: Sorted by their bytes.
        ranges: Inclusive ends by the parameter's name.
        expression: Over payloads, in jq's language; None: none was given. Whoever searches by it compiles it, after all else.
    """

    status: tuple[str, ...] = ()
    state: tuple[State, ...] = ()
    queue: tuple[str, ...] = ()
    type: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    jid: tuple[str, ...] = ()
    error_type: tuple[str, ...] = ()
    ranges: Mapping[str, Range]
    expression: str | None = None

    def check_ids(self) -> None:
        """Raise MalformedRequest if an id has not the form of one: later than parsing, since other complaints may come first."""
        for job_id in self.id:
            if not _ID.match(job_id):
                raise MalformedRequest(f'invalid job ID: "{job_id[:_SHOWN]}"', field="id")

    def where(self, ids: IdText, *, visible_at: int | None) -> Filter:
        """Give the store's filter, which leaves the expression out.

        Args:
            ids: Reads public ids; those of other stores match nothing.
            visible_at: Hide ended jobs whose retention is over at this instant; None hides nothing.
        """
        states = frozenset(State)
        if self.status:
            states = frozenset[State]().union(*(STATES[name] for name in self.status))
        if self.state:
            states &= frozenset(self.state)
        keys = frozenset(key for key in map(ids.read, self.id) if key >= 0)
        return Filter(
            states=states if self.status or self.state else None,
            queues=frozenset(self.queue) or None,
            types=frozenset(self.type) or None,
            keys=keys if self.id else None,
            jids=frozenset(self.jid) or None,
            error_types=frozenset(self.error_type) or None,
            priority=self.ranges.get("priority"),
            ready_at=self.ranges.get("ready_at"),
            attempts=self.ranges.get("attempts"),
            visible_at=visible_at,
        )

    def is_everything(self) -> bool:
        """Return whether no condition at all was given."""
        named = self.queue or self.type or self.id or self.jid or self.error_type
        return not (self.status or self.state or named or self.ranges) and self.expression is None

    def parameters(self) -> list[tuple[str, str]]:
        """Give the filters as they stand in links, percent-encoded."""
        names = ("status", "state", "queue", "type", "id", "jid", "error_type")
        sets = [(name, getattr(self, name)) for name in names]
        shown = [(name, ",".join(map(encoded, values))) for name, values in sets if values]
        shown += [
            (name, _range_text(self.ranges[name], RANGES[name])) for name in RANGES if name in self.ranges
        ]
        return shown if self.expression is None else [*shown, ("filter", encoded(self.expression))]

    def query(self) -> str:
        """Give the filters as the query of a link."""
        return "&".join(f"{name}={value}" for name, value in self.parameters())


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """Which page of a list is meant.

    Attributes:
        start: The text that the page starts behind, as given; None starts at the end that the order names.
        limit: Most items, 1 to 2000.
    """

    start: str | None
    order: Order
    limit: int

    def link(self, path: str, filters: Iterable[tuple[str, str]] = ()) -> str:
        """Give this page's own path with all that is in effect."""
        start = [] if self.start is None else [("from", encoded(self.start))]
        parts = [*start, ("order", self.order), ("limit", str(self.limit)), *filters]
        return f"{path}?" + "&".join(f"{name}={value}" for name, value in parts)

    def after(self, start: str) -> Paging:
        """Give the page that follows an item."""
        return Paging(start=start, order=self.order, limit=self.limit)

    def before(self, start: str) -> Paging:
        """Give the page of what precedes an item, nearest first."""
        return Paging(start=start, order="desc" if self.order == "asc" else "asc", limit=self.limit)

    def by_key(self, ids: IdText) -> Page:
        """Give the store's page of jobs, one key longer, so that it shows whether another page follows.

        The cursor may be any text, since it is compared as one: an id of ours is left out itself, while the
        nearest key before any other text belongs to a descending page.
        """
        if self.start is None:
            return Page(order=self.order, limit=self.limit + 1)
        inclusive = self.order == "desc" and not ids.is_exact(self.start)
        after = ids.lower_bound(self.start)
        return Page(order=self.order, after=after, inclusive=inclusive, limit=self.limit + 1)


def selection(given: Mapping[str, str]) -> Selection:
    """Read the filters among a query's parameters.

    Raises:
        MalformedRequest: A status or state that does not exist, or a range that is none.
    """
    names = comma_set(given.get("status")) or frozenset()
    for name in names - STATES.keys():
        raise bad_query(f"status: {_brief(name)} is not valid; expected {', '.join(STATES)}", "status")
    states = comma_set(given.get("state")) or frozenset()
    for name in states - {*State}:
        raise bad_query(f"state: {_brief(name)} is not valid; expected {', '.join(State)}", "state")
    ranges = {name: _range(name, given[name], most) for name, most in RANGES.items() if given.get(name)}
    return Selection(
        status=tuple(name for name in STATES if name in names),
        state=tuple(state for state in State if state in states),
        queue=_sorted_set(given.get("queue")),
        type=_sorted_set(given.get("type")),
        id=_sorted_set(given.get("id")),
        jid=_sorted_set(given.get("jid")),
        error_type=_sorted_set(given.get("error_type")),
        ranges=ranges,
        expression=given.get("filter"),
    )


def selected(query: bytes) -> Selection:
    """Read a query that has filters alone; see `selection` and `Selection.check_ids`."""
    chosen = selection(query_pairs(query, FILTERS))
    chosen.check_ids()
    return chosen


def paging(given: Mapping[str, str]) -> Paging:
    """Read cursor, order and limit among a query's parameters.

    Raises:
        MalformedRequest: One of them does not fit.
    """
    order = given.get("order", "asc")
    if order not in ("asc", "desc"):
        raise bad_query(f"order: {_brief(order)} is not valid; expected asc or desc", "order")
    limit = number("limit", given["limit"], U16_MAX) if "limit" in given else DEFAULT_LIMIT
    if not 1 <= limit <= MOST_LIMIT:
        raise MalformedRequest(f"limit must be between 1 and {MOST_LIMIT}", field="limit")
    return Paging(start=given.get("from"), order="desc" if order == "desc" else "asc", limit=limit)


def number(name: str, text: str, most: int, refuse: Callable[..., MalformedRequest] = bad_query) -> int:
    """Read a whole number between 0 and `most`; `refuse` makes the error of another one."""
    value = int(text) if _NUMBER.match(text) else most + 1
    if value > most:
        expected = f"expected a whole number up to {most}"
        raise refuse(f"{name}: {_brief(text)} is not valid; {expected}", field=name)
    return value


def comma_set(text: str | None) -> frozenset[str] | None:
    """Read a comma set; empty items are skipped, and a set without items is None: no condition."""
    return frozenset(item for item in text.split(",") if item) or None if text else None


def encoded(text: str) -> str:
    """Percent-encode one value of a link; commas between values stay as they are."""
    return quote(text, safe="")


def _range(name: str, text: str, most: int) -> Range:
    low, dots, high = text.partition("..")
    first = _end(low, 0)
    last = _end(high, most) if dots else first
    if not (low or dots) or first is None or last is None or max(first, last) > most:
        wanted = f"a whole number up to {most}, or a range of two: 3, 3..7, 3.. or ..7"
        raise bad_query(f"{name}: {_brief(text)} is not valid; expected {wanted}", name)
    if first > last:
        raise bad_query(f"{name}: {_brief(text)} is not valid; expected the low end first", name)
    return first, last


def _end(text: str, default: int) -> int | None:
    """Read one end of a range; None if it is no number."""
    if not text:
        return default
    return int(text) if _NUMBER.match(text) else None


def _range_text(span: Range, most: int) -> str:
    low, high = span
    if low == high:
        return str(low)
    if low == 0:
        return f"..{high}"
    return f"{low}.." if high == most else f"{low}..{high}"


def _decode(part: bytes) -> str:
    return unquote_to_bytes(part.replace(b"+", b" ")).decode("utf-8", "replace")


def _sorted_set(text: str | None) -> tuple[str, ...]:
    return tuple(sorted(comma_set(text) or (), key=str.encode))


def _brief(text: str) -> str:
    return f'"{text}"' if len(text) <= _SHOWN else f'"{text[:_SHOWN]}…"'
