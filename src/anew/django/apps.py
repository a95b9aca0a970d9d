"""What Django does with this package when it starts."""

from __future__ import annotations

from contextlib import suppress

from django.apps import AppConfig
from django.core import checks
from django.utils.module_loading import autodiscover_modules

from anew.django.application import WrongSetting, check_settings


class AnewConfig(AppConfig):  # type: ignore[misc]
    """Finds the ``tasks`` modules of all apps, and has the settings checked."""

    name = "anew.django"
    label = "anew"
    verbose_name = "Anew"

    def ready(self) -> None:
        """Import every app's module ``tasks``, so that a worker knows them.

        Where the setting ANEW does not fit, that is left to the checks, which every command runs first, and to whoever enqueues.
        """
        checks.register(check_settings)
        with suppress(WrongSetting):
            autodiscover_modules("tasks")
