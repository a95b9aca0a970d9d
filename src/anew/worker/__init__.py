"""Workers: what takes jobs and runs them."""

from anew.worker.command import CommandWorker, WorkOptions
from anew.worker.notices import Notice

__all__ = ["CommandWorker", "Notice", "WorkOptions"]
