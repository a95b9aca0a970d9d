"""What is answered has reached the disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from anew.store.postgres import open_postgres
from tests.postgres import empty_database, server
from tests.unit.engine.rig import Rig, new_job


@pytest.fixture
def rig() -> Iterator[Rig]:
    """On a server whose own default is not to wait for the disk."""
    rig = Rig(open_postgres(empty_database()))
    yield rig
    rig.store.close()


def test_what_is_answered_has_been_flushed_whatever_the_databases_default_is(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the place at which the log stood before its COMMIT: what others write behind that need not be on the disk."""
    connection: Any = rig.store._link.connection  # type: ignore[attr-defined]
    execute = connection.execute
    places: list[str] = []
    with psycopg.connect(server().get_uri(), autocommit=True) as looking:

        def look(what: str) -> str:
            ((place,),) = looking.execute(what).fetchall()
            return str(place)

        def noted(text: str, *given: Any) -> Any:
            if text.endswith("COMMIT"):
                places.append(look("SELECT pg_current_wal_insert_lsn()"))
            return execute(text, *given)

        monkeypatch.setattr(connection, "execute", noted)
        for _ in range(20):
            rig.put(new_job())
            assert look(f"SELECT pg_current_wal_flush_lsn() > '{places[-1]}'") == "True"
        assert look("SHOW synchronous_commit") == "off"
    assert len(places) == 20
