"""Imported by a process that runs handlers, before their modules: makes Django ready."""

import django
from django.apps import apps

if not apps.ready:
    django.setup()
