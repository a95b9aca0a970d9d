"""A group of jobs with callbacks; see `Anew.batch`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobBatch:
    """A batch that is open: jobs join it by ``task.using(batch=batch)``.

    Attributes:
        key: Names it in the store.
    """

    key: int
