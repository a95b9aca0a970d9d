"""The pytest plugin: the fixture `anew_test`. It loads nothing of Anew before a test asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from anew.tasks.app import Anew
    from anew.testing import AppTest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option that names the application."""
    parser.addini("anew_app", "the application that anew_test tests: module:name")


@pytest.fixture
def anew_app(pytestconfig: pytest.Config) -> Anew:
    """The application that `anew_test` tests; a fixture of this name in your own conftest.py replaces it."""
    from anew.tasks.app import Anew

    named = str(pytestconfig.getini("anew_app"))
    module, _, name = named.partition(":")
    if not module or not name:
        raise pytest.UsageError(f"anew_app is {named!r}; expected module:name, such as shop.jobs:app")
    import importlib

    try:
        app = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # something that the application imports
        raise pytest.UsageError(f"anew_app: there is no module {error.name!r} for {named}") from error
    if not isinstance(app, Anew):
        raise pytest.UsageError(f"anew_app: {named} is no Anew application")
    return app


@pytest.fixture
def anew_test(anew_app: Anew) -> Iterator[AppTest]:
    """A test of the application; see `anew.testing`."""
    with anew_app.test() as test:
        yield test
