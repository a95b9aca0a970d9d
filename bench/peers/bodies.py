"""What the jobs do, the same for every queue. Standard library alone: each peer's worker imports it."""

import os
import time

FOLDER = os.environ.get("BENCH_FOLDER", ".")
EVERY = 100


def noop(n):
    """Do nothing, but for a byte in a file for every hundredth job: the file's size tells how many are done."""
    if n % EVERY == 0:
        append("done", ".")


def stamp(at):
    """Write how many milliseconds after `at` (seconds since 1970) this began."""
    append("stamps", f"{(time.time() - at) * 1000}\n")


def slow(n):
    """Write when this began, then run longer than anybody waits."""
    append("runs", f"{time.time()}\n")
    time.sleep(300)


def append(name, text):
    """Add to a file of the folder in one write."""
    with open(f"{FOLDER}/{name}", "a") as file:
        file.write(text)
