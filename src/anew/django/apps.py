"""What Django does with this package when it starts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from django.apps import AppConfig
from django.conf import settings
from django.core import checks
from django.utils.module_loading import autodiscover_modules

from anew.django.application import WrongSetting, check_settings, project_app

PATHS: Final = ("anew.django.AnewBackend", "anew.django.backend.AnewBackend")
"""What the setting TASKS may call our backend."""


class AnewConfig(AppConfig):  # type: ignore[misc]
    """Finds the ``tasks`` modules of all apps, and has the settings checked."""

    name = "anew.django"
    label = "anew"
    verbose_name = "Anew"

    def ready(self) -> None:
        """Import every app's module ``tasks``, so that a worker knows them; the others of Django's tasks are found by their paths.

        Where the setting ANEW does not fit, that is left to the checks, which every command runs first, and to whoever enqueues.
        """
        checks.register(check_settings)
        with suppress(WrongSetting):
            autodiscover_modules("tasks")
            if any(_is_ours(backend) for backend in getattr(settings, "TASKS", {}).values()):
                from anew.django.backend import prepare  # needs Django 6, or the package django-tasks

                prepare(project_app())


def _is_ours(backend: object) -> bool:
    return isinstance(backend, Mapping) and backend.get("BACKEND") in PATHS
