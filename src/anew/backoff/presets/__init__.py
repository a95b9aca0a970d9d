"""Named policies: the functions of other systems, and our own, as data for the one JSON form.

A preset is a small function from its parameters to a policy's JSON form; the parameters' kinds, the source and
what surprises people are declared beside it. Adding one is one decorated function in the file of its family.
Values a source leaves open (a limit, mostly) stay out, so that the server's default fills them.
"""

from typing import Final

# Importing a family declares its presets, and lists show them in this order.
# isort: off
from anew.backoff.presets import seeds, clouds, notifications, queues, lists, python, retriers, clients
# isort: on

from anew.backoff.presets.registry import ALIASES, PRESETS, Form, Preset, find_preset

FAMILIES: Final = tuple(dict.fromkeys(item.family for item in PRESETS.values()))
"""The families, in the order of lists."""

__all__ = [
    "ALIASES",
    "FAMILIES",
    "PRESETS",
    "Form",
    "Preset",
    "clients",
    "clouds",
    "find_preset",
    "lists",
    "notifications",
    "python",
    "queues",
    "retriers",
    "seeds",
]
