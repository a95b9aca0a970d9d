"""huey on SQLite with full syncs. Its default wait between two looks, up to 10 s, is shortened to 10 ms."""

import bodies
from huey import SqliteHuey

WORKER = ["huey_consumer", "huey_peer.huey", "-w", "8", "-d", "0.001", "-m", "0.01", "-q"]

huey = SqliteHuey(filename=f"{bodies.FOLDER}/huey.db", fsync=True, journal_mode="wal", results=False)
TASKS = {body.__name__: huey.task()(body) for body in (bodies.noop, bodies.stamp, bodies.slow)}


def enqueue(task, argument):
    TASKS[task](argument)
