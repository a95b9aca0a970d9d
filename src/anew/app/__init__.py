"""The composition root: where the engines of the store are named and the parts put together."""

from anew.tasks.opening import open_engine

__all__ = ["open_engine"]
