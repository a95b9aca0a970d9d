"""The outbox: jobs that commit or roll back with the user's own rows, and come into the queue once."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anew import Anew, Limit
from anew.errors import Conflict, InvalidInput, InvalidJob, NotFound, NotSupported
from anew.tasks.outbox import CHUNK, Drainer

SHOP = """
import os, signal, sys
from anew import Anew
from anew.tasks import outbox

def die(connection, ids):
    os.kill(os.getpid(), signal.SIGKILL)

outbox._forget = die
Anew("jobs.db").drain_outbox("shop.db")
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Anew]:
    with Anew(tmp_path / "jobs.db") as made:
        yield made


@pytest.fixture
def shop(app: Anew, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """The user's own file, with a table of theirs and an outbox."""
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
        app.create_outbox(connection)
        app.create_outbox(connection)  # is there already
        yield connection


def rows(shop: sqlite3.Connection) -> int:
    (count,) = shop.execute("SELECT count(*) FROM anew_outbox").fetchone()
    return int(count)


def killed_between(directory: Path) -> None:
    """Drain in a process that is killed when the jobs are in the queue, and the rows still in the outbox."""
    done = subprocess.run([sys.executable, "-c", SHOP], cwd=directory, timeout=60)
    assert done.returncode == -signal.SIGKILL


def test_a_job_commits_or_rolls_back_with_the_users_rows(
    app: Anew, shop: sqlite3.Connection, tmp_path: Path
) -> None:
    got: list[int] = []

    @app.task
    def ship(order: int) -> None:
        got.append(order)

    shop.row_factory = lambda cursor, row: {"one": row[0]}  # rows of the user's own kind
    with shop:
        shop.execute("INSERT INTO orders VALUES (1)")
        app.outbox(shop).enqueue(ship, 1)
    app.outbox(shop).enqueue(ship, 2)
    shop.rollback()
    app.outbox(shop).enqueue(ship, 3)  # not committed
    other = tmp_path / "shop.db"
    shop.rollback()
    shop.row_factory = None
    assert app.drain_outbox(other) == 1
    assert app.drain_outbox(other) == 0
    app.run_worker(burst=True)
    assert (got, rows(shop)) == ([1], 0)


def test_a_row_that_is_not_committed_is_not_seen(app: Anew, shop: sqlite3.Connection, tmp_path: Path) -> None:
    @app.task
    def ship(order: int) -> None: ...

    shop.execute("PRAGMA journal_mode = WAL")
    app.outbox(shop).enqueue(ship, 1)
    assert app.drain_outbox(tmp_path / "shop.db") == 0
    shop.commit()
    assert app.drain_outbox(tmp_path / "shop.db") == 1


def test_options_go_with_the_job(app: Anew, shop: sqlite3.Connection, tmp_path: Path) -> None:
    @app.task(unique="order {order}")
    def ship(order: int) -> None: ...

    with shop:
        box = app.outbox(shop)
        box.enqueue(ship.using(queue="slow", priority=7, delay=3600), 1)
        box.enqueue(ship, order=1)  # the first one's key
    assert app.drain_outbox(tmp_path / "shop.db") == 2
    assert app.counts("slow")["scheduled"] == 1
    assert sum(app.counts().values()) == 1


def test_a_limit_goes_with_the_job(app: Anew, shop: sqlite3.Connection, tmp_path: Path) -> None:
    @app.task(limit=Limit("customer {customer}", concurrency=1, rate="10/m"))
    def ship(customer: int) -> None: ...

    with app.test() as test:
        with shop:
            for _ in range(2):
                app.outbox(shop).enqueue(ship, 7)
        assert app.drain_outbox(tmp_path / "shop.db") == 2
        assert [job.waits_for for job in test.jobs()] == [None, "limit customer 7"]


def test_a_drainer_that_is_killed_between_the_files_makes_each_job_once(
    app: Anew, shop: sqlite3.Connection, tmp_path: Path
) -> None:
    @app.task
    def ship(order: int) -> None: ...

    with shop:
        for order in range(3):
            app.outbox(shop).enqueue(ship, order)
    killed_between(tmp_path)
    assert (rows(shop), app.counts()["ready"]) == (3, 3)
    assert app.drain_outbox(tmp_path / "shop.db") == 3
    assert (rows(shop), app.counts()["ready"]) == (0, 3)


def test_a_job_that_has_run_before_its_row_comes_again_does_not_run_twice(
    app: Anew, shop: sqlite3.Connection, tmp_path: Path
) -> None:
    got: list[int] = []

    @app.task(name="ship")
    def ship(order: int) -> None:
        got.append(order)

    with shop:
        app.outbox(shop).enqueue(ship, 1)
    killed_between(tmp_path)
    app.run_worker(burst=True)
    assert (got, rows(shop)) == ([1], 1)
    app.run_worker(burst=True, outboxes=[tmp_path / "shop.db"])
    assert (got, rows(shop)) == ([1], 0)


def test_a_worker_drains_while_it_runs(app: Anew, shop: sqlite3.Connection, tmp_path: Path) -> None:
    came = threading.Event()

    @app.task
    def ship(order: int) -> None:
        came.set()

    worker = app.worker(outboxes=[tmp_path / "shop.db", tmp_path / "missing.db"])
    thread = threading.Thread(target=worker.run)
    thread.start()
    with shop:
        app.outbox(shop).enqueue(ship, 1)
    assert came.wait(30)
    worker.stop()
    thread.join()
    assert worker.done["succeeded"] == 1
    assert not (tmp_path / "missing.db").exists()


@pytest.mark.parametrize("row", ["{", b'{"type": "\xff"}', 7], ids=["no JSON", "no UTF-8", "a number"])
def test_a_row_that_is_no_job_stays_and_holds_up_no_other(
    app: Anew, shop: sqlite3.Connection, tmp_path: Path, row: object
) -> None:
    @app.task
    def ship(order: int) -> None: ...

    with shop:
        shop.execute("INSERT INTO anew_outbox (id, job) VALUES ('x', ?)", (row,))
        for order in range(CHUNK + 1):  # more than one chunk
            app.outbox(shop).enqueue(ship, order)
    assert app.drain_outbox(tmp_path / "shop.db") == CHUNK + 1
    assert (rows(shop), app.counts()["ready"]) == (1, CHUNK + 1)


def test_a_worker_tells_the_log_once_of_a_row_that_is_no_job(
    app: Anew, shop: sqlite3.Connection, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with shop:
        shop.execute("INSERT INTO anew_outbox (id, job) VALUES ('x', '{')")
    drainer = Drainer(app, [tmp_path / "shop.db"])
    for _ in range(3):
        drainer.drain()
    assert [record.message for record in caplog.records] == ["a row of an outbox is no job"]


def test_an_outbox_where_no_file_can_be_holds_up_no_worker(
    app: Anew, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    app.run_worker(burst=True, outboxes=[tmp_path / "file" / "shop.db"])
    assert "an outbox cannot be drained" in [record.message for record in caplog.records]


def test_the_queues_own_file_is_refused(app: Anew, tmp_path: Path) -> None:
    app.counts()
    os.link(tmp_path / "jobs.db", tmp_path / "other.db")
    for name in ("jobs.db", "other.db"):
        with pytest.raises(Conflict, match="the queue's own file"):
            app.drain_outbox(tmp_path / name)
        with pytest.raises(Conflict, match="the queue's own file"):
            app.worker(outboxes=[tmp_path / name])


def test_a_connection_to_the_queues_own_file_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, Anew(tmp_path / "jobs.db") as app:
        with pytest.raises(Conflict, match="the queue's own file"):
            app.create_outbox(connection)
        assert not app.opened_here()


def test_what_an_outbox_cannot_take_is_refused(app: Anew, shop: sqlite3.Connection, tmp_path: Path) -> None:
    @app.task
    def ship(order: int) -> None: ...

    with pytest.raises(InvalidInput, match="sqlite3"):
        app.outbox("shop.db")  # type: ignore[arg-type]
    with pytest.raises(InvalidJob):
        app.outbox(shop).enqueue(ship, "one")  # type: ignore[arg-type]
    with app.batch(on_success=ship.call(1)) as batch, pytest.raises(NotSupported, match="batch"):
        app.outbox(shop).enqueue(ship.using(batch=batch), 1)
    with pytest.raises(NotFound, match="create_outbox"):
        app.drain_outbox(tmp_path / "missing.db")
