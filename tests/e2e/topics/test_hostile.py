"""Endpoints and callers that mean ill, and a live server and deliverer: whatever they say, the others get what is theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.waiting import until

from .receivers import Behaviour, Receiver, answers
from .test_deliverers import deliverers
from .test_live import STEADY, delivered, publish, serving, subscribe

GRANTED = {"webhook_allowed_origin": "*"}


@pytest.mark.parametrize(
    ("handshake", "behaviour"),
    [
        ("token", answers(200, b"[" * 4_096)),
        ("cloudevents", answers(200, webhook_allowed_rate="9" * 400, **GRANTED)),
        ("cloudevents", answers(200, webhook_allowed_rate="9" * 5_000, **GRANTED)),
    ],
)
def test_no_answer_to_a_question_ends_the_deliverer(
    handshake: str, behaviour: Behaviour, tmp_path: Path
) -> None:
    with (
        serving(tmp_path, webhook_confirmation="optional") as (server, client),
        Receiver(answers(200)) as well,
        Receiver(behaviour) as hostile,
    ):
        subscribe(client, well.url, delivery_policy={"health": STEADY})
        until(lambda: deliverers(server))
        before = deliverers(server)
        subscribe(client, hostile.url, handshake=handshake)
        hostile.wait_for(1)
        until(lambda: delivered(client, 1))  # the question itself
        publish(client)
        well.wait_for(1)
        until(lambda: delivered(client, 2 if handshake == "token" else 3))
        assert deliverers(server) == before


def test_what_is_refused_is_told_in_few_words(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, client):
        for path in ("/v1/topics/t", "/v1/topics/$events"):
            answer = client.put(path, {"x" * 200_000: 1})
            assert (answer.status, len(answer.body) < 10_000) == (422, True)
