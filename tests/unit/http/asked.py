"""A request by hand on the application's side of the seam: what was answered can be read off it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from anew.net.seam import App, Headers, Request, Stream, type_json


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as the application gave it."""

    status: int
    body: bytes
    content_type: bytes | None
    extra: Headers
    reason: str = ""

    @property
    def data(self) -> Any:
        """The body as JSON."""
        assert self.content_type == type_json
        return json.loads(self.body)


class HandStream(Stream):
    """A reply's body that keeps what is written; the test sets `writable` and calls `on_drain` and `on_close`."""

    __slots__ = ("closed", "written")

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


class Asked(Request):
    """A request that remembers its answers; there must be exactly one.

    Args:
        target: Path and query.
        headers: Beside ``host: localhost``; underscores stand for hyphens, and None leaves a header out.

    Attributes:
        gone: To be set by the test.
        stream: What opening a stream gives; None if the peer is gone by then.
    """

    __slots__ = ("answers", "gone", "stream")

    gone: bool

    def __init__(self, method: str, target: str, body: bytes = b"", **headers: str | None) -> None:
        path, _, query = target.partition("?")
        given = {"host": "localhost"} | headers
        self.method, self.path, self.query = method.encode(), path.encode(), query.encode()
        self.headers = {
            name.replace("_", "-").encode(): value.encode()
            for name, value in given.items()
            if value is not None
        }
        self.body = body
        self.gone = False
        self.answers: list[Answer] = []
        self.stream: HandStream | None = HandStream()

    def reply(
        self, status: int, body: bytes = b"", content_type: bytes | None = type_json, extra: Headers = ()
    ) -> None:
        self.answers.append(Answer(status, body, content_type, extra))

    def open_stream(self, status: int, content_type: bytes, extra: Headers = ()) -> Stream | None:
        self.answers.append(Answer(status, b"", content_type, extra))
        return self.stream

    @property
    def answer(self) -> Answer:
        """The one answer."""
        assert len(self.answers) == 1, f"answered {len(self.answers)} times"
        return self.answers[0]


def asked(app: App, request: Asked) -> Answer:
    """Give the application a request as a wire does: its head first. A refusal's reason stands in the answer."""
    refusal = app.judge(request.method, request.path, request.headers)
    if refusal is not None:
        return Answer(refusal.status, refusal.body, refusal.content_type, refusal.extra, refusal.reason)
    app(request)
    return request.answer
