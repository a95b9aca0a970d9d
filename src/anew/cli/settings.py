"""The options of ``anew serve`` and ``anew config show``, made from the declarations of the settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import click

from anew.config import FOREIGN, Loaded, Settings, SettingSpec, declared, find_file, load_settings
from anew.errors import InvalidConfig, InvalidPolicy
from anew.units import parse_duration_with_unit

_SECTIONS: Final = {
    "listen": "Listening",
    "admin": "Administration",
    "fwp": "Faktory Work Protocol",
    "store": "Storing",
    "retry": "Retrying",
    "retention": "Keeping",
    "timing": "Timing",
    "limits": "Bounds",
    "webhooks": "Topics and webhooks",
    "log": "Logging",
}
_FOREIGN_SECTION: Final = "From Zizq's command line"
_FILE_SECTION: Final = "General"


class SettingOption(click.Option):
    """An option that knows its section of the help."""

    def __init__(self, *args: Any, section: str = _FILE_SECTION, **options: Any) -> None:
        super().__init__(*args, **options)
        self.section = section


class SettingsCommand(click.Command):
    """A command whose help shows its options in sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section, in the order in which the sections first appear."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(parameter, "section", _FILE_SECTION), []).append(record)
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records, col_max=36)


def setting_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command every option of the server; it receives them as keywords, for `load`."""
    foreign = [_make(setting, _FOREIGN_SECTION, setting.help) for setting in FOREIGN.values()]
    return _with_options(function, _SECTIONS, foreign)


def options_of(*groups: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of some groups of settings; it receives them as keywords, for `load`."""
    return lambda function: _with_options(function, groups, ())


def _with_options(
    function: Callable[..., Any], groups: Collection[str], more: Iterable[Decorator]
) -> Callable[..., Any]:
    help_text = "File of settings. [ANEW_CONFIG; ./anew.toml if there is one]"
    options: list[Decorator] = [click.option("--config", cls=SettingOption, metavar="FILE", help=help_text)]
    options += [_option(group, field, setting) for group, field, setting in declared() if group in groups]
    for option in reversed([*options, *more]):
        function = option(function)
    return function


def load(options: Mapping[str, Any]) -> Loaded:
    """Build the settings from a command's options, the environment and the file.

    Args:
        options: What `setting_options` made: names with underscores; None means not given.

    Raises:
        InvalidConfig: One of them does not fit; the message names the flag, the variable or the file it comes from.
        InvalidInput: A duration has no unit, and its option is not one of Zizq's.
    """
    for _, _, setting in declared():
        text = options.get(setting.name.replace("-", "_"))
        # Variables and files keep milliseconds, and so does what was typed for Zizq; people at a prompt mean seconds.
        if setting.kind == "duration" and not setting.zizq and text is not None:
            parse_duration_with_unit(text, f"--{setting.name}")
    flags = {
        # A switch that is not there must not hide a variable that is.
        name.replace("_", "-"): None if value is False else value
        for name, value in options.items()
        if name != "config"
    }
    loaded = load_settings(flags, os.environ, find_file(options.get("config"), os.environ))
    _insist_on_a_policy(loaded)
    _insist_on_schedules(loaded)
    return loaded


def _insist_on_a_policy(loaded: Loaded) -> None:
    # `config` does not know policies. Without this, the policy's own error would not say where it comes from, and
    # `anew config show` would pass what `anew serve` refuses.
    given = [(rule.policy, "fwp.policies") for rule in loaded.settings.fwp_tables.policies]
    if loaded.settings.retry.policy is not None:
        given.append((loaded.settings.retry.policy, "server.default-policy"))
    if not given:
        return
    from anew.backoff import Policy

    for number, (value, key) in enumerate(given, 1):
        try:
            Policy.from_json(value)
        except InvalidPolicy as error:
            source = loaded.origins[key] + (f"[{number}].policy" if key == "fwp.policies" else "")
            raise InvalidConfig(f"{source}: {error}", field=key.partition(".")[2], value=value) from error


def _insist_on_schedules(loaded: Loaded) -> None:
    # As with policies: `config` knows neither cron nor time zones.
    if loaded.settings.fwp_tables.cron:
        from anew.app.schedules import require_schedules

        require_schedules(loaded.settings.fwp_tables.cron)


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _option(group: str, field: str, setting: SettingSpec) -> Decorator:
    default = setting.show(getattr(getattr(Settings(), group), field))
    if setting.kind == "duration" and setting.zizq:
        default += "; a bare number is ms, as in Zizq"
    text = setting.help if setting.kind == "switch" or default == "-" else f"{setting.help} [{default}]"
    return _make(setting, _SECTIONS[group], text)


def _make(setting: SettingSpec, section: str, text: str) -> Decorator:
    names = [f"--{setting.name}", setting.name.replace("-", "_")]
    if setting.short:
        names.insert(0, setting.short)
    if setting.kind == "switch":
        return click.option(*names, cls=SettingOption, section=section, is_flag=True, help=text)
    if setting.kind == "origins":
        return click.option(
            *names, cls=SettingOption, section=section, metavar="ORIGINS", help=text, multiple=True,
            callback=lambda _, __, given: ",".join(given) or None,
        )  # fmt: skip
    metavar = "|".join(setting.choices) or _METAVARS.get(setting.kind, "TEXT")
    return click.option(*names, cls=SettingOption, section=section, metavar=metavar, help=text)


_METAVARS: Final = {
    "duration": "TIME",
    "host": "ADDRESS",
    "integer": "N",
    "names": "NAMES",
    "domains": "NAMES",
    "networks": "NETWORKS",
    "number": "X",
    "password": "PASSWORD",
    "path": "PATH",
    "policy": "POLICY",
    "secret": "TOKEN",
    "size": "SIZE",
    "version": "VERSION",
}
