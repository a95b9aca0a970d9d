"""The worker: takes jobs over a stream, posts each to the receiver, reports what came of it. A process of its own.

Usage: python -m demo.worker URL-OF-ANEW PORT-OF-RECEIVER
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from anew.backoff import Draws, Policy, Wait, next_wait
from anew.client import Client, JobView
from anew.errors import NotFound, Unavailable

THREADS = 8
PREFETCH = 16
"""Jobs held at once: those at work, and as many again that are ready to hand when a thread is free."""

RECONNECT = Policy.from_json({"preset": "aws_equal", "base": "100ms", "cap": "1s", "limit": None})
"""When the stream breaks, the worker waits by a policy too."""


def post(port: int, payload: bytes) -> tuple[int, str]:
    """Post one invoice; give the receiver's status and its words."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection):
        connection.request("POST", "/", payload, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())["message"]


def deliver(client: Client, port: int, job: JobView) -> None:
    """Run one job: post its invoice, then tell the queue how that went.

    If the queue cannot be told (it was killed meanwhile), nothing is done about it: whoever does not report has not done the
    job, and it will be delivered again.
    """
    with contextlib.suppress(Unavailable, NotFound):
        try:
            status, text = post(port, job.payload_json())
        except OSError as error:
            client.failure(job.id, error.strerror or str(error), error_type=type(error).__name__)
            return
        if status == 200:
            client.success(job.id)
        else:
            # 422: the invoice itself is wrong, so no retry can help. Anything else may pass.
            client.failure(job.id, text, error_type=f"HTTP {status}", kill=status == 422)


def work(client: Client, port: int) -> None:
    """Take jobs for ever; open the stream anew whenever it ends."""
    failures = 0
    while True:
        threads = ThreadPoolExecutor(THREADS)
        with contextlib.suppress(Unavailable), client.take(["invoices"], prefetch=PREFETCH) as stream:
            failures = 0
            for job in stream:
                threads.submit(deliver, client, port, job)
        # What has not begun belongs to the queue again, which will offer it once more.
        threads.shutdown(cancel_futures=True)
        failures += 1
        wait = next_wait(RECONNECT, failures, Draws(rng=random.random))
        assert isinstance(wait, Wait), "a policy without limit always waits"
        time.sleep(wait.wait_ms / 1000)


def main() -> None:
    """Work until the demo hangs up on stdin."""
    client = Client(sys.argv[1])
    threading.Thread(target=work, args=(client, int(sys.argv[2])), daemon=True).start()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
