"""Writes what a call is given in the form that a request has: times, filters, paths, bodies."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import msgspec

from anew.clock import SystemClock
from anew.errors import InvalidInput, Unreachable
from anew.units import format_duration_short, parse_duration_with_unit, refused

Moment: TypeAlias = int | datetime.datetime
"""An instant: epoch milliseconds, or a datetime with a time zone."""

Period: TypeAlias = datetime.timedelta | str
"""A duration: a timedelta, or text with a unit such as ``"90s"`` or ``"1h30m"``. A bare number is refused, because 30
would mean seconds to some and milliseconds to others."""

Names: TypeAlias = str | Iterable[str]
"""One name or several: a text is one name, never its letters."""

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)


def epoch_ms(value: Moment, field: str) -> int:
    """Give an instant in epoch milliseconds, a fraction rounded up: nothing is to run early.

    Raises:
        InvalidInput: It is a datetime without a time zone, or no instant at all; names `field`.
    """
    if isinstance(value, datetime.datetime):
        if value.utcoffset() is None:
            raise InvalidInput(
                f"{field}: {value!r} has no time zone; expected an aware datetime, such as "
                "datetime.now(UTC) gives, or epoch milliseconds",
                field=field,
                value=value,
            )
        return _whole_ms(value - _EPOCH)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise refused(field, value, "an aware datetime, or epoch milliseconds")


def period_ms(value: Period, field: str, *, low: int = 0) -> int:
    """Give a duration of at least `low` milliseconds, a fraction rounded up.

    Raises:
        InvalidInput: It is too short, a number without a unit, or no duration at all; names `field`.
    """
    ms = _whole_ms(value) if isinstance(value, datetime.timedelta) else parse_duration_with_unit(value, field)
    if ms < low:
        raise refused(field, value, f"at least {format_duration_short(low)}")
    return ms


def moment_or_delay(at: Moment | None, delay: Period | None, field: str) -> int | None:
    """Give the instant that is meant by a moment, or by a delay from now on this machine's clock; None by neither.

    Raises:
        InvalidInput: Both are given, or the one that is given is not a time.
    """
    if delay is None:
        return None if at is None else epoch_ms(at, field)
    if at is not None:
        raise InvalidInput(f"{field} and delay: both say when; expected one of them", field=field)
    return SystemClock().now() + period_ms(delay, "delay")


def retention_ms(value: Mapping[str, int | Period | None]) -> dict[str, int | None]:
    """Give a retention in milliseconds: ``completed_ms`` and ``dead_ms``, where a number is milliseconds already."""
    return {
        name: given if given is None or isinstance(given, int) else period_ms(given, f"retention.{name}")
        for name, given in value.items()
    }


def changes_body(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Write the changes of a patch: ``delay`` becomes ``ready_at``, datetimes and timedeltas become milliseconds."""
    body = dict(changes)
    delay = body.pop("delay", None)
    if delay is not None or body.get("ready_at") is not None:
        body["ready_at"] = moment_or_delay(body.get("ready_at"), delay, "ready_at")
    if isinstance(body.get("retention"), Mapping):
        body["retention"] = retention_ms(body["retention"])
    return body


