"""The examples of docs/webhooks.md: the program that publishes, and receivers in the frameworks themselves."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from anew.topics.signing import sign
from tests.unit.docs import ROOT, blocks

with warnings.catch_warnings():  # of httpx, which the next Starlette wants replaced
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
PAID = b'{"type":"order.paid","timestamp":"2026-11-23T09:19:31Z","data":{"id":42}}'
QUESTION = b'{"type":"anew.subscription.confirmation","timestamp":"2026-11-23T09:19:31Z","data":{"challenge":"3f0c"}}'

Post = Callable[[bytes, dict[str, str]], tuple[int, Any]]


def example(words: str) -> str:
    """The block in which some words stand."""
    (text,) = [block.text for block in blocks(ROOT / "docs" / "webhooks.md", "python") if words in block.text]
    return text


def module(words: str) -> Any:
    """A module of such a block."""
    made = ModuleType("receiver")
    exec(compile(example(words), "receiver.py", "exec", dont_inherit=True), made.__dict__)
    return made


def signed(body: bytes, *, age_s: int = 0, secret: str = SECRET) -> dict[str, str]:
    """The headers of a delivery."""
    sent = int(time.time()) - age_s
    return {
        "content-type": "application/json",
        "webhook-id": "msg_0001",
        "webhook-timestamp": str(sent),
        "webhook-signature": sign([secret], "msg_0001", sent, body),
        "anew-topic": "orders",
        "anew-attempt": "1",
    }


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, where the receivers know their secret."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEBHOOK_SECRET", SECRET)
    return tmp_path


@pytest.fixture
def fastapi(here: Path) -> Iterator[tuple[Post, Any]]:
    made = module("from fastapi import")
    client = TestClient(made.api)

    def post(body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
        answer = client.post("/hook", content=body, headers=headers)
        return answer.status_code, answer.json()

    yield post, made
    made.app.close()


def test_fastapi(fastapi: tuple[Post, Any], capsys: pytest.CaptureFixture[str]) -> None:
    post, made = fastapi
    assert post(QUESTION, signed(QUESTION)) == (200, {"challenge": "3f0c"})
    for _ in range(2):
        assert post(PAID, signed(PAID)) == (200, {})
    assert made.app.counts("default")["ready"] == 1
    with made.app.test() as test:
        post(PAID, signed(PAID))
        test.drain().check()
    assert capsys.readouterr().out == "order.paid {'id': 42}\n"
    refused(post)
    assert made.app.counts("default")["ready"] == 1


def test_flask(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = module("from flask import")
    made.site.logger.setLevel("INFO")
    made.site.logger.addHandler(caplog.handler)
    client = made.site.test_client()

    def post(body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
        answer = client.post("/hook", data=body, headers=headers)
        return answer.status_code, answer.get_json()

    assert post(QUESTION, signed(QUESTION)) == (200, {"challenge": "3f0c"})
    assert post(PAID, signed(PAID)) == (200, {})
    assert "order.paid {'id': 42}" in caplog.text
    refused(post)


def refused(post: Post) -> None:
    """What is forged, old or not signed is answered with 401."""
    changed = PAID.replace(b"42", b"43")
    assert post(changed, signed(PAID))[0] == 401
    assert post(PAID, signed(PAID, secret="whsec_" + "QUFB" * 10))[0] == 401
    assert post(PAID, signed(PAID, age_s=301))[0] == 401
    assert post(PAID, {"content-type": "application/json"})[0] == 401


DJANGO = """
import json, sys
from django.conf import settings
settings.configure(ROOT_URLCONF=__name__, SECRET_KEY="x", ALLOWED_HOSTS=["testserver"], MIDDLEWARE=[
    "django.middleware.csrf.CsrfViewMiddleware",
])
import django
django.setup()
from django.test import Client
from django.urls import path
urlpatterns = [path("hook", hook)]
client = Client(enforce_csrf_checks=True)
for body, headers in json.load(sys.stdin):
    answer = client.post("/hook", data=body.encode(), content_type="application/json", headers=headers)
    print(answer.status_code, answer.content.decode())
print(client.get("/hook").status_code)
"""
"""Calls the view as Django does, with its middleware; the settings are a process's own."""


def test_django(here: Path) -> None:
    asked = [
        (QUESTION, signed(QUESTION)),
        (PAID, signed(PAID)),
        (PAID.replace(b"42", b"43"), signed(PAID)),
        (PAID, signed(PAID, age_s=301)),
        (PAID, {}),
    ]
    given = json.dumps([(body.decode(), headers) for body, headers in asked])
    done = subprocess.run(
        [sys.executable, "-c", example("from django.http import") + DJANGO],
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert lines[:3] == ['200 {"challenge": "3f0c"}', "order.paid {'id': 42}", "200 {}"], done.stderr
    assert [line[:3] for line in lines[3:]] == ["401", "401", "401", "405"]


def test_the_receiver_without_a_framework(capsys: pytest.CaptureFixture[str]) -> None:
    made = module("def receive(")
    assert made.receive(signed(PAID), PAID) == (200, "")
    assert made.receive(signed(PAID), PAID + b" ")[0] == 401
    assert capsys.readouterr().out == "order.paid {'id': 42} attempt 1\n"


def test_the_program_that_publishes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = module("orders.publish(")
    app = made.app
    printed = capsys.readouterr().out.split()
    assert printed[0].startswith("sub_")
    assert printed[1] == "unconfirmed"
    assert printed[2].startswith("whsec_")
    assert app.counts("mail") | {"ready": 2, "scheduled": 1} == app.counts("mail")
    exec(example("hook.rotate("), made.__dict__)
    assert made.secret not in (printed[2], None)
    ids = [made.hook.id, next(each.id for each in made.orders.subscriptions() if each.endpoint == "mail")]
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert shown == [[ids[0], "https://hooks.example.org/orders", "active"], [ids[1], "mail", "active"]]
    app.close()
    with app.test() as test:
        app.topic("orders").create()
        app.subscribe("orders", queue="mail")
        app.topic("orders").publish("order.paid", {"id": 42})
        test.drain().check()
    assert capsys.readouterr().out == "a mail about order 42\n"
