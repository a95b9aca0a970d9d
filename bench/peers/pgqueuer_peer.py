"""pgqueuer on PostgreSQL: all of it asynchronous; the jobs are coroutines.

`pgq run` of 1.6.0 works with typer 0.20, not with 0.29.
"""

import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import bodies
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries

URL = os.environ["BENCH_URL"]
WORKER = ["pgq", "--pg-dsn", URL, "run", "pgqueuer_peer:main"]

queries = None


def setup():
    subprocess.run([Path(sys.executable).with_name("pgq"), "--pg-dsn", URL, "install"], check=True)


@asynccontextmanager
async def main():
    connection = await asyncpg.connect(URL)
    pgq = PgQueuer(AsyncpgDriver(connection))
    for body in (bodies.noop, bodies.stamp, bodies.slow):
        entrypoint(pgq, body)
    yield pgq
    await connection.close()


def entrypoint(pgq, body):
    @pgq.entrypoint(body.__name__)
    async def run(job):
        body(json.loads(job.payload))


async def start():
    global queries
    queries = Queries(AsyncpgPoolDriver(await asyncpg.create_pool(URL, max_size=16)))


async def aenqueue(task, argument):
    await queries.enqueue(task, json.dumps(argument).encode())


async def aenqueue_many(task, arguments):
    count = len(arguments)
    payloads = [json.dumps(argument).encode() for argument in arguments]
    await queries.enqueue([task] * count, payloads, [0] * count)
