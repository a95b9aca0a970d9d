"""Settings of Zizq without a field here: ignored, read into another one, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from anew.config.setting import SettingSpec, ValueKind
from anew.errors import InvalidConfig, NotSupported

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

ADMIN: Final = ("admin-host", "admin-port", "admin-tls-cert", "admin-tls-key", "admin-tls-client-ca")
"""Refused: settings of a listener that this build does not have."""

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
        _foreign("no-admin", "switch", "There is no admin listener to switch off; accepted all the same."),
        *(
            _foreign(name, "text", f"Ignored: {why}.", short="-k" if name == "license-key" else "")
            for name, why in IGNORED.items()
        ),
        *(_foreign(name, "text", "Refused: not in this build.") for name in ADMIN),
    )
}
"""All of them by name."""


def refuse_listeners(given: Given) -> None:
    """Refuse what asks for an admin listener.

    Raises:
        InvalidConfig: A certificate without its key, or the other way round.
        NotSupported: Anything else of the kind. With ``no-admin`` the admin listener's address is harmless.
    """
    _insist_on_pair(given)
    if given.get("no-admin", ("", False))[1]:
        return
    for name in ADMIN:
        if name in given:
            raise NotSupported(
                f"{given[name][0]}: the admin listener is not in this build; leave it out, or add --no-admin"
            )


def _insist_on_pair(given: Given) -> None:
    cert, key, client_ca = "admin-tls-cert", "admin-tls-key", "admin-tls-client-ca"
    for name, needed in ((cert, (key,)), (key, (cert,)), (client_ca, (cert, key))):
        missing = [f"--{other}" for other in needed if other not in given]
        if name in given and missing:
            raise InvalidConfig(
                # Who adds what is missing would only then read that none of it is here.
                f"{given[name][0]}: needs {' and '.join(missing)} beside it, and the admin listener is not in this build; "
                "leave it out",
                field=name,
                value=given[name][1],
            )


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
