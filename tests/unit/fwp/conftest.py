"""What tests of the service may ask for."""

from tests.unit.engine.conftest import both_ways

__all__ = ["both_ways"]
