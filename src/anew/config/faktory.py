"""Settings that Faktory has of its own: files of TOML, variables, the file of the password, those of the certificate.

They fill in what nobody has set for Anew. `FAKTORY_PASSWORD` counts as a variable does, before ``anew.toml``; the files count
after it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from anew.config import tables as forms
from anew.config.setting import SettingSpec
from anew.errors import InvalidConfig
from anew.units import reason_of, shown

SYSTEM: Final = Path("/etc/faktory")
_VARIABLE: Final = "FAKTORY_PASSWORD"
_BY_TEXT: Final = "server.fwp-password"
_BY_FILE: Final = "server.fwp-password-file"
_ALL: Final = "0.0.0.0"  # noqa: S104 what ":7419" means; whether it may be is for `require_safe_bind`
_TRUE: Final = {"1", "true", "yes"}
_PEM: Final = {"tls_cert": "public.cert.pem", "tls_key": "private.key.pem"}
"""The certificate of Faktory's port and its key, by field. Source: Faktory 1.10."""

Found = dict[str, tuple[str, Any]]
"""Keys such as ``"faktory.binding"`` to their source and value."""


def fill_in(
    fwp: dict[str, object],
    tables: dict[str, object],
    origins: dict[str, str],
    environ: Mapping[str, str],
    specs: Mapping[str, SettingSpec],
    *,
    insecure: bool,
) -> list[str]:
    """Fill in what Faktory's own settings say, and settle the password.

    Args:
        fwp: The group of that name, as far as it was given.
        tables: The group of tables, likewise.
        origins: Where each setting comes from; changed too.
        environ: The environment.
        specs: Settings by key.
        insecure: Whether a server that nothing protects is meant.

    Returns:
        The places of keys of cron entries and throttles that have no effect.

    Raises:
        InvalidConfig: A file cannot be read, a value does not fit, or there is no password where `FAKTORY_ENV` asks for one.
    """
    environment = _environment(environ)
    given = fwp.get("faktory_dir")
    folder = given if isinstance(given, Path) else _folder(environment, environ)
    if given is not None and not os.path.isdir(folder):
        source = origins["server.faktory-dir"]
        raise InvalidConfig(
            f"{source}: {shown(str(folder))} is not valid; expected a directory", field="faktory-dir"
        )
    found = _read(folder)
    _listen(fwp, origins, found, specs, "faktory", "")
    _listen(fwp, origins, found, specs, "web", "web-")
    if "web.password" in found and origins["server.fwp-web-password"] == "default":
        source, value = found["web.password"]
        origins["server.fwp-web-password"] = source
        fwp["web_password"] = _text(value, source)
    _certify(fwp, origins, folder)
    passed_over: list[str] = []
    if "throttles" in found and origins["fwp.throttles"] == "default":
        source, value = found["throttles"]
        tables["throttles"] = forms.throttles(value, source, passed_over)
        origins["fwp.throttles"] = source
    if "cron" in found and origins["fwp.cron"] == "default":
        origins["fwp.cron"], parts = found["cron"]
        tables["cron"] = tuple(
            entry for source, value in parts for entry in forms.cron(value, source, passed_over)
        )
    skip = environ.get("FAKTORY_SKIP_PASSWORD", "").lower() in _TRUE
    _settle_password(fwp, origins, environ, found)
    if "password" not in fwp and environment != "development" and not skip:
        kept = folder / "password"
        # Not `Path.exists`: that raises where the directory may not be entered.
        if os.path.exists(kept) and (given is not None or folder == SYSTEM):
            _set_password(fwp, origins, _content(kept, str(kept)), str(kept))
        elif environment is not None and not insecure:
            raise InvalidConfig(
                f"FAKTORY_ENV={environment}: there is no password; expected one (FAKTORY_PASSWORD, --fwp-password-file), or "
                "FAKTORY_SKIP_PASSWORD=1",
                field="fwp-password",
            )
    return passed_over


def _environment(environ: Mapping[str, str]) -> str | None:
    name = environ.get("FAKTORY_ENV") or None
    if name not in (None, "development", "staging", "production"):
        raise InvalidConfig(
            f"FAKTORY_ENV: {shown(name)} is not valid; expected development, staging or production",
            field="FAKTORY_ENV",
            value=name,
        )
    return name


def _folder(environment: str | None, environ: Mapping[str, str]) -> Path:
    """Give the directory of Faktory's settings: the one that its environment means, else the user's own if there are any in it."""
    home = environ.get("HOME")
    own = Path(home) / ".faktory" if home else None
    if own is not None and (
        environment == "development" or (environment is None and (_files(own) or _pair(own)))
    ):
        return own
    return SYSTEM


def _files(folder: Path) -> list[Path]:
    """List ``conf.d/*.toml`` in alphabetical order.

    Raises:
        InvalidConfig: There is such a directory, and it cannot be looked into; a password may stand there.
    """
    try:
        names = os.listdir(folder / "conf.d")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InvalidConfig(
            f"{folder / 'conf.d'}: cannot be read: {reason_of(error)}; name another directory (--faktory-dir)",
            field="faktory-dir",
        ) from error
    return [folder / "conf.d" / name for name in sorted(names) if name.endswith(".toml")]


