"""Opens an engine inside a program: any number of processes, each with as many threads as it likes, on one file."""

from __future__ import annotations

import os
import random
import socket
from dataclasses import replace
from pathlib import Path
from typing import Final

from anew.backoff import Policy
from anew.clock import Clock
from anew.engine import Engine, Limits, ThreadCommit
from anew.jobs import Defaults
from anew.jq import Expressions
from anew.store.postgres import open_postgres
from anew.store.sqlite import Places, open_sqlite
from anew.tasks.backend import CRASHES
from anew.units import is_database

SEEDED: Final = "0test0000"
"""The tag of stores whose chance is seeded."""

DEFAULTS = Defaults(policy=Policy.from_json({"preset": "even"}), interruption_limit=CRASHES)


def open_engine(
    where: Path | str | None,
    *,
    defaults: Defaults = DEFAULTS,
    limits: Limits | None = None,
    clock: Clock | None = None,
    seed: int | None = None,
) -> ThreadCommit:
    """Open the engine of a file, beside whichever other processes have it open, a server among them.

    A forked child must open an engine of its own: what it inherits refuses everything.

    Args:
        where: The database file, or the data directory of a server, as `Places.at` has it; ``postgresql://…`` of a database; None
            keeps everything in memory.
        defaults: Policy and retention of jobs that set none.
        limits: What is bounded.
        clock: The time; None: the machine's, or the database's.
        seed: For tests, with a clock of their own: every wait and every job's id come from it. None: from the system's chance.

    Raises:
        InvalidConfig: The file cannot be used, or lies on a file system of the network.
        StoreBusy: Another process is writing and does not let go.
        NewerStore: A newer program wrote it.
        StoreFailed: The file is no database of ours, or a sync has failed in a process that has it open.
    """
    if isinstance(where, str) and is_database(where):
        store = open_postgres(where)
    else:
        store = open_sqlite(None if where is None else Places.at(Path(where)), exclusive=False)
    chance = random.Random(seed)  # noqa: S311 - jitter is no secret
    if seed is not None:
        store.identity = replace(store.identity, tag=SEEDED, secret=chance.randbytes(32))
    try:
        engine = Engine(
            store,
            clock=clock or store.clock,
            defaults=defaults,
            limits=limits or Limits(global_in_flight=0),
            rng=chance.random,
            expressions=Expressions(),
            worker=None if seed is not None else f"{socket.gethostname()}:{os.getpid()}",
        )
    except BaseException:
        store.close()
        raise
    return ThreadCommit(engine)


def webhook_key(where: str) -> Path:
    """Give where the secret is that the keys of a store's subscriptions are encrypted with.

    For a database that is in the data directory of whoever uses it: all who do must have the same file.
    """
    return Places.at(
        Path(os.environ.get("ANEW_ROOT_DIR") or "anew-data" if is_database(where) else where)
    ).webhook_key
