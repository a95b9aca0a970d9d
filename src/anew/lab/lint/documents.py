"""Reads policies out of TOML and JSON text, with the names they have there and the lines they stand on.

A document is a policy, a list of policies, or a mapping of names to policies. Six names of a mapping are
taken: ``policies`` (a mapping or a list), ``policy``, ``server`` (whose ``default-policy`` counts, so that
``anew.toml`` can be given as it is), ``fwp`` (likewise: its ``policies``), ``client`` (passed over) and ``lint`` (what to ignore,
what to state).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

import msgspec

from anew.backoff import DEFAULT_LIMIT, Policy
from anew.backoff.form import SHARED
from anew.backoff.kinds import Integer, did_you_mean
from anew.errors import InvalidInput
from anew.lab.lint import check_rules
from anew.lab.lint.finding import MAX_JOBS, MAX_OUTAGES
from anew.lab.lint.texts import POLICIES, Lines, Unreadable, parse, strict_json
from anew.units import DAY_MS, parse_duration, parse_duration_with_unit, parse_share, refused, shown

MAX_BYTES: Final = 1 << 20
MAX_POLICIES: Final = 1_000

_FIELDS: Final = {"preset", "curve", "phases", "base_ms", "exponent", "jitter_ms", "max_attempts", *SHARED}
_TAKEN: Final = ("policies", "policy", "server", "client", "fwp", "lint")
_WAITS: Final = ("curve", "phases")
_PLAIN: Final = {"curve": {"constant": "1s"}}
"""In the place of waits that cannot be read, to see whether the rest of a policy can."""

_MISTAKES: Final = 8
"""So many mistakes of one policy are told."""

_DEFAULT: Final = "default-policy"
_RETENTION: Final = "default-dead-job-retention"
_ZIZQ: Final = {
    "default-backoff-base": "base_ms",
    "default-backoff-exponent": "exponent",
    "default-backoff-jitter": "jitter_ms",
}


_FAKTORY_DEAD_MS: Final = 180 * DAY_MS
"""How long dead jobs of the Faktory Work Protocol are kept, whatever the server's setting. Source: Faktory 1.10."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One policy of a document, on the line on which it begins: 1 = first; None: not known."""

    file: str
    name: str
    value: Any
    line: int | None
    default_limit: int | None = DEFAULT_LIMIT
    """Retries if it names no limit."""
    dead_retention_ms: int | None = None
    """How long its dead jobs are kept; None: as is stated for all."""

    def policy(self) -> Policy:
        """Build the policy, or raise `InvalidPolicy`."""
        return Policy.from_json(self.value, default_limit=self.default_limit)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What cannot be read: a sentence that names field, value and what was expected."""

    file: str
    line: int | None = None
    policy: str = ""
    """The policy's name, "" if it is about the document."""
    field: str = ""
    """Dotted path of the offending field, "" if there is none."""
    message: str


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What a document holds: policies that can be built, what cannot be read, and its ``lint`` table; see `read_table`."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[Problem, ...] = ()
    stated: dict[str, Any] = {}


def read_document(content: bytes, file: str) -> Document:
    """Read a document.

    Args:
        content: TOML or JSON text; which of the two follows from the name's ending, or else from the text.
        file: Its name; a policy that has none is called after it.

    Returns:
        What it holds. Nothing is raised: what cannot be read is among the problems.
    """
    text = ""
    try:
        if len(content) > MAX_BYTES:
            message = f"size: {len(content):,} bytes are too many; expected at most {MAX_BYTES:,}"
            raise InvalidInput(message, field="size")
        text = content.decode("utf-8-sig")
        value = parse(text, PurePath(file).suffix.lower())
        reader = _Reader(file, Lines(text))
        found = list(reader.entries(value))
        table = value if isinstance(value, dict) else {}
        stated, wrong = _stated(table, [entry.name for entry in found])
    except UnicodeDecodeError as error:
        return _unreadable(file, f"byte {error.start} is not UTF-8; expected text")
    except Unreadable as error:
        return _unreadable(file, str(error), error.line)
    except InvalidInput as error:
        line = Lines(text).of_field(error.field) if error.field != "size" else None
        return _unreadable(file, str(error), line, error.field)
    if not found and not wrong and not {"server", "client", "fwp", "lint"} & table.keys():
        return _unreadable(file, f"there is no policy in it; expected {POLICIES}")
    problems = [[*reader.problems(entry)] for entry in found]
    return Document(
        entries=tuple(entry for entry, none in zip(found, problems, strict=True) if not none),
        problems=(*map(reader.problem_of, wrong), *(problem for each in problems for problem in each)),
        stated=stated,
    )


