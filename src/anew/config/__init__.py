"""Settings: one frozen tree, built once at start from flags, variables, a file and defaults.

Each setting is declared in one place, as a field of the tree, with its default, its kind and its effect.
From that come the flag (``--heartbeat-interval``), the variables (``ANEW_HEARTBEAT_INTERVAL``, and
``ZIZQ_...`` where Zizq has it), the key of the file (``heartbeat-interval`` under ``[server]``), the line of
``--help`` and the row of ``anew config show``. Precedence: flag, variable (``ANEW_`` before ``ZIZQ_``), file,
default. Faktory's own variables and files fill in what was not given (`anew.config.faktory`).
"""

from anew.config.load import (
    Loaded,
    UnsafeBind,
    find_file,
    fwp_url,
    load_connect,
    load_settings,
    load_webhooks,
    require_safe_bind,
    unsafe_binds,
)
from anew.config.setting import SettingSpec
from anew.config.settings import Admin, Connect, Fwp, Listen, Settings, Webhooks, declared
from anew.config.tables import CronTable, PolicyRule, ThrottleTable
from anew.config.zizq import FOREIGN

__all__ = [
    "FOREIGN",
    "Admin",
    "Connect",
    "CronTable",
    "Fwp",
    "Listen",
    "Loaded",
    "PolicyRule",
    "SettingSpec",
    "Settings",
    "ThrottleTable",
    "UnsafeBind",
    "Webhooks",
    "declared",
    "find_file",
    "fwp_url",
    "load_connect",
    "load_settings",
    "load_webhooks",
    "require_safe_bind",
    "unsafe_binds",
]
