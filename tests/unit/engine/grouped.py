"""Group commit with its rig and its loop, both moved by hand."""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

from anew.engine import Enqueue, GroupCommit, Limits

from .handloop import HandLoop
from .rig import Once, Rig, Worker


class Group:
    """A group commit with its rig and loop.

    Attributes:
        remote: Whether the store says that it is across a network, so that a thread applies the batches.
    """

    remote: ClassVar[bool] = False

    def __init__(
        self, store: Any = None, *, started: bool = True, limits: Limits | None = None, **given: Any
    ) -> None:
        self.rig = Rig(store, limits=limits)
        if self.remote:
            self.rig.store.remote = True  # type: ignore[misc]
        self.loop = HandLoop(self.rig)
        self.fatal = 0
        self.batches: list[int] = []
        self.commit = GroupCommit(self.rig.engine, self.loop, self._fatal, **given)  # type: ignore[arg-type]
        self.thread = self.commit._thread
        if self.thread is not None:
            self.loop.awaits = lambda: self.thread.busy  # type: ignore[union-attr]
            weakref.finalize(self, self.thread.end)
        real = self.rig.engine.apply

        def counted(ops: Any) -> None:
            self.batches.append(len(ops))
            real(ops)

        self.rig.engine.apply = counted  # type: ignore[method-assign]
        if started:
            self.commit.start()

    def _fatal(self) -> None:
        self.fatal += 1

    def submit(self, op: Any) -> Once:
        op.done = Once()
        if isinstance(op, Enqueue):
            self.commit.submit_new(op)
        else:
            self.commit.submit(op)
        return op.done

    def submit_and_settle(self, op: Any) -> Any:
        """Submit one operation, turn the loop until all is done, and give the operation's result."""
        done = self.submit(op)
        self.loop.settle()
        return done.result

    def batch(self) -> None:
        """Turn the loop until the next batch has been applied: the turns before it only look whether more comes."""
        before = len(self.batches)
        while len(self.batches) == before:
            assert self.loop.turn(), "nothing is to be applied"

    def worker(self, queues: list[str] | None = None, prefetch: int = 1_000) -> Worker:
        worker = Worker(queues, prefetch)
        self.commit.add_taker(worker.taker)
        return worker
