"""Settings of Zizq without a field here: ignored, or read into another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from anew.config.setting import SettingSpec, ValueKind
from anew.errors import InvalidConfig

IGNORED: Final[Mapping[str, str]] = {
    "license-key": "everything is included",
    "license-key-check-interval": "everything is included",
    "cache-size": "tunes Zizq's own storage",
    "enqueue-batch-size": "a commit takes whatever has gathered",
    "complete-batch-size": "a commit takes whatever has gathered",
}
"""Accepted without effect, each with the reason."""

COMMIT_MODES: Final = ("default-commit-mode", "enqueue-commit-mode")
"""Read into `Store.commit`: ``fsync`` is full; ``buffered`` is full too, unless relaxed was asked for."""


Given = Mapping[str, tuple[str, object]]
"""Names of the foreign settings that were given, each with its source and its value."""

_COMMIT_HELP: Final = (
    "fsync is --commit full; buffered means full here too, unless --commit relaxed is given."
)


def _foreign(
    name: str, kind: ValueKind, text: str, choices: tuple[str, ...] = (), short: str = ""
) -> SettingSpec:
    return SettingSpec(name=name, kind=kind, help=text, choices=choices, short=short, zizq=True)


FOREIGN: Final[Mapping[str, SettingSpec]] = {
    setting.name: setting
    for setting in (
        *(_foreign(name, "choice", _COMMIT_HELP, ("buffered", "fsync")) for name in COMMIT_MODES),
        *(
            _foreign(name, "text", f"Ignored: {why}.", short="-k" if name == "license-key" else "")
            for name, why in IGNORED.items()
        ),
    )
}
"""All of them by name."""


def commit_of(given: Given, commit: object, source: str) -> str | None:
    """Find which of Zizq's commit modes asks for full commits.

    Args:
        given: The foreign settings.
        commit: Anew's own setting if it was given, else None.
        source: Where that came from.

    Returns:
        The source that asks for ``fsync``, or None.

    Raises:
        InvalidConfig: ``fsync`` beside ``relaxed``.
    """
    for name in COMMIT_MODES:
        mode_source, mode = given.get(name, ("", ""))
        if mode == "fsync":
            if commit == "relaxed":
                raise InvalidConfig(
                    f"{source}: 'relaxed' contradicts {mode_source}: 'fsync'; leave one of them out",
                    field="commit",
                    value=commit,
                )
            return mode_source
    return None
