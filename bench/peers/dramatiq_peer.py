"""Dramatiq on Redis."""

import os

import bodies
import dramatiq
from dramatiq.brokers.redis import RedisBroker

WORKER = ["dramatiq", "--processes", "1", "--threads", "8", "dramatiq_peer"]

dramatiq.set_broker(RedisBroker(url=os.environ["BENCH_URL"]))
TASKS = {body.__name__: dramatiq.actor(body) for body in (bodies.noop, bodies.stamp, bodies.slow)}


def enqueue(task, argument):
    TASKS[task].send(argument)
