"""What `anew listen` makes of a request, without a socket."""

from __future__ import annotations

import base64
import hashlib
import hmac
import sys

import msgspec
import pytest

from anew.errors import InvalidInput, NotSupported
from anew.topics.receiver import (
    CONFIRMATION,
    MAX_BODY,
    Incoming,
    Receiver,
    Reply,
    Script,
    Signature,
    check_signature,
    confirmation,
    consent,
    read_script,
    read_secrets,
    verify,
)

# The vectors of the notification specification, 3.6.
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
PUBLIC = "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="
BODY = b'{"type":"order.paid","timestamp":"2023-11-14T22:13:20Z","data":{"id":42}}'
HMAC = "v1,kZBIJa++qTODHNJCZURnkUXYQjSuCfnO6Dsb5d4Hg70="
ED25519 = "v1a,v38NR98SLTFqCzg9WisIZltggofmt/0Wzja+ddK+xiMM5gRzArqVbrPVWIrgDSTN94XEqHQFzYLvoq50q1sqBQ=="
OTHER = "whsec_" + base64.b64encode(b"x" * 24).decode()
AT_S = 1_700_000_000
AT = AT_S * 1_000


def incoming(
    body: bytes | None = BODY, signature: str = "", *, method: str = "POST", **headers: str
) -> Incoming:
    """A request of the message of the vectors."""
    named = {"webhook-id": "msg_0001", "webhook-timestamp": str(AT_S)}
    if signature:
        named["webhook-signature"] = signature
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    return Incoming(method=method, target="/", headers=named, body=body)


def signed(body: bytes) -> str:
    """The header that `SECRET` makes for a body of the message of the vectors."""
    content = f"msg_0001.{AT_S}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(bytes(range(32)), content, hashlib.sha256)).decode()


def asking(challenge: object = "c-1") -> bytes:
    """The body of a confirmation request."""
    return msgspec.json.encode({"type": CONFIRMATION, "data": {"challenge": challenge}})


def receiver(answers: str = "503,200", *secrets: str, confirm: bool = True) -> Receiver:
    return Receiver(Script(read_script([answers])), secrets=secrets, confirm=confirm)


# -- the script


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("200", Reply(status=200)),
        ("410", Reply(status=410)),
        ("999", Reply(status=999)),
        ("429:30", Reply(status=429, headers={"retry-after": "30"})),
        ("503:0", Reply(status=503, headers={"retry-after": "0"})),
        ("slow", Reply(status=200, wait_ms=5_000)),
        ("slow:2", Reply(status=200, wait_ms=2_000)),
        ("slow:0.25", Reply(status=200, wait_ms=250)),
        ("drop", Reply(ending="drop")),
        ("hang", Reply(ending="hang")),
        ("disable", Reply(status=200, headers={"webhook-delivery": "disable"})),
        ("abort", Reply(status=400, headers={"webhook-delivery": "abort-message"})),
        ("redirect:http://10.0.0.1:80/x", Reply(status=302, headers={"location": "http://10.0.0.1:80/x"})),
    ],
)
def test_an_answer_is_read(text: str, reply: Reply) -> None:
    assert read_script([text]) == (reply,)


def test_answers_stand_in_lists_with_commas_and_in_several_options() -> None:
    statuses = [step.status for step in read_script(["503, 503", "200"])]
    assert statuses == [503, 503, 200]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "200,",
        "100",
        "1000",
        "ok",
        "429:",
        "429:-1",
        "429:1e3",
        "slow:",
        "slow:x",
        "slow:86401",
        "slow:-1",
        "drop:1",
        "hang:5",
        "redirect",
        "redirect:",
        "redirect:http://a/\r\nx: y",
        "٢٠٠",
    ],
)
def test_what_is_no_answer_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"--answer: .* expected a status from 200 to 999"):
        read_script([text])


@pytest.mark.parametrize(
    ("loop", "statuses"), [(False, [503, 429, 200, 200, 200]), (True, [503, 429, 200, 503, 429])]
)
def test_the_last_answer_repeats_or_the_script_begins_again(loop: bool, statuses: list[int]) -> None:
    script = Script(read_script(["503,429,200"]), loop=loop)
    assert [script.next().status for _ in range(5)] == statuses


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("503", "503"),
        ("429:30", "429, retry-after: 30"),
        ("slow:1.5", "after 1.5 s: 200"),
        ("drop", "no answer: closed"),
        ("hang", "no answer: left open"),
        ("disable", "200, webhook-delivery: disable"),
    ],
)
def test_an_answer_in_words(text: str, words: str) -> None:
    assert read_script([text])[0].words() == words


# -- secrets and signatures


def test_secrets_are_read_from_lists() -> None:
    assert read_secrets([f"{SECRET} {PUBLIC}\n{SECRET}", f"{OTHER},"], "--secret") == (SECRET, PUBLIC, OTHER)
    assert read_secrets(["", " \n"], "--secret") == ()


