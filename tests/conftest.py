"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

from tests.signals import undo_ignored_signals

undo_ignored_signals()

# Speed is measured in benchmarks: an example may take long on a busy machine without being wrong.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
