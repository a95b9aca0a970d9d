"""JSON kept as bytes, and how it gets into an answer: as it is into JSON, translated into MessagePack."""

from __future__ import annotations

import contextlib
import gc
import json
import math
import struct
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

_DEEP = 4_000
"""Interpreter frames for the deepest value stored: a payload has 126 levels, a result some 1,000."""


LONG = 65_536
"""Bytes of a value from which on the garbage collector is paused while it is built."""

_MAX_FLOAT32 = (2 - 2**-23) * 2.0**127


class Embedded:
    """A JSON value among plain values: its bytes, compact."""

    __slots__ = ("json",)

    def __init__(self, json: bytes) -> None:
        self.json = json


class Float32:
    """A number in the range of 32-bit floats: its shortest decimal in JSON, its bits in MessagePack."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value


def json_hook(value: object) -> object:
    """Write what msgspec does not know, as JSON."""
    if isinstance(value, Embedded):
        return msgspec.Raw(value.json)
    if isinstance(value, Float32):
        return shortest(value.value)
    raise TypeError(f"no way to write a {type(value).__name__}")


def msgpack_hook(value: object) -> object:
    """Write what msgspec does not know, as MessagePack."""
    if isinstance(value, Embedded):
        return msgspec.Raw(to_msgpack(value.json))
    if isinstance(value, Float32):
        return msgspec.Raw(b"\xca" + struct.pack(">f", value.value))
    raise TypeError(f"no way to write a {type(value).__name__}")


def shortest(value: float) -> float:
    """Give the 64-bit float whose shortest decimal is the shortest one that names the same 32-bit float."""
    bits = struct.pack("<f", value)
    (value,) = struct.unpack("<f", bits)
    for digits in range(1, 9):
        near = float(f"{value:.{digits}g}")
        if abs(near) <= _MAX_FLOAT32 and struct.pack("<f", near) == bits:
            return near
    return float(f"{value:.9g}")


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector: while very many lists are built, it would visit each of them many times and free none."""
    resting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if resting:
            gc.enable()


def to_msgpack(text: bytes) -> bytes:
    """Translate JSON to MessagePack; integers that it cannot hold become floats."""
    if len(text) <= LONG:
        return _to_msgpack(text)
    with collector_paused():
        return _to_msgpack(text)


def _to_msgpack(text: bytes) -> bytes:
    try:
        return msgspec.msgpack.encode(msgspec.json.decode(text))
    except (msgspec.MsgspecError, OverflowError, RecursionError):
        return _to_msgpack_slowly(text)


def _to_msgpack_slowly(text: bytes) -> bytes:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _DEEP))
    try:
        return msgspec.msgpack.encode(_fitting(json.loads(text, parse_int=_integer)))
    finally:
        sys.setrecursionlimit(limit)


def _integer(digits: str) -> int | float:
    value = int(digits) if len(digits) <= 20 else float(digits)
    return value if -(1 << 63) <= value < 1 << 64 else float(value)


def _fitting(value: Any) -> Any:
    """Replace what MessagePack has no place for: infinities by null, lone surrogates by a question mark."""
    match value:
        case dict():
            return {_fitting(name): _fitting(inner) for name, inner in value.items()}
        case list():
            return [_fitting(inner) for inner in value]
        case str():
            return value.encode("utf-8", "replace").decode("utf-8")
        case float():
            return value if math.isfinite(value) else None
        case _:
            return value
