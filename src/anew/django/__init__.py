"""Anew in a Django project: `app` from its settings, and a backend for Django's own tasks.

    INSTALLED_APPS = [..., "anew.django"]
    TASKS = {"default": {"BACKEND": "anew.django.AnewBackend"}}

See docs/django.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anew.django.backend import AnewBackend
    from anew.django.commits import enqueue_on_commit
    from anew.django.task_options import options
    from anew.tasks.app import Anew

    app: Anew
    """The application that the settings describe."""

__all__ = ["AnewBackend", "app", "enqueue_on_commit", "options"]

_PLACES = {
    "AnewBackend": "anew.django.backend",
    "enqueue_on_commit": "anew.django.commits",
    "options": "anew.django.task_options",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: none of it can be imported before Django knows its settings."""
    if name == "app":
        from anew.django.application import project_app

        return project_app()
    if name in _PLACES:
        from importlib import import_module

        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
