"""The application that a project's settings describe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import django
from asgiref.sync import SyncToAsync
from django.apps import apps
from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections

from anew.errors import AnewError, InvalidInput
from anew.tasks.app import Anew
from anew.tasks.around import Running

KEYS: Final = {
    "STORE": "store",
    "NAME": "name",
    "QUEUE": "queue",
    "POLICY": "policy",
    "SERIALIZER": "serializer",
}
"""Of the setting ANEW, by key: the argument of `Anew`."""

DEFAULT_STORE: Final = "jobs.db"
"""In BASE_DIR."""


class WrongSetting(ImproperlyConfigured):  # type: ignore[misc]
    """The setting ANEW does not fit."""


@cache
def project_app() -> Anew:
    """Give the application; the same for the whole process. Where Django is not set up yet, as in `anew worker`, it is now.

    Raises:
        WrongSetting: The setting ANEW does not fit.
    """
    if not apps.app_configs:
        django.setup()
        return project_app()  # tasks that were imported meanwhile have made it
    try:
        app = Anew(**_arguments())
    except AnewError as error:
        raise WrongSetting(f"ANEW: {error}") from error
    if "NAME" not in getattr(settings, "ANEW", {}):
        app.name = _project_name()
    app.first_module = "anew.django.setup"
    app.around("run")(_with_fresh_connections)
    return app


def _project_name() -> str:
    """Name the project as the package that has its URLs, or its settings: two projects may share a store."""
    named = getattr(settings, "ROOT_URLCONF", None) or getattr(settings, "SETTINGS_MODULE", None)
    return str(named or "django").partition(".")[0]


def _arguments() -> dict[str, Any]:
    given = getattr(settings, "ANEW", {})
    if not isinstance(given, Mapping):
        raise InvalidInput(f"is of the type {type(given).__name__}; expected a dict", field="ANEW")
    for key in given:
        if key not in KEYS:
            raise InvalidInput(f"{key!r} is no key of it; expected some of {', '.join(KEYS)}", field="ANEW")
    arguments = {KEYS[key]: value for key, value in given.items()}
    if "store" not in arguments and hasattr(settings, "BASE_DIR"):
        arguments["store"] = Path(settings.BASE_DIR) / DEFAULT_STORE
    return arguments


def _with_fresh_connections(running: Running) -> Iterator[None]:
    """As Django does around a request: connections that are broken, or older than CONN_MAX_AGE, are closed."""
    _close_old(running)
    yield
    _close_old(running)


def _close_old(running: Running) -> None:
    task = project_app().tasks.get(running.task)
    if task is not None and task.is_async:
        # What an `async def` asks of the database runs in this one thread, after what was submitted to it before.
        SyncToAsync.single_thread_executor.submit(close_old_connections)
    else:
        close_old_connections()


def check_settings(**kwargs: Any) -> list[checks.CheckMessage]:
    """Check the setting ANEW, for ``manage.py check``."""
    try:
        project_app()
    except WrongSetting as error:
        return [checks.Error(str(error), id="anew.E001")]
    return []
