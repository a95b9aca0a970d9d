"""JSON and MessagePack: which one a request's body is written in, and which one its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from anew.http.embedded_json import json_hook, msgpack_hook
from anew.net.seam import Headers, Request, codes


class Format:
    """One way to write an answer.

    Args:
        name: For people, ``JSON`` or ``MessagePack``.
        content_type: What the answer says it is.
        encode: Turns a value into bytes; maps are string-keyed.
    """

    __slots__ = ("content_type", "encode", "is_json", "name")

    def __init__(self, name: str, content_type: bytes, encode: Any) -> None:
        self.name = name
        self.content_type = content_type
        self.encode = encode
        self.is_json = name == "JSON"

    def reply(self, request: Request, status: int, value: object, extra: Headers = ()) -> None:
        """Answer with a value."""
        request.reply(status, self.encode(value), self.content_type, extra)


JSON = Format("JSON", b"application/json", msgspec.json.Encoder(enc_hook=json_hook).encode)
MSGPACK = Format("MessagePack", b"application/msgpack", msgspec.msgpack.Encoder(enc_hook=msgpack_hook).encode)

SUPPORTED = ["application/json", "application/msgpack"]
STREAMS = ["text/event-stream", "application/x-ndjson", "application/vnd.zizq.msgpack-stream"]

_JSON_TYPE = b"application/json"
_MSGPACK_TYPE = b"application/msgpack"
_STREAM_TYPE = b"application/vnd.zizq.msgpack-stream"


def answer_format(headers: Mapping[bytes, bytes]) -> Format | None:
    """Choose an answer's format by the ``Accept`` header; None if it names nothing we write.

    Matched by substring, MessagePack first, as Zizq does; quality values are not looked at.
    """
    accept = headers.get(b"accept")
    if accept is None or accept == _JSON_TYPE:  # said so, at a quarter of a search's price
        return JSON
    if _MSGPACK_TYPE in accept:
        return MSGPACK
    return JSON if _JSON_TYPE in accept or b"*/*" in accept else None


def stream_format(headers: dict[bytes, bytes]) -> str | None:
    """Choose a take stream's framing: ``ndjson``, ``msgpack`` or ``sse``; None if nothing fits."""
    accept = headers.get(b"accept")
    if accept is None:
        return "ndjson"
    if b"text/event-stream" in accept:
        return "sse"
    if _STREAM_TYPE in accept or _MSGPACK_TYPE in accept:
        return "msgpack"
    if b"application/x-ndjson" in accept or _JSON_TYPE in accept or b"*/*" in accept:
        return "ndjson"
    return None


def body_format(headers: dict[bytes, bytes]) -> Format | None:
    """Return how a body is to be read by its ``Content-Type``; None if it is nothing we read."""
    given = headers.get(b"content-type")
    if given is None or given == _JSON_TYPE:
        return JSON
    if _MSGPACK_TYPE in given:
        return MSGPACK
    return JSON if _JSON_TYPE in given else None


Unreadable = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are not of the format or do not fit, hold no UTF-8, or nest too deeply."""


def reason_of(error: Exception) -> str:
    """Return what a decoder complains of."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "a text is not UTF-8"
    return str(error).removeprefix("JSON is malformed: ").removeprefix("MessagePack data is malformed: ")


def not_acceptable(supported: list[str]) -> bytes:
    """Write the body of a 406, always in JSON."""
    return JSON.encode({"error": "not acceptable", "code": codes[406], "supported": supported})  # type: ignore[no-any-return]


class UnsupportedMediaType(Exception):
    """A body's content type is nothing that is read here."""


def written_in(request: Request) -> Format:
    """Return how to read a request's body.

    Raises:
        UnsupportedMediaType: Its content type says something else; answered with 415, whichever route it is.
    """
    form = body_format(request.headers)
    if form is None:
        raise UnsupportedMediaType
    return form


def unsupported_media_type(request: Request) -> None:
    """Answer 415, in MessagePack if that is what the client reads."""
    form = MSGPACK if _MSGPACK_TYPE in request.headers.get(b"accept", b"") else JSON
    value = {"error": "unsupported media type", "code": codes[415], "supported": SUPPORTED}
    form.reply(request, 415, value)
