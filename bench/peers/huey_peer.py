"""huey on SQLite with full syncs: the figures that it has in common with `bench.tasks`."""

import sys
import threading
import time

from huey import SqliteHuey

huey = SqliteHuey(filename=sys.argv[1] + "/huey.db", fsync=True, journal_mode="wal", results=False)


@huey.task()
def noop(n):
    pass


def rate(n, work):
    began = time.perf_counter()
    work()
    return n / (time.perf_counter() - began)


def single(n):
    for at in range(n):
        noop(at)


def threaded(n):
    threads = [threading.Thread(target=single, args=(n,)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def drain(n):
    consumer = huey.create_consumer(workers=8, periodic=False, initial_delay=0.001, max_delay=0.01)
    began = time.perf_counter()
    consumer.start()
    while huey.pending_count():
        time.sleep(0.005)
    took = time.perf_counter() - began
    consumer.stop(graceful=True)
    return n / took


noop(0)
print(f"single enqueue, 1 thread, /s\t{rate(2000, lambda: single(2000))}")
print(f"single enqueue, 16 threads, /s\t{rate(16 * 100, lambda: threaded(100))}")
huey.flush()
single(5000)
print(f"drain, threads, /s\t{drain(5000)}", flush=True)