@pytest.mark.parametrize(
    "secret",
    [
        "geheim",
        "whsec_!!!!" + "A" * 40,
        "whsec_" + base64.b64encode(b"x" * 23).decode(),
        "whsec_" + base64.b64encode(b"x" * 65).decode(),
        "whpk_" + base64.b64encode(b"x" * 31).decode(),
        "whsk_" + base64.b64encode(b"x" * 64).decode(),
        SECRET.removeprefix("whsec_"),
    ],
)
def test_what_is_no_secret_is_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(InvalidInput, match="--secret: number 2 is not a secret") as raised:
        read_secrets([f"{SECRET} {secret}"], "--secret")
    assert raised.value.value is None
    assert secret not in str(raised.value)


@pytest.mark.parametrize(("secret", "header"), [(SECRET, HMAC), (PUBLIC, ED25519)])
def test_the_vectors_verify(secret: str, header: str) -> None:
    assert verify(header, [secret], "msg_0001", str(AT_S), BODY)
    assert verify(f"v1,bm9uZQ== v2,x {header}", [OTHER, secret], "msg_0001", str(AT_S), BODY)


@pytest.mark.parametrize(
    ("header", "secrets", "message_id", "timestamp", "body"),
    [
        (HMAC, [OTHER], "msg_0001", str(AT_S), BODY),
        (HMAC, [SECRET], "msg_0002", str(AT_S), BODY),
        (HMAC, [SECRET], "msg_0001", str(AT_S + 1), BODY),
        (HMAC, [SECRET], "msg_0001", str(AT_S), BODY + b" "),
        (HMAC.replace("v1,", "v1a,"), [SECRET], "msg_0001", str(AT_S), BODY),
        (HMAC, [PUBLIC], "msg_0001", str(AT_S), BODY),
        (ED25519, [PUBLIC], "msg_0001", str(AT_S), BODY + b" "),
        ("v1a,AAAA", [PUBLIC], "msg_0001", str(AT_S), BODY),
        ("v1a,!", [PUBLIC], "msg_0001", str(AT_S), BODY),
        ("v1,é", [SECRET], "msg_0001", str(AT_S), BODY),
        ("", [SECRET], "msg_0001", str(AT_S), BODY),
        ("v1", [SECRET], "msg_0001", str(AT_S), BODY),
        (HMAC, [], "msg_0001", str(AT_S), BODY),
    ],
)
def test_what_was_signed_otherwise_does_not_verify(
    header: str, secrets: list[str], message_id: str, timestamp: str, body: bytes
) -> None:
    assert not verify(header, secrets, message_id, timestamp, body)


def test_a_public_key_needs_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(NotSupported, match=r"pip install 'anew\[webhooks\]'"):
        verify(ED25519, [PUBLIC], "msg_0001", str(AT_S), BODY)
    assert verify(HMAC, [SECRET], "msg_0001", str(AT_S), BODY)


@pytest.mark.parametrize(
    ("secrets", "request_", "now", "expected"),
    [
        ([SECRET], incoming(signature=HMAC), AT, "good"),
        ([OTHER, SECRET], incoming(signature=HMAC), AT, "good"),
        ([SECRET], incoming(signature=HMAC), AT + 300_000, "good"),
        ([SECRET], incoming(signature=HMAC), AT + 300_001, "old"),
        ([SECRET], incoming(signature=HMAC), AT - 300_001, "old"),
        ([OTHER], incoming(signature=HMAC), AT, "bad"),
        ([OTHER], incoming(signature=HMAC), AT + 300_001, "bad"),
        ([SECRET], incoming(signature=HMAC, webhook_timestamp="soon"), AT, "bad"),
        ([SECRET], incoming(None, HMAC), AT, "bad"),
        ([SECRET], incoming(), AT, "missing"),
        ([SECRET], incoming(signature=HMAC, webhook_id=""), AT, "missing"),
        ([SECRET], incoming(signature=HMAC, webhook_timestamp=""), AT, "missing"),
        ([], incoming(signature=HMAC), AT, "unchecked"),
        ([SECRET], incoming(method="OPTIONS"), AT, "unchecked"),
    ],
)
def test_a_signature_is_judged(secrets: list[str], request_: Incoming, now: int, expected: Signature) -> None:
    assert check_signature(secrets, request_, now) == expected


# -- the confirmation


