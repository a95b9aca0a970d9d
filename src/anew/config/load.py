"""Builds the settings from their sources."""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anew.config import faktory
from anew.config.setting import SettingSpec
from anew.config.settings import Connect, Settings, Webhooks, declared
from anew.config.zizq import FOREIGN, commit_of
from anew.errors import InvalidConfig
from anew.units import reason_of, shown

FILE_NAME: Final = "anew.toml"

_OWN_URLS: Final = {"url": "listen", "admin_url": "admin"}
"""Addresses that clients call, by the group that says where the server listens."""

_LINT: Final = "lint"
"""A table that may stand in the file and holds no settings: it is read by ``anew policy lint``."""

Tables = dict[str, dict[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Settings and where each came from.

    Attributes:
        settings: The tree.
        origins: ``"server.port"`` (table and name) to ``"default"``, ``"--port"``, ``"ANEW_PORT"`` or
            ``"anew.toml: [server] port"``.
        passed_over: The places of keys in Faktory's own files that Anew does not know, which have no effect.
    """

    settings: Settings
    origins: Mapping[str, str]
    passed_over: Sequence[str] = ()

    def shown(self) -> list[tuple[str, str, str]]:
        """Give all settings as people may see them: name, value (secrets as ``***``), and where it comes from."""
        rows = []
        for group, field, setting in declared():
            value = setting.show(getattr(getattr(self.settings, group), field))
            rows.append((_key(setting), value, self.origins.get(_key(setting), "default")))
        return rows


def find_file(flag: str | None, environ: Mapping[str, str]) -> Path | None:
    """Find the file of settings: ``--config``, else ``ANEW_CONFIG``, else ``anew.toml`` here if there is one.

    Raises:
        InvalidConfig: The one that was asked for does not exist.
    """
    for source, given in (("--config", flag), ("ANEW_CONFIG", environ.get("ANEW_CONFIG"))):
        if given:
            if not Path(given).is_file():
                raise InvalidConfig(
                    f"{source}: {shown(given)} is not valid; expected a file", field="config", value=given
                )
            return Path(given)
    return Path(FILE_NAME) if Path(FILE_NAME).is_file() else None


def load_settings(flags: Mapping[str, object], environ: Mapping[str, str], file: Path | None) -> Loaded:
    """Build the settings from all sources.

    Args:
        flags: Names without dashes to values as given; None and missing mean not given. A name outside the
            ``[server]`` table stands with its table: ``"client.url"``.
        environ: The environment. An empty variable counts as not set.
        file: A TOML file, or None.

    Raises:
        InvalidConfig: A value does not fit; the message names source, value and expectation.
        NotSupported: A setting asks for what this build does not have.
    """
    sources = _Sources(flags, environ, file)
    specs = {_key(setting): setting for _, _, setting in declared()}
    groups: dict[str, dict[str, object]] = {group.name: {} for group in dataclasses.fields(Settings)}
    origins: dict[str, str] = {}
    for group, name, setting in declared():
        found = sources.find(setting)
        origins[_key(setting)] = found[0] if found else "default"
        if found:
            groups[group][name] = setting.parse(found[1], found[0])
    for field, door in _OWN_URLS.items():
        if field not in groups["connect"] and groups[door].keys() & {"host", "port", "tls_cert"}:
            groups["connect"][field] = _own_url(sources, door)
            origins[f"client.{field.replace('_', '-')}"] = "the server's address"
    foreign = {
        name: (found[0], setting.parse(found[1], found[0]))
        for name, setting in FOREIGN.items()
        if (found := sources.find(setting))
    }
    full = commit_of(foreign, groups["store"].get("commit"), origins["server.commit"])
    if full and not groups["store"].get("commit"):
        origins["server.commit"] = full
    _settle_retry(groups["retry"], origins)
    passed_over: list[str] = []
    if not groups["fwp"].get("off"):
        passed_over = faktory.fill_in(
            groups["fwp"],
            groups["fwp_tables"],
            origins,
            environ,
            specs,
            insecure=bool(groups["listen"].get("insecure")),
        )
    _insist_on_pairs(groups, origins)
    return Loaded(settings=_grow(groups), origins=origins, passed_over=passed_over)


def load_connect(flags: Mapping[str, object], environ: Mapping[str, str], file: Path | None) -> Connect:
    """Build the settings that a client needs; what is wrong with a server's settings does not concern it.

    Where nothing says the address, it is that of the server that these variables and this file would start.

    Args:
        flags: Names such as ``"client.url"`` to values as given; None means not given.
        environ: The environment.
        file: A TOML file, or None.

    Raises:
        InvalidConfig: A value does not fit.
    """
    sources = _Sources(flags, environ, file)
    given = sources.group("connect")
    for field, door in _OWN_URLS.items():
        given.setdefault(field, _own_url(sources, door))
    return _grow({"connect": given}).connect


def load_webhooks(environ: Mapping[str, str], file: Path | None) -> Webhooks:
    """Build the settings of topics, as ``anew deliver`` has them by these variables and this file.

    Raises:
        InvalidConfig: A value does not fit.
    """
    return _grow({"webhooks": _Sources({}, environ, file).group("webhooks")}).webhooks


def fwp_url(environ: Mapping[str, str], file: Path | None) -> str:
    """Give the address of the Faktory Work Protocol, as a server would have it that these variables and this file start.

    Raises:
        InvalidConfig: The file cannot be read.
    """
    return _own_url(_Sources({}, environ, file), "fwp")


def require_safe_bind(settings: Settings) -> None:
    """Refuse an address that others can reach while nothing asks them who they are, or while they can listen to each other.

    Raises:
        InvalidConfig: The bind is not loopback, something is missing that protects it, and nobody said that this is meant.
    """
    if settings.listen.insecure:
        return
    for bind in unsafe_binds(settings):
        lacks, remedies = zip(*(_MISSING[bind.name, what] for what in bind.missing), strict=True)
        raise InvalidConfig(
            f"--{bind.name} {bind.host}: others could reach this server, which {' and '.join(lacks)}; {' and '.join(remedies)}; "
            "or stay on 127.0.0.1; or say --insecure behind a proxy that ends TLS, or where the network itself is closed",
            field=bind.name,
            value=bind.host,
        )


_NO_AUTHENTICATION: Final = "asks nobody who they are"
_NO_TLS: Final = "encrypts nothing"
_MISSING: Final = {
    ("host", "authentication"): (
        _NO_AUTHENTICATION,
        "set a token (ANEW_TOKEN or --token @file)",
    ),
    ("host", "tls"): (
        _NO_TLS,
        "give it a certificate (anew tls init makes one, for --tls-cert and --tls-key)",
    ),
    ("admin-host", "authentication"): (
        _NO_AUTHENTICATION,
        "set a token (ANEW_TOKEN or --token @file)",
    ),
    ("admin-host", "tls"): (
        _NO_TLS,
        "give it a certificate (anew tls init makes one, for --admin-tls-cert and --admin-tls-key)",
    ),
    ("fwp-host", "authentication"): (
        _NO_AUTHENTICATION,
        "set a password (FAKTORY_PASSWORD or --fwp-password-file)",
    ),
    ("fwp-host", "tls"): (
        _NO_TLS,
        "give it a certificate (anew tls init makes one, for --fwp-tls-cert and --fwp-tls-key)",
    ),
    ("fwp-web-host", "authentication"): (
        _NO_AUTHENTICATION,
        "set a password (--fwp-web-password, or that of --fwp-password-file)",
    ),
    ("fwp-web-host", "tls"): (
        _NO_TLS,
        "give it a certificate (anew tls init makes one, for --fwp-tls-cert and --fwp-tls-key)",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsafeBind:
    """An address that others can reach, and what it lacks for that.

    Attributes:
        name: The setting that names it: ``host``, ``fwp-host``.
        host: The address.
        missing: ``authentication``, ``tls``, or both.
    """

    name: str
    host: str
    missing: tuple[str, ...]


def unsafe_binds(settings: Settings) -> list[UnsafeBind]:
    """Give the addresses that others can reach while nothing asks them who they are, or nothing is encrypted."""
    listen, admin, fwp = settings.listen, settings.admin, settings.fwp
    token = listen.token or listen.tokens_file
    doors = [("host", listen.host, bool(token or listen.tls_client_ca), bool(listen.tls_cert))]
    if not admin.off:
        asks = bool(token or admin.tls_client_ca)
        doors.append(("admin-host", admin.host, asks, bool(admin.tls_cert)))
    if not fwp.off:
        doors.append(("fwp-host", fwp.host, bool(fwp.password or fwp.tls_client_ca), bool(fwp.tls_cert)))
    if not fwp.off and fwp.web_port is not None:
        asks = bool(fwp.web_password or fwp.password)
        doors.append(("fwp-web-host", fwp.web_host, asks, bool(fwp.tls_cert)))
    found = []
    for name, host, asks, encrypts in doors:
        missing = (*(() if asks else ("authentication",)), *(() if encrypts else ("tls",)))
        if missing and not ipaddress.ip_address(host).is_loopback:
            found.append(UnsafeBind(name=name, host=host, missing=missing))
    return found


class _Sources:
    """Looks a setting up in flags, variables and the file, in this order."""

    def __init__(self, flags: Mapping[str, object], environ: Mapping[str, str], file: Path | None) -> None:
        self._flags, self._environ, self._file = flags, environ, file
        self._tables = _read_file(file) if file else {}

    def group(self, name: str) -> dict[str, object]:
        """Read the settings of one group, as far as they are given."""
        return {
            field: setting.parse(found[1], found[0])
            for group, field, setting in declared()
            if group == name and (found := self.find(setting))
        }

    def find(self, setting: SettingSpec) -> tuple[str, object] | None:
        flag = self._flags.get(setting.name if setting.table == "server" else _key(setting))
        if flag is not None:
            return f"--{setting.name}", flag
        for variable in setting.variables():
            if self._environ.get(variable):
                return variable, self._environ[variable]
        table = self._tables.get(setting.table, {})
        if setting.name in table:
            return f"{self._file}: [{setting.table}] {setting.name}", table[setting.name]
        return None


_SCHEMES: Final = {"admin": ("http", "https"), "listen": ("http", "https"), "fwp": ("tcp", "tcp+tls")}


def _own_url(sources: _Sources, group: str) -> str:
    """Give a door's address, as these settings have it; a certificate makes it another scheme."""
    default = getattr(Settings(), group)
    secure = any(
        of == group and name == "tls_cert" and sources.find(setting) for of, name, setting in declared()
    )
    found: dict[str, object] = {"host": default.host, "port": default.port}
    for of, name, setting in declared():
        if of == group and name in found and (given := sources.find(setting)):
            with contextlib.suppress(InvalidConfig):
                found[name] = (
                    setting.parse(given[1], given[0]) or default.port
                )  # nobody knows which port 0 became
    host = ipaddress.ip_address(str(found["host"]))
    if host.is_unspecified:
        host = ipaddress.ip_address("127.0.0.1" if host.version == 4 else "::1")
    shown_host = f"[{host}]" if host.version == 6 else str(host)
    return f"{_SCHEMES[group][secure]}://{shown_host}:{found['port']}"


def _key(setting: SettingSpec) -> str:
    return f"{setting.table}.{setting.name}"


_TLS_PREFIXES: Final = {"listen": "tls-", "admin": "admin-tls-", "fwp": "fwp-tls-"}


def _insist_on_pairs(groups: Mapping[str, Mapping[str, object]], origins: Mapping[str, str]) -> None:
    """Refuse a certificate without its key, a key without its certificate, and authorities of clients without both."""
    for group, prefix in _TLS_PREFIXES.items():
        given = {
            name for name in ("cert", "key", "client-ca") if f"tls_{name.replace('-', '_')}" in groups[group]
        }
        for name, needed in (("cert", {"key"}), ("key", {"cert"}), ("client-ca", {"cert", "key"})):
            missing = sorted(needed - given)
            if name in given and missing:
                flags = " and ".join(f"--{prefix}{other}" for other in missing)
                raise InvalidConfig(
                    f"{origins[f'server.{prefix}{name}']}: needs {flags} beside it", field=f"{prefix}{name}"
                )


def _grow(groups: Mapping[str, Mapping[str, object]]) -> Settings:
    default = Settings()
    return dataclasses.replace(
        default,
        **{name: dataclasses.replace(getattr(default, name), **given) for name, given in groups.items()},
    )


def _read_file(file: Path) -> Tables:
    import tomllib  # Only where there is a file: commands start often, and mostly without one.

    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidConfig(f"{file}: cannot be read as TOML: {reason_of(error)}", field="config") from error
    known: dict[str, set[str]] = {"server": set(FOREIGN)}
    for _, _, setting in declared():
        known.setdefault(setting.table, set()).add(setting.name)
    tables: Tables = {}
    for table, entries in document.items():
        if table == _LINT:
            continue
        if table not in known or not isinstance(entries, dict):
            expected = " and ".join(f"[{name}]" for name in sorted(known))
            raise InvalidConfig(f"{file}: {table!r} is unknown; expected the tables {expected}", field=table)
        tables[table] = {key.replace("_", "-"): value for key, value in entries.items()}
        for key in tables[table].keys() - known[table]:
            raise InvalidConfig(
                f"{file}: [{table}] has no setting {key!r}; {_closest(key, known[table])}",
                field=key,
                value=tables[table][key],
            )
    return tables


def _closest(key: str, known: set[str]) -> str:
    import difflib

    close = difflib.get_close_matches(key, sorted(known), n=1)
    return f"did you mean {close[0]!r}?" if close else "for their names see: anew config show"


_BACKOFF: Final = {
    "backoff_base_ms": "default-backoff-base",
    "backoff_exponent": "default-backoff-exponent",
    "backoff_jitter_ms": "default-backoff-jitter",
}


def _settle_retry(retry: dict[str, object], origins: Mapping[str, str]) -> None:
    given = [origins[f"server.{name}"] for attribute, name in _BACKOFF.items() if attribute in retry]
    missing = [f"--{name}" for attribute, name in _BACKOFF.items() if attribute not in retry]
    if given and missing:
        raise InvalidConfig(
            f"{', '.join(given)}: base, exponent and jitter go together; "
            f"expected also {' and '.join(missing)}",
            field="default-backoff",
        )
    if "policy" not in retry:
        return
    if given:
        raise InvalidConfig(
            f"{origins['server.default-policy']} contradicts {', '.join(given)}: each gives the default "
            "policy; leave one of them out",
            field="default-policy",
        )
    # None: that policy's own limit counts, not the 25 of Zizq's curve.
    retry.setdefault("limit", None)
