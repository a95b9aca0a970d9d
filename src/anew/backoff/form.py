"""Short forms of a policy, expanded into the full one: presets, Zizq's three numbers, ``max_attempts``."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from anew.backoff.fields import read_object
from anew.backoff.kinds import MAX_NUMBER, Integer, Kind, Number, invalid_policy, missing
from anew.backoff.presets import find_preset
from anew.errors import InvalidPolicy
from anew.units import shown

_MAX_DEPTH: Final = 16
_MAX_NODES: Final = 4_000
_U32: Final = 2**32 - 1
_F32_MAX: Final = 3.4028235677973362e38
"""The largest number that 32 bits still round to a finite one, such as the 3.4028235e38 that shortest printing gives."""

SHARED: Final = (
    "cap", "jitter", "floor", "ceil", "limit", "deadline", "on_deadline", "on_exhausted", "override",
)  # fmt: skip
"""Fields that may stand beside a preset or beside Zizq's three, and win over what those say."""

_ZIZQ: Final[dict[str, Kind]] = {
    "base_ms": Integer(0, _U32),
    "exponent": Number(-_F32_MAX, _F32_MAX),
    "jitter_ms": Integer(0, _U32),
}

_ATTEMPTS: Final = ("max_attempts",)
"""Read before the fields are, in any form."""


class DoubledName(InvalidPolicy, ValueError):
    """A name stands in one JSON object twice; a ValueError too, as all that `json.loads` raises."""


def json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object from its pairs, for ``json.loads``.

    Raises:
        DoubledName: A name stands there twice, so one of two values would silently be lost.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            message = f"{shown(name)} stands in one object twice; expected different names"
            raise DoubledName(message, field=name, value=value)
        found[name] = value
    return found


def expand(value: Any) -> Mapping[str, Any]:
    """Give the full form of any accepted form, its own fields not checked yet.

    Args:
        value: Decoded JSON.

    Raises:
        InvalidPolicy: It is nested too deeply, or a short form does not fit.
    """
    _bounded(value)
    if isinstance(value, str):
        value = {"preset": value}
    if not isinstance(value, Mapping):
        expected = 'an object such as {"curve": ...}, {"preset": "zizq"}, or the name of a preset'
        raise invalid_policy("policy", value, expected)
    body = _limit_from_attempts(value)
    if "preset" in body:
        return _from_preset(body)
    if body.keys() & _ZIZQ.keys():
        return _from_zizq(body)
    return read_object(body, ("curve", "phases", *SHARED), "", besides=(*_ATTEMPTS, "preset", *_ZIZQ))


def _bounded(value: Any) -> None:
    """Refuse deep or bushy JSON before any recursion enters it."""
    level, nodes, depth = [value], 0, 0
    while level:
        nodes, depth = nodes + len(level), depth + 1
        if depth > _MAX_DEPTH or nodes > _MAX_NODES:
            raise invalid_policy("policy", value, f"at most {_MAX_DEPTH} levels and {_MAX_NODES} values")
        level = [inner for outer in level for inner in _inside(outer)]


def _inside(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, (list, tuple)) else []


def _limit_from_attempts(value: Mapping[str, Any]) -> dict[str, Any]:
    body = dict(value)
    if "max_attempts" in body:
        attempts = Integer(1, optional=True).read(body.pop("max_attempts"), "max_attempts")
        if "limit" in body:
            raise invalid_policy(
                "max_attempts", attempts, "either limit or max_attempts (limit + 1), not both"
            )
        body["limit"] = None if attempts is None else attempts - 1
    return body


def _from_zizq(body: dict[str, Any]) -> Mapping[str, Any]:
    read_object(body, (*_ZIZQ, *(name for name in SHARED if name != "jitter")), "", besides=_ATTEMPTS)
    for name, kind in _ZIZQ.items():
        if name not in body:
            raise missing(name, "base_ms, exponent and jitter_ms together")
        body[name] = kind.read(body[name], name)
    # Zizq keeps the exponent in 32 bits; 4.2 there is 4.19999980926513671875. Beyond the largest that a curve
    # takes, the second retry already meets 365 days, and below the smallest nothing is left of its second.
    (exponent,) = struct.unpack("<f", struct.pack("<f", body.pop("exponent")))
    exponent = max(-MAX_NUMBER, min(exponent, MAX_NUMBER))
    base, jitter = body.pop("base_ms"), body.pop("jitter_ms")
    return {
        "curve": {"power": {"base": base, "exponent": exponent, "origin": 1}},
        "jitter": {"grow": jitter} if jitter else "none",
        **body,
    }


def _from_preset(body: dict[str, Any]) -> Mapping[str, Any]:
    found = find_preset(body.pop("preset"))
    known = (*found.parameters, *(field for field in ("curve", *SHARED) if field not in found.parameters))
    attempts = [name for name in _ATTEMPTS if name not in found.parameters]
    read_object(body, known, "", besides=(*attempts, "preset"), foreign=found.names)
    given = {name: body.pop(name) for name in found.parameters if name in body}
    if "max_attempts" in found.parameters and body.get("limit") is not None:
        # A law whose curve depends on the limit, which max_attempts has become by now.
        retries: Any = Integer().read(body["limit"], "limit")
        given["max_attempts"] = retries + 1
    parameters = {name: found.parameters[name].read(value, name) for name, value in given.items()}
    return {**found.build(**parameters), **body}
