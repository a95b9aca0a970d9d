"""What the outside knows of one setting: its names, how its text is read, and how its value is shown."""

from __future__ import annotations

import ipaddress
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from anew.config import tables
from anew.errors import InvalidConfig, InvalidInput
from anew.units import (
    format_duration_short,
    format_size,
    parse_duration,
    parse_size,
    reason_of,
    shown,
    without_password,
)

ValueKind = Literal[
    "choice",
    "cron",
    "database",
    "deliveries",
    "domains",
    "duration",
    "host",
    "integer",
    "names",
    "networks",
    "number",
    "origins",
    "password",
    "path",
    "policies",
    "policy",
    "proxy",
    "secret",
    "size",
    "switch",
    "text",
    "throttles",
    "url",
    "version",
]

SECRETS: Final = frozenset({"secret", "password", "database", "proxy", "deliveries"})
"""Kinds whose values are never shown, but for the part of an address, or of a delivery policy, that is no secret."""

_TABLES: Final[tuple[ValueKind, ...]] = ("cron", "policies", "throttles")
"""Kinds that only a file can hold."""

_COUNT_MAX: Final = 2**31 - 1
_TRUTH: Final = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingSpec:
    """One setting as people meet it.

    Attributes:
        name: Flag without dashes, and key of the file.
        kind: How its text is read.
        help: Effect, meaning of zero, and what goes wrong at the extremes.
        table: Table of the file that it stands in.
        low: Least value of an integer, a duration (ms) or a size (bytes).
        high: Largest value of an integer or a duration; None means what the kind itself can hold.
        choices: The words that a choice takes.
        short: One-letter flag, with its dash.
        zizq: Whether the ``ZIZQ_`` variable of that name is read too.
    """

    name: str
    kind: ValueKind
    help: str
    table: str = "server"
    low: int = 0
    high: int | None = None
    choices: tuple[str, ...] = ()
    short: str = ""
    zizq: bool = False

    def variables(self) -> tuple[str, ...]:
        """The variables that are read; the first one that is set wins."""
        if self.kind in _TABLES:
            return ()
        upper = self.name.upper().replace("-", "_")
        return (f"ANEW_{upper}", f"ZIZQ_{upper}") if self.zizq else (f"ANEW_{upper}",)

    def parse(self, value: object, source: str) -> object:
        """Read one value as people write it.

        Args:
            value: Text of a flag or variable, or a TOML value.
            source: What to call it in the error: the flag, the variable, or file and key.

        Raises:
            InvalidConfig: It does not fit; the message names source, value (no secret) and expectation.
        """
        try:
            parsed = _PARSERS[self.kind](self, value, source)
        except InvalidConfig:
            raise
        except InvalidInput as error:
            raise InvalidConfig(str(error), field=self.name, value=value) from error
        if isinstance(parsed, _Expected):
            given = "the value" if self.kind in SECRETS else shown(value)
            kept = None if self.kind in SECRETS else value
            raise InvalidConfig(
                f"{source}: {given} is not valid; expected {parsed}", field=self.name, value=kept
            )
        return parsed

    def show(self, value: object) -> str:
        """Write a value as people would give it; a secret as ``***``, nothing as ``-``."""
        if value is None or value == ():
            return "-"
        formatter = _FORMATTERS.get(self.kind)
        return formatter(value) if formatter else str(value)


class _Expected(str):
    """A parser's way to say that the value does not fit: what was expected instead."""

    __slots__ = ()


def _text(_: SettingSpec, value: object, __: str) -> object:
    return value if isinstance(value, str) and value and "\0" not in value else _Expected("text")


def _path(_: SettingSpec, value: object, __: str) -> object:
    return Path(value) if isinstance(value, str) and value and "\0" not in value else _Expected("a path")


def _version(_: SettingSpec, value: object, __: str) -> object:
    if isinstance(value, str) and re.fullmatch(r"\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?", value):
        return value
    return _Expected("a semantic version such as 0.6.1")


def _secret(setting: SettingSpec, value: object, source: str) -> object:
    text = _given_or_read(setting, value, source)
    if re.fullmatch(r"[!-~]{1,4096}", text):
        return text
    return _Expected("visible ASCII characters without spaces, or @path of a file that holds them")


def _password(setting: SettingSpec, value: object, source: str) -> object:
    return _given_or_read(setting, value, source) or _Expected("text, or @path of a file that holds it")


def _given_or_read(setting: SettingSpec, value: object, source: str) -> str:
    """Give a text, or what the file holds that it points to."""
    text = value if isinstance(value, str) else ""
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(
            f"{source}: the file cannot be read: {reason_of(error)}", field=setting.name
        ) from error


def _switch(_: SettingSpec, value: object, __: str) -> object:
    if isinstance(value, bool):
        return value
    return _TRUTH.get(str(value).lower(), _Expected("true or false"))


def _integer(setting: SettingSpec, value: object, _: str) -> object:
    number = int(value) if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value) else value
    high = _COUNT_MAX if setting.high is None else setting.high
    if isinstance(number, int) and not isinstance(number, bool) and setting.low <= number <= high:
        return number
    return _Expected(f"an integer from {setting.low} to {high}")


def _number(_: SettingSpec, value: object, __: str) -> object:
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if math.isfinite(number) and not isinstance(value, bool):
        return number
    return _Expected("a finite number")


def _duration(setting: SettingSpec, value: object, source: str) -> object:
    ms = parse_duration(value if isinstance(value, str | int) else repr(value), field=source)
    if ms < setting.low:
        return _Expected(f"at least {format_duration_short(setting.low)}")
    if setting.high is not None and ms > setting.high:
        return _Expected(f"at most {format_duration_short(setting.high)}")
    return ms


