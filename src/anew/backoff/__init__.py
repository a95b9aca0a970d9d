"""When to try again: curves, jitter, policies, and the one function that decides a wait.

Pure: no clock, no chance of its own, no input or output. The first retry is k = 1, durations are whole
milliseconds, and no wait ever exceeds 365 days.
"""

from anew.backoff.between import Between
from anew.backoff.chance import Draws, phase_of_id, phase_of_ordinal, phase_offset
from anew.backoff.curves import (
    Constant,
    Curve,
    Custom,
    Exponential,
    Fibonacci,
    Linear,
    Power,
    Scale,
    Stretch,
    Sum,
    Table,
)
from anew.backoff.decide import Exhausted, Previous, Wait, next_wait
from anew.backoff.even import Even
from anew.backoff.jitter import Jitter, NoJitter
from anew.backoff.kinds import CEILING_MS
from anew.backoff.policy import DEFAULT_LIMIT, Phase, Policy, policy_from_json, preset
from anew.backoff.presets import ALIASES, FAMILIES, PRESETS, Preset, find_preset
from anew.backoff.stateful import Decorrelated, Slices
from anew.backoff.windows import Above, Add, Around, Below, Bound, Equal, Full, Grow, UpTo, Window
from anew.backoff.words import in_words

__all__ = [
    "ALIASES",
    "CEILING_MS",
    "DEFAULT_LIMIT",
    "FAMILIES",
    "PRESETS",
    "Above",
    "Add",
    "Around",
    "Below",
    "Between",
    "Bound",
    "Constant",
    "Curve",
    "Custom",
    "Decorrelated",
    "Draws",
    "Equal",
    "Even",
    "Exhausted",
    "Exponential",
    "Fibonacci",
    "Full",
    "Grow",
    "Jitter",
    "Linear",
    "NoJitter",
    "Phase",
    "Policy",
    "Power",
    "Preset",
    "Previous",
    "Scale",
    "Slices",
    "Stretch",
    "Sum",
    "Table",
    "UpTo",
    "Wait",
    "Window",
    "find_preset",
    "in_words",
    "next_wait",
    "phase_of_id",
    "phase_of_ordinal",
    "phase_offset",
    "policy_from_json",
    "preset",
]
