"""Procrastinate on PostgreSQL: enqueued from threads, run by its worker in threads, 8 at once."""

import os

import bodies
from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

WORKER = ["procrastinate", "--app", "procrastinate_peer.app", "worker", "--concurrency", "8"]

URL = os.environ["BENCH_URL"]
app = App(connector=PsycopgConnector(conninfo=URL))
BODIES = (bodies.noop, bodies.stamp, bodies.slow)
TASKS = {body.__name__: app.task(name=body.__name__)(body) for body in BODIES}
ARGUMENTS = {"noop": "n", "stamp": "at", "slow": "n"}


def setup():
    with app.replace_connector(SyncPsycopgConnector(conninfo=URL)) as sync, sync.open():
        sync.schema_manager.apply_schema()


def connect():
    """Enqueue over a synchronous pool, as its documents say for synchronous programs."""
    sync = SyncPsycopgConnector(conninfo=URL, max_size=16)
    app.replace_connector(sync).__enter__()  # for as long as this process lives
    app.open()


def enqueue(task, argument):
    TASKS[task].defer(**{ARGUMENTS[task]: argument})


def enqueue_many(task, arguments):
    TASKS[task].batch_defer(*[{ARGUMENTS[task]: argument} for argument in arguments])
