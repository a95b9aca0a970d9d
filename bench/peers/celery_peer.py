"""Celery on Redis, results off, with its pool of threads."""

import os

import bodies
from celery import Celery

WORKER = ["celery", "-A", "celery_peer", "worker", "--pool", "threads", "--concurrency", "8"]

app = Celery("celery_peer", broker=os.environ["BENCH_URL"])
app.conf.task_ignore_result = True
TASKS = {body.__name__: app.task(body) for body in (bodies.noop, bodies.stamp, bodies.slow)}


def enqueue(task, argument):
    TASKS[task].delay(argument)
