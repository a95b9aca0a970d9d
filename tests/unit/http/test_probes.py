"""Probes for whoever runs the server: what they answer while the store does, and when it does not."""

from __future__ import annotations

from typing import Any

import pytest

from anew.engine import Op
from anew.errors import AnewError, InternalError, StoreFailed, StoreFull
from anew.http.api import Api, ApiSettings, Context
from anew.http.router import Router
from anew.http.service import add_routes
from anew.net.seam import WireCounters

from .asked import Answer, Asked


class Commit:
    """Answers every operation at once with the same result."""

    def __init__(self, result: object) -> None:
        self.result = result
        self.submitted = 0

    def submit(self, op: Op) -> None:
        self.submitted += 1
        op.done(self.result)


def probe(path: str, result: object, **headers: str) -> tuple[Answer, int]:
    """Ask a probe of a server whose commits end so; gives the answer and how many commits it cost."""
    commit: Any = Commit(result)
    nobody: Any = None
    router = Router()
    context = Context(nobody, commit, nobody, nobody, ApiSettings(), WireCounters(), nobody)
    add_routes(router, context)
    request = Asked("GET", path, **headers)
    Api(context.settings, context.counters, router)(request)
    return request.answer, commit.submitted


def test_a_server_that_commits_is_ready() -> None:
    answer, commits = probe("/readyz", None)
    assert (answer.status, answer.data, commits) == (200, {"status": "ok"}, 1)


@pytest.mark.parametrize(
    "error",
    [StoreFailed("the disk is gone"), StoreFull("no space"), InternalError("odd")],
    ids=["failed", "full", "odd"],
)
def test_a_server_that_cannot_commit_is_not_ready_and_does_not_say_why(error: AnewError) -> None:
    answer, _ = probe("/readyz", error)
    assert (answer.status, answer.data) == (
        503,
        {"error": "not ready: the store does not commit", "code": "unavailable"},
    )


def test_a_server_that_cannot_commit_is_alive_all_the_same() -> None:
    answer, commits = probe("/healthz", StoreFailed("the disk is gone"))
    assert (answer.status, answer.data, commits) == (200, {"status": "ok"}, 0)


def test_probes_answer_in_json_whatever_is_accepted() -> None:
    answer, _ = probe("/readyz", None, accept="text/html")
    assert (answer.status, answer.content_type) == (200, b"application/json")
