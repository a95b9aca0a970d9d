"""What ``anew enqueue --count`` says where a later request fails."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import SimpleNamespace

import pytest

from anew.cli.root import run
from anew.client import Client, Draft
from anew.errors import Overloaded


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_what_earlier_requests_have_stored_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    stored: list[str] = []

    def enqueue_many(client: Client, jobs: Iterable[Draft]) -> list[SimpleNamespace]:
        if stored:
            raise Overloaded("too much waits")
        stored.extend(f"id-{number}" for number, _ in enumerate(jobs))
        return [SimpleNamespace(id=name) for name in stored]

    monkeypatch.setattr(Client, "enqueue_many", enqueue_many)
    assert run(["enqueue", "t", "--queue", "q", "--count", "2500", *options]) == 1
    said = capsys.readouterr()
    error = "Error: too much waits\n  The request has stored nothing; try again a little later\n"
    if options:
        assert json.loads(said.out) == {"enqueued": len(stored), "ids": stored}
        assert said.err == error
    else:
        assert (said.out, said.err) == ("", f"1000 of 2500 jobs enqueued, id-0 to id-999\n{error}")
