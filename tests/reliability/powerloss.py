"""Cuts the power at random moments and compares what the disk still holds with what was answered.

Run it alone: ``python -m tests.reliability.powerloss --images 5000 --seed 7``; ``--relaxed`` is the control, which must
lose something.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import apsw
import msgspec
import pytest

from anew.backoff import preset
from anew.clock import ManualClock
from anew.engine import Engine, Enqueue, Fail, Limits, Op, Succeed, Taker, staging
from anew.engine.staging import StagedInserts, payload_bytes
from anew.errors import AnewError
from anew.jobs import Defaults, Failed, NewJob
from anew.store.sql import SqlStore, payloads
from anew.store.sqlite import open_sqlite, opening

from .disk import Disk, RecordingVfs

TORN = """
SELECT id FROM job WHERE payload_bytes IS NOT (SELECT sum(length(data)) FROM payload WHERE job_id = job.id)
"""
"""Jobs whose payload is kept apart and not all there, or there though it is not kept apart."""

CHECKPOINT_PAGES = 60
"""Checkpoints come often, because a cut in one of them is what is worth trying."""


@dataclass
class Report:
    """What a run has found."""

    seed: int
    images: int = 0
    unopenable: int = 0
    damaged: int = 0
    lost: int = 0
    resurrected: int = 0
    syncs: int = 0
    late_syncs: int = 0
    answered: int = 0
    examples: list[str] = field(default_factory=list)

    def note(self, kind: str, text: str) -> None:
        """Count one finding and keep the first few in words."""
        setattr(self, kind, getattr(self, kind) + 1)
        if len(self.examples) < 5:
            self.examples.append(f"{kind}: {text}")


class Answered:
    """What the engine has said so far: the only thing that the images are held against."""

    def __init__(self) -> None:
        self.stored: set[int] = set()
        self.finished: set[int] = set()
        self.failures: dict[int, int] = {}
        self.count = 0


class Workload:
    """Random producers and workers, in one thread: on one engine, or on two that have the same file open, as two processes do.

    Args:
        directory: Where the store lives.
        vfs: Name of the recording VFS.
        rng: Chance.
        relaxed: Commit without sync: the control.
        background: Copy the log in a thread of its own, as a server does.
        shared: Two engines.
    """

    def __init__(
        self, directory: Path, vfs: str, rng: Random, *, relaxed: bool, background: bool, shared: bool
    ) -> None:
        self._rng = rng
        self._clock = ManualClock()
        self.said = Answered()
        self._held: list[int] = []
        self._doubt: set[int] = set()
        stores = [open_sqlite(directory, vfs=vfs, relaxed=relaxed, background=background)]
        if shared:
            stores.append(open_sqlite(directory, vfs=vfs, relaxed=relaxed, exclusive=False))
        self._engines = [self._engine(store) for store in stores]
        self._parts: list[Op] = []
        self._staging = StagedInserts(self._parts.append, stores[0].staging)

    def _engine(self, store: SqlStore) -> Engine:
        engine = Engine(
            store,
            clock=self._clock,
            defaults=Defaults(policy=preset("zizq")),
            limits=Limits(global_in_flight=0, min_free_bytes=0),
            rng=self._rng.random,
        )
        engine.dispatcher.add(Taker(None, 40, lambda rows, _: self._held.extend(row[0] for row in rows)))
        return engine

    def close(self) -> None:
        """Close what is open."""
        for engine in self._engines:
            engine.store.close()

    def step(self) -> None:
        """Apply one batch of one to eight operations."""
        self._clock.advance(self._rng.randrange(1, 20_000))
        if self._rng.random() < 0.2 and not self._parts:
            jobs = [self._job(self._rng.randrange(3_000, 30_000))]
            op = Enqueue(jobs, lambda result: self._stored(1, result))
            self._staging.add(op, payload_bytes(op))
        parts = self._parts[:]
        self._parts.clear()
        engine = self._engines[0] if parts else self._rng.choice(self._engines)
        engine.apply([*parts, *(self._operation() for _ in range(self._rng.randrange(1, 9)))])

    def _operation(self) -> Op:
        kind = self._rng.random()
        if self._held and kind < 0.45:
            keys = [self._pick() for _ in range(min(len(self._held), self._rng.randrange(1, 12)))]
            return Succeed(keys, lambda missing: self._succeeded(keys, missing))
        if self._held and kind < 0.6:
            key = self._pick()
            return Fail(key, Failed(message="no", backtrace="x" * self._rng.randrange(2_000)), self._failed)
        jobs = [self._job() for _ in range(self._rng.randrange(1, 12))]
        return Enqueue(jobs, lambda result: self._stored(len(jobs), result))

    def _pick(self) -> int:
        return self._held.pop(self._rng.randrange(len(self._held)))

    def _job(self, size: int | None = None) -> NewJob:
        size = size or self._rng.choice((20, 20, 20, 700, 6_000))
        later = self._clock.now() + 30_000 if self._rng.random() < 0.2 else None
        queue = f"q{self._rng.randrange(3)}"
        return NewJob(type="t", queue=queue, payload=msgspec.Raw(b'"' + b"x" * size + b'"'), ready_at=later)

    def _stored(self, count: int, result: Any) -> None:
        if not isinstance(result, AnewError):
            self.said.stored.update(result.keys)
            self.said.count += count

    def _succeeded(self, keys: list[int], missing: Any) -> None:
        if not isinstance(missing, AnewError):
            self.said.finished.update(set(keys) - set(missing))
            self.said.count += len(keys)

    def _failed(self, result: Any) -> None:
        if not isinstance(result, AnewError):
            self.said.failures[result.key] = result.attempts
            self.said.count += 1


def run(*, images: int, seed: int, relaxed: bool = False) -> Report:
    """Run workloads until there have been this many power cuts.

    Args:
        images: How many cuts.
        seed: Repeats the run.
        relaxed: Commit without sync; a sound harness then finds losses.
    """
    rng = Random(seed)
    report = Report(seed)
    while report.images < images:
        _one_life(min(100, images - report.images), rng, report, relaxed=relaxed)
    return report


def _one_life(images: int, rng: Random, report: Report, *, relaxed: bool) -> None:
    """Let one store live through a workload and look at images of its disk on the way."""
    disk = Disk()
    with _scratch() as folder, _in_small(), disk.seeing_syncs():
        live = folder / "live"
        name = f"recording-{report.images}-{id(disk)}"
        vfs = RecordingVfs(name, disk)
        shared = report.images // 100 % 2 == 1
        work = Workload(live, name, rng, relaxed=relaxed, background=rng.random() < 0.5, shared=shared)
        for at in range(images):
            for _ in range(rng.randrange(1, 6)):
                work.step()
            image = folder / f"image-{at}"
            image.mkdir()
            disk.cut(image, rng)
            _inspect(image, work.said, report)
            shutil.rmtree(image)
            report.images += 1
        report.syncs += disk.syncs
        report.late_syncs += disk.late_syncs
        report.answered += work.said.count
        work.close()
        del vfs


def _inspect(image: Path, said: Answered, report: Report) -> None:
    """Open an image as a server would and hold it against what was answered before the cut."""
    try:
        store = open_sqlite(image)
    except (AnewError, apsw.Error) as error:
        report.note("unopenable", f"{type(error).__name__}: {error}")
        return
    try:
        reader = apsw.Connection(str(image / opening.FILE))
        verdict = reader.execute("PRAGMA integrity_check").fetchone()
        if verdict is None or verdict[0] != "ok":
            report.note("damaged", str(verdict))
        present = dict(reader.execute("SELECT id, attempts FROM job").fetchall())
        for (key,) in reader.execute(TORN):
            report.note("damaged", f"the payload of job {key} is not whole")
        reader.close()
    finally:
        store.close()
    for key in said.stored - said.finished - present.keys():
        report.note("lost", f"job {key} was stored")
    for key in said.finished & present.keys():
        report.note("resurrected", f"job {key} was finished")
    for key, attempts in said.failures.items():
        if key in present and present[key] < attempts:
            report.note("lost", f"failure {attempts} of job {key}")


@contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="anew-power-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _in_small() -> Iterator[None]:
    """Checkpoint often and write payloads in little parts, because it is between those that a cut is worth trying."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "CHECKPOINT_PAGES", CHECKPOINT_PAGES)
        patch.setattr(payloads, "PART_BYTES", 2_500)
        patch.setattr(staging, "PART_BYTES", 5_000)
        yield


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--relaxed", action="store_true", help="the control: must lose")
    given = parser.parse_args()
    report = run(images=given.images, seed=given.seed, relaxed=given.relaxed)
    print(json.dumps(vars(report), indent=2))
    found = report.lost + report.resurrected + report.unopenable + report.damaged
    return 0 if (found > 0) is given.relaxed else 1


if __name__ == "__main__":
    sys.exit(main())