def names(value: Names, field: str) -> tuple[str, ...]:
    """Give one name or several as a tuple.

    Raises:
        InvalidInput: One of them is no text.
    """
    if not isinstance(value, Iterable):
        raise refused(field, value, "text, or several")
    given = (value,) if isinstance(value, str) else tuple(value)
    for name in given:
        if not isinstance(name, str):
            raise refused(field, name, "text")
    return given


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """A set of conditions that must all hold. Nothing set means every job.

    Attributes:
        id, jid, status, queue, type: Any of these values, one (``"mail"``) or several (``["mail", "web"]``); empty means all.
        error_type: Any of these as the class of its latest failure, such as ``"TimeoutError"`` (Anew).
        state: The same by Anew's own names, which tell dead from cancelled jobs and scheduled from retrying ones (Anew).
        priority, attempts: A number or an inclusive range: ``7``, ``"10..20"``, ``"..5"``, ``"9.."``.
        filter: An expression of jq over payloads, such as ``".user_id == 42"``: any output but false and null selects a job.
        ready_at: The same in epoch ms; or an aware datetime; or a pair of instants, each of which may be None.

    Raises:
        InvalidInput: A value is empty, or one of those that may be several holds a comma: the server would read it as no condition
            or as two.
    """

    id: Names = ()
    jid: Names = ()
    status: Names = ()
    queue: Names = ()
    type: Names = ()
    priority: str | int | None = None
    ready_at: str | Moment | tuple[Moment | None, Moment | None] | None = None
    attempts: str | int | None = None
    state: Names = ()
    filter: str | None = None
    error_type: Names = ()

    def __post_init__(self) -> None:
        if self.filter is not None and not (isinstance(self.filter, str) and self.filter.strip()):
            raise refused("filter", self.filter, "an expression of jq, such as .user_id == 42")
        for field in ("id", "jid", "status", "queue", "type", "state", "error_type"):
            object.__setattr__(self, field, names(getattr(self, field), field))
        object.__setattr__(self, "ready_at", _range_text(self.ready_at))
        for field, value in self.given().items():
            if field == "filter":
                continue
            for item in (value,) if isinstance(value, str) else value:
                if not item.strip() or "," in item:
                    raise refused(field, item, "a value without commas")

    def given(self) -> dict[str, str | tuple[str, ...]]:
        """The conditions that are set."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {
            name: str(value) if isinstance(value, int) else value
            for name, value in values.items()
            if value not in (None, ())
        }

    def also(self, *, id: Names = (), status: Names = (), state: Names = ()) -> Filters:
        """The same conditions, with these in place of its own where they are given."""
        return dataclasses.replace(
            self, id=id or self.id, status=status or self.status, state=state or self.state
        )

    def query(self) -> dict[str, str]:
        """The conditions as query parameters, values percent-encoded, the commas between them literal."""
        return {
            name: ",".join(quote(item, safe="") for item in ((value,) if isinstance(value, str) else value))
            for name, value in self.given().items()
        }

    def require_some(self, *, everything: bool) -> None:
        """Make sure that a change of all jobs is meant where no condition is set.

        Raises:
            InvalidInput: It has not been said.
        """
        if not self.given() and not everything:
            raise InvalidInput("filters: none given; expected at least one condition, or everything=True")


def job_path(job_id: str, verb: str = "") -> str:
    """Give the path of a job, or of something that is done to it.

    Raises:
        InvalidInput: The id is empty, which would be the path of all jobs.
    """
    if not job_id:
        raise InvalidInput("id: '' is not valid; expected the id of a job", field="id", value=job_id)
    return f"/jobs/{quote(job_id, safe='')}" + (f"/{verb}" if verb else "")


def queue_path(queue: str, verb: str) -> str:
    """Give the path of something that is done to a queue.

    Raises:
        InvalidInput: The name is empty.
    """
    if not queue:
        raise refused("queue", queue, "the name of a queue")
    return f"/v1/queues/{quote(queue, safe='')}/{verb}"


def local_path(link: str) -> str:
    """Give a link that the server gave, to be followed as it is.

    Raises:
        Unreachable: It leads to another server: the token would go with it.
    """
    if not link.startswith("/") or link.startswith("//"):
        raise Unreachable(f"the server gave a link that is no local path: {link[:100]!r}")
    return link


def target(path: str, parameters: Mapping[str, str]) -> str:
    """Join a path and parameters that are encoded already."""
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    return f"{path}?{query}" if query else path


def json_body(value: Any) -> bytes:
    """Write a body.

    Raises:
        InvalidInput: Something in it is no JSON value.
    """
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the request cannot be written as JSON: {error}") from error


def _whole_ms(value: datetime.timedelta) -> int:
    return -(-value // _MILLISECOND)


def _range_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        ends = ["" if end is None else str(epoch_ms(end, "ready_at")) for end in value]
        return "..".join(ends) if any(ends) else None
    return str(epoch_ms(value, "ready_at"))  # type: ignore[arg-type]  # which refuses what is no instant
