"""What is said of an endpoint that is none."""

from __future__ import annotations

import pytest

from anew.errors import InvalidInput
from anew.topics.asked import subscription_of
from anew.topics.bodies import EndpointBody, SubscriptionBody
from anew.topics.guard import GuardSettings


def test_the_type_of_an_endpoint_is_named_where_it_is_none() -> None:
    body = SubscriptionBody(EndpointBody("mail", url="mailto:ada@example.org"))
    with pytest.raises(
        InvalidInput, match="/endpoint/type: expected one of webhook, queue, got 'mail'"
    ) as found:
        subscription_of(body, GuardSettings())
    assert found.value.field == "/endpoint/type"
