"""A worker whose reports are in doubt: they are written all the same, so it goes on with what it was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anew import Anew
from anew.errors import InDoubt


def test_a_worker_goes_on_when_no_standby_has_confirmed_its_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Anew(tmp_path / "jobs.db", policy=["1h"]) as app:

        @app.task
        def half(number: int) -> None:
            if number % 2:
                raise ValueError(number)

        for number in range(6):
            half.enqueue(number)
        backend: Any = app.backend

        def doubt() -> None:
            raise InDoubt("no standby has it")

        monkeypatch.setattr(backend.commit.engine.store, "sync", doubt)
        worker = app.worker(burst=True)
        worker.run()
        assert worker.done["succeeded"] == 3
        counts = app.counts("default")
        assert (counts["ready"], counts["in_flight"], counts["retrying"]) == (0, 0, 3)
