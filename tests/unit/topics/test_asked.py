"""What is said of an endpoint that is none, and of data that no job could have as its payload."""

from __future__ import annotations

import pytest

from anew.errors import InvalidInput, MalformedRequest
from anew.topics.asked import messages_of, subscription_of
from anew.topics.bodies import EndpointBody, SubscriptionBody
from anew.topics.guard import GuardSettings
from anew.topics.keys import Box
from anew.topics.terms import TopicTerms

TERMS = TopicTerms(box=Box(lambda: bytes(32)))


def test_the_type_of_an_endpoint_is_named_where_it_is_none() -> None:
    body = SubscriptionBody(EndpointBody("mail", url="mailto:ada@example.org"))
    with pytest.raises(
        InvalidInput, match="/endpoint/type: expected one of webhook, queue, got 'mail'"
    ) as found:
        subscription_of(body, GuardSettings())
    assert found.value.field == "/endpoint/type"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"1e999", ": number out of range; expected one below 1.8e308"),
        (b'{"a":[-1E+400]}', ": number out of range; expected one below 1.8e308"),
        (b"[" * 127 + b"]" * 127, " nests more than 126 levels deep"),
    ],
)
def test_data_are_refused_that_a_payload_may_not_have(data: bytes, said: str) -> None:
    one, other = b'{"type":"a","data":%b}' % data, b'{"type":"a","data":1}'
    for body, pointer in ((one, "/data"), (b'{"messages":[%b,%b]}' % (other, one), "/messages/1/data")):
        with pytest.raises(MalformedRequest) as found:
            messages_of(body, TERMS)
        assert (found.value.field, str(found.value)) == (pointer, f"{pointer}{said}")


def test_data_may_nest_as_deep_as_a_payload() -> None:
    data = b"[" * 126 + b'"1e999"' + b"]" * 126
    (message,) = messages_of(b'{"type":"a","data":%b}' % data, TERMS)
    assert bytes(message.data) == data
