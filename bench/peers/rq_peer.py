"""RQ on Redis: its worker forks for each job and has no threads."""

import os

import bodies
from redis import Redis
from rq import Queue

WORKER = ["rq", "worker", "--quiet", "--url", os.environ["BENCH_URL"], "default"]
EVERY = 1

queue = Queue(connection=Redis.from_url(os.environ["BENCH_URL"]))


def enqueue(task, argument):
    queue.enqueue(getattr(bodies, task), argument)


def enqueue_many(task, arguments):
    queue.enqueue_many([Queue.prepare_data(getattr(bodies, task), (argument,)) for argument in arguments])