def _size(setting: SettingSpec, value: object, source: str) -> object:
    size = parse_size(value if isinstance(value, str | int) else repr(value), field=source)
    return size if size >= setting.low else _Expected(f"at least {format_size(setting.low)}")


def _choice(setting: SettingSpec, value: object, _: str) -> object:
    if isinstance(value, str) and value.lower() in setting.choices:
        return value.lower()
    return _Expected("one of " + ", ".join(setting.choices))


def _host(_: SettingSpec, value: object, __: str) -> object:
    try:
        return str(ipaddress.ip_address("127.0.0.1" if value == "localhost" else str(value).strip("[]")))
    except ValueError:
        return _Expected("an IP address such as 127.0.0.1, 0.0.0.0 or ::1")


def _each(pattern: str, expected: str) -> Callable[[SettingSpec, object, str], object]:
    """Give what reads a comma list whose members all have one form."""

    def parse(_: SettingSpec, value: object, __: str) -> object:
        items = _items(value)
        return items if all(re.fullmatch(pattern, item) for item in items) else _Expected(expected)

    return parse


def _networks(_: SettingSpec, value: object, __: str) -> object:
    items = _items(value)
    try:
        for item in items:
            ipaddress.ip_network(item)
    except ValueError:
        return _Expected("networks, such as 10.1.0.0/16,127.0.0.1/32")
    return items


def _items(value: object) -> tuple[str, ...]:
    """Give the members of a comma list, in lower case; what is no text becomes one that nothing is."""
    items = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [None]
    return tuple(item.strip().lower() if isinstance(item, str) else "?" for item in items)


def _policy(_: SettingSpec, value: object, __: str) -> object:
    # Its form alone: what the policy means is for `anew.backoff` to judge, which a leaf cannot import.
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except ValueError as error:
            return _Expected(f"a policy as JSON ({error})")
    if isinstance(value, dict) or (isinstance(value, str) and re.fullmatch(r"[a-z][a-z0-9_]*", value)):
        return value
    return _Expected("a policy as JSON or the name of a preset")


_FAKTORY: Final = ("tcp://", "tcp+tls://", "fwp://", "faktory://")


def _url(_: SettingSpec, value: object, __: str) -> object:
    if isinstance(value, str) and re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", value):
        return value.rstrip("/")
    if isinstance(value, str) and value.startswith(_FAKTORY):
        return _Expected(
            "the HTTP address, such as http://127.0.0.1:7890; the Faktory protocol's is for: anew fwp"
        )
    return _Expected("an address such as http://127.0.0.1:7890, or a file such as jobs.db")


def _database(setting: SettingSpec, value: object, source: str) -> object:
    text = _given_or_read(setting, value, source)
    if re.fullmatch(r"postgres(ql)?://[^\s/?#]*/[^\s/?#]+(\?[^\s#]*)?", text):
        return text
    return _Expected("postgresql://USER@HOST/DATABASE, or @path of a file that holds it")


_PARSERS: Final[Mapping[ValueKind, Callable[[SettingSpec, object, str], object]]] = {
    "choice": _choice,
    "cron": lambda _, value, source: tables.cron(value, source),
    "database": _database,
    "duration": _duration,
    "host": _host,
    "integer": _integer,
    "domains": _each(r"(\*\.)?[a-z0-9._-]+|[0-9a-f:.]+", "names, such as hooks.example.org,*.corp.example"),
    "names": _each(
        r"[a-z0-9._-]+|\[[0-9a-f:.]+\]",
        "host names without port, such as queue.example.org,10.0.0.5",
    ),
    "networks": _networks,
    "deliveries": _text,
    "number": _number,
    "origins": _each(
        r"https?://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?",
        "scheme, host and perhaps port, such as https://app.example.org,http://localhost:3000",
    ),
    "password": _password,
    "path": _path,
    "policies": lambda _, value, source: tables.policies(value, source),
    "policy": _policy,
    "proxy": _text,
    "secret": _secret,
    "size": _size,
    "switch": _switch,
    "text": _text,
    "throttles": lambda _, value, source: tables.throttles(value, source),
    "url": _url,
    "version": _version,
}


def _without_headers(value: object) -> str:
    """Give a delivery policy without what the headers of its requests hold."""
    try:
        policy = json.loads(str(value))
        headers = policy.get("request", {}).get("headers")
        if headers:
            policy["request"]["headers"] = dict.fromkeys(headers, "***")
        return json.dumps(policy)
    except (AttributeError, TypeError, ValueError):  # it is refused where it is read as a policy
        return "***"


_FORMATTERS: Final[Mapping[ValueKind, Callable[[object], str]]] = {
    "secret": lambda _: "***",
    "password": lambda _: "***",
    "deliveries": _without_headers,
    **dict.fromkeys(("database", "proxy"), lambda value: without_password(str(value))),
    **dict.fromkeys(_TABLES, tables.show),
    "duration": lambda value: format_duration_short(int(str(value))),
    "size": lambda value: format_size(int(str(value))).replace(" ", ""),
    "switch": lambda value: "true" if value else "false",
    **dict.fromkeys(
        ("names", "domains", "networks", "origins"),
        lambda value: ",".join(value) if isinstance(value, tuple) else str(value),
    ),
    "policy": lambda value: value if isinstance(value, str) else json.dumps(value),
    "number": lambda value: f"{value:g}",
}