@pytest.mark.parametrize(
    ("document", "challenge"),
    [
        ({"type": CONFIRMATION, "timestamp": "t", "data": {"challenge": "c-1", "topic": "orders"}}, "c-1"),
        ({"type": CONFIRMATION, "challenge": "c-2"}, "c-2"),
        ({"challenge": "c-3", "confirm_url": None, "topic": "orders", "subscription_id": "sub_1"}, "c-3"),
        ({"challenge": "c-4"}, None),
        ({"type": "order.paid", "data": {"challenge": "c-5"}}, None),
        ({"type": "order.paid", "challenge": "c-6", "subscription_id": "sub_1"}, None),
        ({"type": CONFIRMATION, "data": {"challenge": 7}}, None),
        ({"type": CONFIRMATION, "data": {"challenge": ""}}, None),
        ({"type": CONFIRMATION, "data": {"challenge": "x" * 1_025}}, None),
        ({"type": CONFIRMATION, "data": "c-8"}, None),
        ({"type": CONFIRMATION}, None),
        ([CONFIRMATION], None),
        (None, None),
    ],
)
def test_a_challenge_is_found(document: object, challenge: str | None) -> None:
    assert confirmation(document) == challenge


def test_a_confirmation_is_echoed_and_takes_no_answer_of_the_script() -> None:
    """The echo."""
    one = receiver("503,200")
    arrival = one.receive(incoming(asking()), AT)
    assert arrival.reply == Reply(status=200, body=b'{"challenge":"c-1"}')
    assert arrival.reply.words() == "200, challenge echoed"
    assert one.receive(incoming(), AT).reply.status == 503


def test_without_confirming_it_is_answered_as_a_message_is() -> None:
    one = receiver("503,200", confirm=False)
    assert one.receive(incoming(asking()), AT).reply == Reply(status=503)
    assert one.receive(incoming(method="OPTIONS", webhook_request_origin="q"), AT).reply == Reply(
        status=200, headers={"allow": "POST, OPTIONS"}
    )


def test_a_confirmation_is_echoed_only_to_whom_the_signature_proves() -> None:
    body = asking()
    one = receiver("200", SECRET)
    assert one.receive(incoming(body, signed(body)), AT).reply.body == b'{"challenge":"c-1"}'
    assert one.receive(incoming(body, HMAC), AT).reply == Reply(status=401)
    assert one.receive(incoming(body), AT).reply == Reply(status=401)
    assert one.receive(incoming(body, signed(body)), AT + 300_001).reply == Reply(status=401)


@pytest.mark.parametrize(
    ("headers", "answer"),
    [
        (
            {"webhook-request-origin": "queue.example.org", "webhook-request-rate": "120"},
            {"webhook-allowed-origin": "queue.example.org", "webhook-allowed-rate": "120"},
        ),
        (
            {"webhook-request-origin": "queue.example.org"},
            {"webhook-allowed-origin": "queue.example.org"},
        ),
        ({"webhook-request-rate": "120"}, {}),
        ({}, {}),
    ],
)
def test_cloudevents_gets_its_consent_by_the_header(headers: dict[str, str], answer: dict[str, str]) -> None:
    assert consent(headers) == Reply(status=200, headers={"allow": "POST, OPTIONS"} | answer)


# -- all of it


def test_only_messages_take_answers_of_the_script() -> None:
    one = receiver("503,200")
    replies = [
        one.receive(request, AT).reply.status
        for request in (
            incoming(method="GET"),
            incoming(method="OPTIONS"),
            incoming(None),
            incoming(),
            incoming(),
        )
    ]
    assert replies == [405, 200, 413, 503, 200]


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (incoming(), "order.paid"),
        (incoming(b'{"type":7}', ce_type="by.header"), "by.header"),
        (incoming(b"[" * 100_000), ""),
        (incoming(b"\xff"), ""),
        (incoming(b""), ""),
        (incoming(None), ""),
    ],
)
def test_the_type_of_a_message(request_: Incoming, kind: str) -> None:
    assert receiver().receive(request_, AT).type == kind


def test_what_came_is_counted() -> None:
    one = receiver("200", SECRET)
    one.receive(incoming(signature=HMAC), AT)
    assert one.receive(incoming(signature=HMAC), AT).repeated
    assert not one.receive(incoming(signature=HMAC, webhook_id="msg_0002"), AT).repeated
    one.receive(incoming(b"{}", webhook_id=""), AT)
    one.receive(incoming(signature=HMAC, webhook_id=""), AT + 300_001)
    one.receive(incoming(method="GET"), AT)
    tally = one.tally
    assert (tally.received, dict(tally.types)) == (6, {"order.paid": 4, "": 1})
    # A bad one, of another id; two without an id, whose signature counts as missing. The GET had an id that was known.
    assert (tally.repeated, tally.bad_signatures) == (2, 3)


def test_the_oldest_ids_and_too_many_types_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anew.topics.receiver._MEMORY", 200)
    one = receiver("200")
    for number in range(202):
        one.receive(incoming(b'{"type":"t%d"}' % number, webhook_id=f"m{number}"), AT)
    assert not one.receive(incoming(webhook_id="m0"), AT).repeated
    assert one.receive(incoming(webhook_id="m201"), AT).repeated
    assert dict(one.tally.types) == {"t0": 1, "t1": 1, "(others)": 202}


def test_the_longest_body_is_a_mebibyte() -> None:
    assert MAX_BODY == 1_048_576
