"""Jobs that are enqueued in transactions of the user's own, in the database that holds the queue."""

from __future__ import annotations

import random
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import pytest

from anew import Anew, Debounce
from anew.engine import Call, ThreadCommit
from anew.errors import InvalidInput, NotSupported
from anew.jobs import Job, NewJob
from anew.store.selection import Filter, Page
from anew.tasks.opening import open_engine
from tests.postgres import empty_database

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def database() -> str:
    return empty_database()


@pytest.fixture
def engine(database: str) -> Iterator[ThreadCommit]:
    """Whoever moves the rows: any process that has the store open."""
    opened = open_engine(database)
    yield opened
    opened.close()


@pytest.fixture
def shop(engine: ThreadCommit, database: str) -> Iterator[Connection]:
    """The user's connection, with a table of theirs."""
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TEMPORARY TABLE orders (id INTEGER)")
        connection.commit()
        yield connection


def jobs(engine: ThreadCommit) -> list[Job]:
    """All jobs, once a batch has run."""
    found: list[Job] = engine.apply(
        Call(
            lambda batch: batch.store.load(batch.store.find(Filter(), Page(limit=1_000)), payload=True),
            lambda _: None,
        )
    )
    return found


def test_jobs_come_with_the_commit_and_not_before(engine: ThreadCommit, shop: Connection) -> None:
    shop.execute("INSERT INTO orders VALUES (7)")
    ((jid,),) = shop.execute("""SELECT anew.enqueue('pack', '{"order": 7}', queue => 'shop')""").fetchall()
    assert jobs(engine) == []
    shop.commit()
    (job,) = jobs(engine)
    assert (job.type, job.queue, job.payload, job.jid) == ("pack", "shop", b'{"order": 7}', jid)
    assert (job.priority, job.retry_limit, job.policy) == (32768, None, b'{"preset": "even"}')
    assert jobs(engine) == [job], "the row is gone"


def test_a_transaction_that_is_rolled_back_leaves_none(engine: ThreadCommit, shop: Connection) -> None:
    shop.execute("SELECT anew.enqueue('pack')")
    shop.rollback()
    assert jobs(engine) == []


def test_what_is_said_of_a_job_is_kept(engine: ThreadCommit, shop: Connection) -> None:
    shop.execute(
        "SELECT anew.enqueue('pack', '1e3', priority => 5, run_at => '2100-01-01T00:00:00Z', retry_limit => 3, "
        """policy => '{"preset": "sidekiq"}')"""
    )
    shop.commit()
    (job,) = jobs(engine)
    assert (job.priority, job.retry_limit, job.ready_at) == (5, 3, 4_102_444_800_000)
    assert (job.payload, job.policy) == (b"1e3", b'{"preset": "sidekiq"}')


def test_calls_that_are_debounced_become_one_job_and_those_that_are_merged_are_refused(
    engine: ThreadCommit, shop: Connection, database: str
) -> None:
    with Anew(database) as app:

        @app.task(debounce=Debounce("1h", key="all"))
        def reindex(page: int) -> None: ...

        @app.task(merge={"n": "sum"})
        def count(n: int) -> None: ...

        reindex.enqueue(1)
        for page in (2, 3):
            app.outbox(shop).enqueue(reindex, page)
        with pytest.raises(NotSupported, match=r"merged by an expression .* enqueue it after the commit"):
            app.outbox(shop).enqueue(count, 1)
        shop.commit()
        assert [(job.state, job.payload) for job in jobs(engine)] == [("scheduled", b'{"page":3}')]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("''", "type: expected a name"),
        ("'t', queue => ''", "queue: expected a name"),
        ("'t', priority => 65536", "priority: 65536 is not valid; expected 0 to 65535"),
        ("'t', retry_limit => -1", "retry_limit: -1 is not valid; expected 0 or more"),
    ],
)
def test_what_cannot_be_is_refused_at_once(shop: Connection, arguments: str, said: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=said):
        shop.execute(f"SELECT anew.enqueue({arguments})".encode())


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ('{"type": "t", "queue": "a,b", "payload": 1}', "queue must not contain ','"),
        ('{"type": "t", "queue": "q"}', "missing required field `payload`"),
        ('{"type": "t", "queue": "q", "payload": 1, "policy": {"preset": "none such"}}', "none such"),
        ("[]", "Expected `object`"),
        ('{"type": "t", "queue": "q", "payload": 1, "jid": "a\\u0000b"}', "jid must not contain null bytes"),
        (
            '{"type": "t", "queue": "q", "payload": 1, "jid": "' + "x" * 513 + '"}',
            "jid must not be longer than 512 bytes",
        ),
        ('{"type": "t", "queue": "q", "payload": 1, "hooks": {"batch": 1}}', "joins a batch"),
        (
            '{"type": "t", "queue": "q", "payload": 1, "hooks": {"limit": {"name": "\\u0000"}}}',
            "limit must not contain",
        ),
        ('{"type": "t", "queue": "q", "payload": 1, "reserve_ms": 99999999999999999999}', "too big"),
        (
            '{"type": "t", "queue": "q", "payload": 1, "hooks": {"unique": {"digest": "%s", "scope": "exists"}}}',
            "too long for PostgreSQL",
        ),
    ],
)
def test_a_row_that_is_no_job_stays_with_its_reason_and_holds_up_no_other(
    engine: ThreadCommit, shop: Connection, job: str, reason: str
) -> None:
    job = job.replace("%s", b64encode(random.Random(1).randbytes(9_000)).decode())  # more than an index takes
    shop.execute("SELECT anew.enqueue('before')")
    shop.execute("SELECT anew.enqueue_job(CAST(%s AS json))", (job,))
    shop.execute("SELECT anew.enqueue('behind')")
    shop.commit()
    (key,) = engine.enqueue([NewJob(type="beside", queue="q", payload=msgspec.Raw(b"1"))])
    while len(found := jobs(engine)) < 3:
        pass  # each look is a batch: those that the store refuses are tried in halves, until it is known which one it is
    assert [one.type for one in found if one.key != key] == ["before", "behind"]
    ((kept,),) = shop.execute("SELECT refused FROM anew.outbox").fetchall()
    assert reason in kept