def _unreadable(file: str, message: str, line: int | None = None, field: str = "") -> Document:
    return Document(problems=(Problem(file=file, line=line, field=field, message=message),))


def _stated(value: Mapping[str, Any], policies: Sequence[str]) -> tuple[dict[str, Any], list[InvalidInput]]:
    """Give the ``lint`` table, and what is wrong with it; what is right of it holds all the same.

    How long the dead are kept may also stand among the server's settings.
    """
    stated, wrong = read_table(value.get("lint", {}))
    for name in ("ignore", "select"):
        kept = []
        for word in stated.get(name, ()):
            try:
                check_rules([word], f"lint.{name}", policies)
                kept.append(word)
            except InvalidInput as error:
                wrong.append(error)
        if name in stated:
            stated[name] = tuple(kept)
    server = value.get("server")
    for setting in (_RETENTION, _RETENTION.replace("-", "_")):
        if isinstance(server, Mapping) and setting in server and "dead_retention_ms" not in stated:
            try:
                stated["dead_retention_ms"] = parse_duration(server[setting], field=f"server.{setting}")
            except InvalidInput as error:
                wrong.append(error)
    return stated, wrong


class _Reader:
    """Finds the policies of one document."""

    def __init__(self, file: str, lines: Lines) -> None:
        self._file, self._lines = file, lines
        self._stem = PurePath(file).stem if file != "-" else "policy"

    def entries(self, value: Any) -> Iterator[Entry]:
        """Give every policy of a document, with its name."""
        if isinstance(value, (list, str)) or not isinstance(value, Mapping) or _FIELDS & value.keys():
            yield from self._several(value, self._stem, ())
            return
        limit: int | None = DEFAULT_LIMIT
        if isinstance(value.get("server"), Mapping):
            server = {key.replace("_", "-"): inner for key, inner in value["server"].items()}
            limit = _limit(server.get("default-retry-limit", DEFAULT_LIMIT))
            yield from self._default(server)
        if isinstance(value.get("fwp"), Mapping):
            yield from self._faktory(value["fwp"].get("policies", []))
        for key in ("policy", "policies"):
            if key in value:
                yield from self._several(value[key], key, (key,), limit)
        rest = {name: inner for name, inner in value.items() if name not in _TAKEN}
        yield from self._several(rest, self._stem, (), limit)

    def problem_of(self, error: InvalidInput) -> Problem:
        """Give what is wrong with the ``lint`` table, or a server's setting."""
        table, _, name = error.field.partition(".")
        line = self._lines.of_field(name or table, self._lines.of_path((table,)))
        return Problem(file=self._file, line=line, field=error.field, message=str(error))

    def problems(self, entry: Entry) -> Iterator[Problem]:
        """Give what is wrong with a policy, part by part: what has a mistake is left aside to see what else has one."""
        for count in range(_MISTAKES):
            try:
                entry.policy()
                return
            except InvalidInput as error:
                part, value = re.split(r"[.[]", error.field, maxsplit=1)[0], entry.value
                written = isinstance(value, Mapping) and part in value
                if count and not written:
                    return  # what is missing now was left aside
                yield self._problem(entry, error)
                if not written or part == "preset":
                    return
                rest = {name: inner for name, inner in value.items() if name != part}
                entry = msgspec.structs.replace(entry, value=rest | (_PLAIN if part in _WAITS else {}))

    def _problem(self, entry: Entry, error: InvalidInput) -> Problem:
        line = self._lines.of_field(error.field, entry.line) or entry.line
        return Problem(file=self._file, line=line, policy=entry.name, field=error.field, message=str(error))

    def _several(
        self, value: Any, name: str, path: tuple[str | int, ...], limit: int | None = DEFAULT_LIMIT
    ) -> Iterator[Entry]:
        """Give one policy, a list of them, or a mapping of names to them."""
        if isinstance(value, list):
            named = [(f"{name}[{index}]", inner, (*path, index)) for index, inner in enumerate(value)]
        elif isinstance(value, Mapping) and not _FIELDS & value.keys():
            named = [(str(key), inner, (*path, key)) for key, inner in value.items()]
        else:
            named = [(name, value, path)]
        if len(named) > MAX_POLICIES:
            message = f"policies: {len(named):,} are too many; expected at most {MAX_POLICIES} in one file"
            raise InvalidInput(message, field="policies")
        for own, inner, place in named:
            line = self._lines.of_path(place)
            yield Entry(file=self._file, name=own, value=inner, line=line, default_limit=limit)

    def _faktory(self, rules: Any) -> Iterator[Entry]:
        """Give the policies of ``[[fwp.policies]]``; they are counted from 1, as the server's errors count them."""
        if not isinstance(rules, list):
            raise refused("fwp.policies", rules, "an array of tables")
        for index, rule in enumerate(rules):
            value = rule.get("policy") if isinstance(rule, Mapping) else rule
            own = {"preset": value} if isinstance(value, str) else value
            if isinstance(own, Mapping):
                # Each job of that protocol has a number of retries, so the policy's own says nothing.
                own = {name: inner for name, inner in own.items() if name not in ("limit", "max_attempts")}
            yield Entry(
                file=self._file,
                name=f"fwp.policies[{index + 1}]",
                value=own,
                line=self._lines.of_path(("fwp", "policies", index)),
                dead_retention_ms=_FAKTORY_DEAD_MS,
            )

    def _default(self, server: Mapping[str, Any]) -> Iterator[Entry]:
        """Give the default policy of ``anew.toml``: its own, or Zizq's three numbers."""
        value = server.get(_DEFAULT)
        if isinstance(value, str):
            try:
                value = strict_json(value) if value.lstrip().startswith("{") else {"preset": value}
            except (ValueError, RecursionError) as error:
                raise refused(f"server.{_DEFAULT}", value, f"a policy as JSON ({error})") from None
        zizq = {inner: server[name] for name, inner in _ZIZQ.items() if name in server}
        if value is None and zizq:
            value = {name: _zizq(name, given) for name, given in zizq.items()}
        if value is None:
            return
        if isinstance(value, Mapping) and "default-retry-limit" in server:
            # It wins over the policy's own limit, as it does in the server.
            own = {name: inner for name, inner in value.items() if name != "max_attempts"}
            value = own | {"limit": _limit(server["default-retry-limit"])}
        line = self._lines.of_field(_DEFAULT) or self._lines.of_field("default-backoff-base")
        yield Entry(file=self._file, name=_DEFAULT, value=value, line=line)


