"""Workers: what takes jobs and runs them."""

from anew.worker.command import CommandWorker, Share, WorkOptions
from anew.worker.reports import Notice

__all__ = ["CommandWorker", "Notice", "Share", "WorkOptions"]
