"""Workers: what takes jobs and runs them."""

from anew.worker.command import CommandWorker, Notice, WorkOptions

__all__ = ["CommandWorker", "Notice", "WorkOptions"]
