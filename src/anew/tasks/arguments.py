"""How a task's arguments become a payload, and a payload arguments: checked against the signature on both sides.

A payload is a JSON object with the arguments by name. Types are msgspec's: everything that JSON has, dataclasses, msgspec's
Structs, TypedDicts, datetimes, UUIDs, enums, bytes, sets; and Pydantic's models, which are known by their methods. A parameter
without a type takes whatever JSON gives.
"""

from __future__ import annotations

import base64
import inspect
import math
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from anew.errors import InvalidInput, InvalidJob

MOST_BYTES: Final = 16 << 20
"""The longest payload that is written."""

MOST_RESULT_BYTES: Final = 32 << 20
"""The longest result."""

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Arguments:
    """The arguments of one function.

    Args:
        function: Whose signature holds.
        name: The task's, for errors.
        packed: Write MessagePack, which JSON carries as text; read either.
    """

    def __init__(self, function: Callable[..., Any], name: str, *, packed: bool = False) -> None:
        self._function = function
        self._name = name
        self._packed = packed
        self._signature = _signature_of(function)
        parameters = self._signature.parameters.values()
        self._names = [parameter.name for parameter in parameters]
        # `*args`, `**kwargs` and positional-only parameters have no names in a payload.
        self._loose = any(parameter.kind not in _NAMED for parameter in parameters)
        self._positional = [p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        self._shape: type[msgspec.Struct] | None = None
        self._typed = False

    # -- writing

    @property
    def names(self) -> Sequence[str]:
        """The parameters' names."""
        return self._names

    @property
    def are_named(self) -> bool:
        """Whether a payload has them by name, as JSON."""
        return not (self._loose or self._packed)

    def write(self, args: Sequence[Any], kwargs: Mapping[str, Any], *, always: Sequence[str] = ()) -> bytes:
        """Give the payload of a call.

        Args:
            args, kwargs: Of the call.
            always: Parameters that are written also where the call leaves them out.

        Raises:
            InvalidJob: The signature does not allow the call, a value has another type, or none that a payload can carry, or the
                signature names types that no payload can be read into.
        """
        if not kwargs and len(args) == len(self._names) == len(self._positional):
            values: dict[str, Any] = dict(zip(self._names, args, strict=True))
        else:
            values = self._bind(args, kwargs)
        for name in always:
            values.setdefault(name, self._signature.parameters[name].default)
        try:
            payload = self._encode(values)
        except (TypeError, ValueError, RecursionError, OverflowError) as error:
            raise InvalidJob(
                f"{self._name}: an argument cannot be written ({error}); expected values that JSON has, "
                "dataclasses, msgspec's Structs or Pydantic's models",
                field="arguments",
            ) from error
        if len(payload) > MOST_BYTES:
            raise InvalidJob(
                f"{self._name}: the arguments come to {len(payload)} bytes; expected at most {MOST_BYTES}; "
                "store them elsewhere and pass where",
                field="arguments",
            )
        if b"null" in payload and not self._packed and holds_nan(values):
            raise InvalidJob(
                f"{self._name}: an argument holds NaN or an infinity, which JSON does not have; expected finite numbers, "
                'or Anew(..., serializer="msgpack")',
                field="arguments",
            )
        shape = self._shape or self._build()
        if self._typed:
            self._decode(payload, shape)
        return payload

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidJob(
                f"{self._name}: {error}; expected {self._name}{self._signature}", field="arguments"
            ) from None
        return {"args": bound.args, "kwargs": bound.kwargs} if self._loose else bound.arguments

    def _encode(self, values: dict[str, Any]) -> bytes:
        if not self._packed:
            return _json.encode(values)
        return _json.encode({"msgpack": base64.b64encode(_msgpack.encode(values)).decode("ascii")})

    # -- reading

    def read(self, payload: bytes) -> tuple[Sequence[Any], dict[str, Any]]:
        """Give the positional and the named arguments that a payload stands for.

        A list is taken for positional arguments, as jobs of other producers have them.

        Raises:
            InvalidJob: The payload does not fit the signature: it was written by hand, or for another version of the function.
        """
        shape = self._shape or self._build()
        if payload[:1] == b"[":
            return self._from_list(payload, shape)
        found = self._decode(payload, shape)
        if self._loose:
            return found.args, found.kwargs  # type: ignore[attr-defined]
        given = ((name, getattr(found, name)) for name in self._names)
        return (), {name: value for name, value in given if value is not UNSET}

    def _from_list(self, payload: bytes, shape: type[msgspec.Struct]) -> tuple[Sequence[Any], dict[str, Any]]:
        try:
            values = msgspec.json.decode(payload, type=list[Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._unfit(str(error)) from error
        named = self._bind(values, {})
        if self._loose:
            return values, {}
        try:
            found = msgspec.convert(named, shape, dec_hook=_read_model)
        except (msgspec.ValidationError, ValueError, NotImplementedError, RecursionError) as error:
            raise self._unfit(str(error)) from error
        return (), {name: getattr(found, name) for name in named}

    def _decode(self, payload: bytes, shape: type[msgspec.Struct]) -> msgspec.Struct:
        try:
            if self._packed and payload[:11] == b'{"msgpack":':
                inner = base64.b64decode(msgspec.json.decode(payload, type=_Packed).msgpack)
                return msgspec.msgpack.decode(inner, type=shape, dec_hook=_read_model)
            return self._decoder.decode(payload)
        except (msgspec.DecodeError, ValueError, NotImplementedError, RecursionError) as error:
            raise self._unfit(str(error)) from error

    def _unfit(self, why: str) -> InvalidInput:
        why = why.replace(" - at `$.", " - at `").replace("Object ", "the call ")
        return InvalidJob(f"{self._name}: {why}; expected {self._name}{self._signature}", field="arguments")

    # -- the shape

    def _build(self) -> type[msgspec.Struct]:
        """Make the type that payloads are read into; only at the first call, since types may be named before they exist."""
        if self._loose:
            fields: list[Any] = [
                ("args", list[Any], msgspec.field(default_factory=list)),
                ("kwargs", dict[str, Any], msgspec.field(default_factory=dict)),
            ]
        else:
            hints = _hints_of(self._function)
            fields = [self._field(parameter, hints) for parameter in self._signature.parameters.values()]
            self._typed = bool(hints.keys() & set(self._names))
        try:
            shape = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
            self._decoder = msgspec.json.Decoder(shape, dec_hook=_read_model)
        except TypeError as error:  # a union whose members look alike in JSON
            raise self._unfit(str(error)) from error
        self._shape = shape
        return shape

    def _field(self, parameter: inspect.Parameter, hints: Mapping[str, Any]) -> Any:
        kind = hints.get(parameter.name, Any)
        if kind is object:
            kind = Any
        if parameter.default is inspect.Parameter.empty:
            return (parameter.name, kind)
        # Left out of the payload, the function's own default holds, also one that changes later.
        kind = kind | None if parameter.default is None and kind is not Any else kind
        return (parameter.name, typing.Union[kind, UnsetType], UNSET)  # noqa: UP007 - kinds may be any object


class _Packed(msgspec.Struct):
    msgpack: str


def _signature_of(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except Exception:  # types that do not exist yet, or for type checkers only
        return inspect.signature(function)


def _hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception:  # a type that exists for type checkers only: nothing of the function is checked
        return {}


def holds_nan(value: Any) -> bool:
    """Report whether there is a number in it, in objects too, that JSON would make null of, in silence."""
    return _has_nan(msgspec.to_builtins(value, enc_hook=_write_model))


def _has_nan(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(_has_nan(one) for one in value.values())
    return isinstance(value, list | tuple) and any(_has_nan(one) for one in value)


def _write_model(value: Any) -> Any:
    """Write what msgspec does not know: Pydantic's models."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__name__} is no such type")
    return dump(mode="json")


def _read_model(kind: type, value: Any) -> Any:
    """Read what msgspec does not know."""
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        raise NotImplementedError(f"{kind.__name__} cannot be read from a payload")
    return validate(value)  # its own error is a ValueError


_json: Final = msgspec.json.Encoder(enc_hook=_write_model)
_msgpack: Final = msgspec.msgpack.Encoder(enc_hook=_write_model)


def write_result(value: Any) -> bytes:
    """Give a result as JSON.

    Raises:
        InvalidJob: It cannot be written, or is too long.
    """
    try:
        text = _json.encode(value)
        if len(text) > MOST_RESULT_BYTES:
            raise ValueError(f"it comes to {len(text)} bytes; expected at most {MOST_RESULT_BYTES}")
        if b"null" in text and holds_nan(value):
            raise ValueError("it holds NaN or an infinity, which JSON does not have")
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidJob(f"the result cannot be written: {error}", field="result") from error
    return text


def read_result(text: bytes, kind: Any) -> Any:
    """Read a result; one that no longer has the type that the function names is given as JSON has it."""
    try:
        return msgspec.json.decode(text, type=kind, dec_hook=_read_model)
    except (msgspec.DecodeError, NotImplementedError, TypeError, ValueError):
        return msgspec.json.decode(text)
