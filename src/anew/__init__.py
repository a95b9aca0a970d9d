"""Anew: a durable job queue whose heart is a complete retry engine."""

__version__ = "0.1.0"

__all__ = ["__version__"]
