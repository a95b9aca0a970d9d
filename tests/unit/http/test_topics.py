"""How the routes of topics tell what they refuse."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from anew.errors import InvalidInput, MalformedRequest
from anew.http.formats import JSON
from anew.http.topics import PROBLEM, TopicRoutes, problem
from anew.net.seam import Request
from anew.topics.asked import decoded
from anew.topics.bodies import TopicBody

from .asked import Asked


class _Answered:
    status = 0
    body: Any = None

    def reply(self, status: int, body: bytes, *_: object) -> None:
        self.status, self.body = status, msgspec.json.decode(body)


def refused(body: bytes) -> _Answered:
    answered = _Answered()
    with pytest.raises(InvalidInput) as refusal:
        decoded(body, TopicBody)
    problem(cast(Request, answered), JSON, refusal.value)
    return answered


@pytest.mark.parametrize(
    ("body", "pointer"),
    [(b"[]", ""), (b"7", ""), (b'{"retention":[]}', "/retention"), (b'{"x/y":1}', "/x~1y")],
)
def test_a_value_of_another_type_is_told_by_its_pointer_the_whole_body_by_an_empty_one(
    body: bytes, pointer: str
) -> None:
    answered = refused(body)
    assert answered.status == 422
    (error,) = answered.body["errors"]
    assert (error["pointer"], error["detail"]) == (pointer, answered.body["detail"])


def test_what_is_no_json_has_no_pointer() -> None:
    answered = refused(b"{")
    assert issubclass(MalformedRequest, InvalidInput)
    assert (answered.status, "errors" in answered.body) == (400, False)


def test_what_cannot_be_shown_is_answered_all_the_same() -> None:
    """Its client would wait for as long as it is patient."""
    commit = SimpleNamespace(submit=lambda op: op.done(object()))
    context: Any = SimpleNamespace(commit=commit, engine=SimpleNamespace(ids=None, clock=None))
    nothing: Any = None
    request = Asked("GET", "/v1/topics")
    TopicRoutes(context, nothing, nothing, nothing).list_topics(request, JSON, ())
    assert (request.answer.status, request.answer.content_type) == (500, PROBLEM)
    assert msgspec.json.decode(request.answer.body)["code"] == "internal_error"
