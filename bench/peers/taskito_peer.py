"""taskito on SQLite (it does not sync each commit there), or on PostgreSQL, where one is given."""

import os

import bodies
from taskito import Queue

WORKER = ["taskito", "worker", "--app", "taskito_peer:queue"]

url = os.environ.get("BENCH_URL")
queue = (
    Queue(backend="postgres", db_url=url, workers=8)
    if url
    else Queue(db_path=f"{bodies.FOLDER}/taskito.db", workers=8)
)
TASKS = {body.__name__: queue.task(timeout=600)(body) for body in (bodies.noop, bodies.stamp, bodies.slow)}


def enqueue(task, argument):
    TASKS[task].delay(argument)


def enqueue_many(task, arguments):
    TASKS[task].map([(argument,) for argument in arguments])