def test_more_rows_than_a_batch_moves_all_come_in_order(engine: ThreadCommit, shop: Connection) -> None:
    shop.execute("SELECT anew.enqueue('t', to_json(n)) FROM generate_series(1, 450) AS n")
    shop.commit()
    counts = [len(jobs(engine)) for _ in range(3)]  # MOVED a batch
    assert counts == [200, 400, 450]
    assert [job.payload for job in jobs(engine)] == [b"%d" % n for n in range(1, 451)]


def test_a_program_that_waits_for_jobs_is_woken(engine: ThreadCommit, shop: Connection) -> None:
    shop.execute("SELECT anew.enqueue('t', queue => 'q')")
    shop.commit()
    taken = engine.take(["q"], 1, timeout_s=20.0)
    assert len(taken.rows) == 1


# -- from Python


@pytest.fixture
def app(database: str) -> Iterator[Anew]:
    with Anew(database, name="shop") as opened:
        yield opened


def test_a_task_is_enqueued_with_the_transaction(app: Anew, engine: ThreadCommit, shop: Connection) -> None:
    @app.task(queue="shop", priority=7)
    def pack(order: int) -> None: ...

    app.create_outbox(shop)
    app.outbox(shop).enqueue(pack, 7)
    app.outbox(shop).enqueue(pack.using(delay="1h"), 8)
    assert jobs(engine) == []
    shop.commit()
    now, later = jobs(engine)
    assert (now.type, now.queue, now.priority) == (pack.name, "shop", 7)
    assert later.ready_at - now.ready_at >= 3_590_000
    assert msgspec.json.decode(now.payload or b"") == msgspec.json.decode(b'{"order":7}')


def test_what_cannot_go_through_it_is_refused(app: Anew, shop: Connection) -> None:
    @app.task
    def pack() -> None: ...

    with pytest.raises(InvalidInput, match="a connection to the application's database"):
        app.outbox("shop.db")  # type: ignore[arg-type]
    with (
        app.batch(on_success=pack.call()) as batch,
        pytest.raises(NotSupported, match="joins a batch"),
    ):
        app.outbox(shop).enqueue(pack.using(batch=batch))


def test_a_role_of_its_own_may_enqueue_and_nothing_else(
    engine: ThreadCommit, shop: Connection, database: str
) -> None:
    shop.execute("DROP ROLE IF EXISTS shop")
    shop.execute("CREATE ROLE shop LOGIN")
    shop.execute("GRANT USAGE ON SCHEMA anew TO shop")
    shop.commit()
    with psycopg.connect(database, user="shop", autocommit=True) as clerk:
        clerk.execute("CREATE TEMPORARY TABLE outbox (job BYTEA)")  # which is not what the function writes to
        clerk.execute("SELECT anew.enqueue('t')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            clerk.execute("SELECT * FROM anew.job")
    assert [job.type for job in jobs(engine)] == ["t"]


def test_very_long_rows_come_some_at_a_time_and_one_may_be_too_long(
    engine: ThreadCommit, shop: Connection
) -> None:
    for _ in range(3):
        shop.execute("SELECT anew.enqueue('t', to_json(repeat('x', 3000000)))")
    shop.commit()
    assert [len(jobs(engine)) for _ in range(2)] == [2, 3]
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="job: expected at most 16 MiB"):
        shop.execute("SELECT anew.enqueue('t', to_json(repeat('x', 17000000)))")
