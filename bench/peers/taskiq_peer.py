"""taskiq on a Redis stream: the producer is asynchronous, the jobs run in 8 threads."""

import os

import bodies
from taskiq_redis import RedisStreamBroker

WORKER = [
    *("taskiq", "worker", "--workers", "1", "--max-threadpool-threads", "8"),
    *("--log-level", "WARNING", "taskiq_peer:broker"),
]

broker = RedisStreamBroker(os.environ["BENCH_URL"])
TASKS = {body.__name__: broker.task(body) for body in (bodies.noop, bodies.stamp, bodies.slow)}


async def start():
    await broker.startup()


async def aenqueue(task, argument):
    await TASKS[task].kiq(argument)