def _zizq(name: str, given: Any) -> Any:
    """Give one of Zizq's three numbers, a duration as whole milliseconds, as the server reads it."""
    return parse_duration(given, field=name) if isinstance(given, str) and name != "exponent" else given


def _limit(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise refused("server.default-retry-limit", shown(value), "a whole number from 0")
    return value


# ---- what is stated beside the policies, in the ``lint`` table or by the options of the same names


def _share(value: Any, field: str) -> float:
    """Read a share; 1 could be all of them or one in a hundred, and is refused."""
    share = parse_share(value)
    if share is None or share == 1:
        raise refused(field, value, 'a share from 0 to less than 1, or text such as "1 %"')
    return share


def _words(value: Any, field: str) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(word, str) for word in values):
        raise refused(field, value, "a list of names of rules")
    return tuple(values)


def _durations(value: Any, field: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        return (parse_duration_with_unit(value, field),)
    if len(value) > MAX_OUTAGES:
        message = f"{field}: {len(value)} outages are too many; expected at most {MAX_OUTAGES}"
        raise InvalidInput(message, field=field)
    return tuple(parse_duration_with_unit(each, f"{field}[{index}]") for index, each in enumerate(value))


_KINDS: Final[Mapping[str, tuple[str, Callable[[Any, str], Any]]]] = {
    "ignore": ("ignore", _words),
    "select": ("select", _words),
    "jobs": ("jobs", Integer(1, MAX_JOBS).read),
    "outage": ("outages_ms", _durations),
    "deaths": ("deaths", _share),
    "dead-retention": ("dead_retention_ms", parse_duration_with_unit),
    "payload-retention": ("payload_retention_ms", parse_duration_with_unit),
}

NAMES: Final = tuple(_KINDS)
"""What may be stated: the names of the options of ``anew policy lint``."""


def read_table(value: Any, prefix: str = "lint.") -> tuple[dict[str, Any], list[InvalidInput]]:
    """Read what is stated.

    Args:
        value: The table.
        prefix: Stands before the names of fields in errors.

    Returns:
        The fields of a `Context`, ``select`` and ``ignore``, as far as they can be read; and what cannot be.
    """
    expected = f"one of: {', '.join(NAMES)}"
    if not isinstance(value, Mapping):
        return {}, [refused("lint", value, f"a table with {expected}")]
    stated: dict[str, Any] = {}
    wrong = []
    for key, inner in value.items():
        field = f"{prefix}{key}"
        if (name := str(key).replace("_", "-")) not in _KINDS:
            message = f"{field}: is no known field; expected {expected}{did_you_mean(name, NAMES)}"
            wrong.append(InvalidInput(message, field=field, value=inner))
            continue
        attribute, read = _KINDS[name]
        try:
            stated[attribute] = read(inner, field)
        except InvalidInput as error:
            wrong.append(error)
    return stated, wrong