def _read(folder: Path) -> Found:
    """Read ``conf.d/*.toml`` in alphabetical order; what Anew does not know is passed over."""
    found: Found = {}
    for file in _files(folder):
        document = _document(file)
        table = document.get("faktory", {})
        if not isinstance(table, dict):
            raise InvalidConfig(f"{file}: 'faktory' is not valid; expected a table", field="faktory")
        web = document.get("web", {})
        if not isinstance(web, dict):
            raise InvalidConfig(f"{file}: 'web' is not valid; expected a table", field="web")
        for name, keys in (("faktory", table), ("web", web)):
            for key in ("binding", "password"):
                if key in keys:
                    _add(found, f"{name}.{key}", f"{file}: [{name}] {key}", keys[key])
        if "throttles" in document:
            _add(found, "throttles", f"{file}: [throttles]", document["throttles"])
        if "cron" in document:
            _add_entries(found, file, document["cron"])
    return found


def _add(found: Found, key: str, source: str, value: Any) -> None:
    if key in found:
        raise InvalidConfig(f"{source}: stands in {found[key][0]} too; leave one of them out", field=key)
    found[key] = (source, value)


def _add_entries(found: Found, file: Path, entries: Any) -> None:
    """Put the ``[[cron]]`` of all files together; each part keeps its source."""
    source = f"{file}: [[cron]]"
    found.setdefault("cron", (source, []))[1].append((source, entries))


def _document(file: Path) -> dict[str, Any]:
    import tomllib  # only where there is a file

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidConfig(
            f"{file}: cannot be read as TOML: {reason_of(error)}; mend it, or name another directory (--faktory-dir)",
            field="faktory-dir",
        ) from error


def _listen(
    fwp: dict[str, object],
    origins: dict[str, str],
    found: Found,
    specs: Mapping[str, SettingSpec],
    table: str,
    prefix: str,
) -> None:
    """Listen where a table's binding says; the port 0 of the web binding means that there is none."""
    if f"{table}.binding" not in found:
        return
    source, binding = found[f"{table}.binding"]
    host, colon, port = str(binding).rpartition(":")
    if not isinstance(binding, str) or not colon:
        raise InvalidConfig(
            f"{source}: {shown(binding)} is not valid; expected an address and a port such as localhost:7419",
            field="binding",
            value=binding,
        )
    if table == "web" and port == "0":
        return
    for name, text in (("host", host or _ALL), ("port", port)):
        key = f"server.fwp-{prefix}{name}"
        if origins[key] == "default":
            fwp[f"{prefix}{name}".replace("-", "_")] = specs[key].parse(text, source)
            origins[key] = source


def _certify(fwp: dict[str, object], origins: dict[str, str], folder: Path) -> None:
    """Take the two PEM files of Faktory's directory, unless others were named; one of them alone means nothing."""
    if {"tls_cert", "tls_key"} & fwp.keys() or not _pair(folder):
        return
    for name, file in _PEM.items():
        fwp[name] = folder / file
        origins[f"server.fwp-{name.replace('_', '-')}"] = str(folder / file)


def _pair(folder: Path) -> bool:
    return all(os.path.exists(folder / file) for file in _PEM.values())


def _settle_password(
    fwp: dict[str, object], origins: dict[str, str], environ: Mapping[str, str], found: Found
) -> None:
    """Decide which password counts: flag, variable of Anew's, `FAKTORY_PASSWORD`, ``anew.toml``, Faktory's files."""
    by_text, by_file = _rank(origins[_BY_TEXT]), _rank(origins[_BY_FILE])
    if by_text == by_file < _DEFAULT:
        raise InvalidConfig(
            f"{origins[_BY_TEXT]} contradicts {origins[_BY_FILE]}: each gives the password; leave one of them out",
            field="fwp-password",
        )
    if by_file < by_text:
        source = origins[_BY_FILE]
        _set_password(fwp, origins, _content(Path(str(fwp["password_file"])), source), source)
    best = min(by_text, by_file)
    if best > _OUR_VARIABLE and _VARIABLE in environ:
        _set_password(fwp, origins, _text(environ[_VARIABLE], _VARIABLE), _VARIABLE)
    elif best == _DEFAULT and "faktory.password" in found:
        source, value = found["faktory.password"]
        _set_password(fwp, origins, _text(value, source), source)


_OUR_VARIABLE: Final = 1
_DEFAULT: Final = 3


def _rank(origin: str) -> int:
    if origin == "default":
        return _DEFAULT
    return 0 if origin.startswith("--") else _OUR_VARIABLE if origin.startswith("ANEW_") else 2


def _set_password(fwp: dict[str, object], origins: dict[str, str], password: str, source: str) -> None:
    """Set the password; an empty one is none."""
    fwp.pop("password", None)
    if password:
        fwp["password"] = password
    origins[_BY_TEXT] = source


def _text(value: object, source: str) -> str:
    """Read a password as Faktory does: what begins with a slash is the path of a file."""
    if not isinstance(value, str):
        raise InvalidConfig(f"{source}: the value is not valid; expected text", field="fwp-password")
    return _content(Path(value), source) if value.startswith("/") else value


def _content(file: Path, source: str) -> str:
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise InvalidConfig(
            f"{source}: the file cannot be read: {reason_of(error)}", field="fwp-password"
        ) from error
    if not text:
        raise InvalidConfig(f"{source}: {file} is empty; expected a password", field="fwp-password")
    return text
