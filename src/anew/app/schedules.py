"""Cron expressions for people at a prompt: whether those of the settings can be read, and when one fires."""

from __future__ import annotations

from collections.abc import Sequence

from anew.config import CronTable
from anew.errors import InvalidConfig, InvalidInput
from anew.jobs.cron import parse_cron
from anew.jobs.cron_slots import next_slot
from anew.zones import offsets


def require_schedules(entries: Sequence[CronTable]) -> None:
    """Insist that schedules and time zones of cron entries can be read.

    Raises:
        InvalidConfig: One cannot; the message names its entry.
    """
    for entry in entries:
        try:
            parse_cron(entry.schedule, may_never_fire=True)
            offsets(entry.timezone)
        except InvalidInput as error:
            where = f"{entry.at}.{'timezone' if error.field == 'timezone' else 'schedule'}"
            message = f"{where}: {str(error).removeprefix('timezone: ')}"
            raise InvalidConfig(message, field=error.field, value=error.value) from error


def next_slots(expression: str, timezone: str | None, after_at: int, count: int) -> list[int]:
    """Give when an expression fires next.

    Args:
        expression: See `parse_cron`.
        timezone: An IANA name; None is the machine's own zone.
        after_at: Epoch ms; the first slot is behind it.
        count: The most to give; there are fewer if it fires no more.

    Returns:
        Epoch ms, in order.

    Raises:
        InvalidInput: The expression or the time zone cannot be read, or no year has its date.
    """
    cron, offset_at = parse_cron(expression), offsets(timezone)
    slots: list[int] = []
    while len(slots) < count and (slot := next_slot(cron, after_at, offset_at)) is not None:
        slots.append(slot)
        after_at = slot
    return slots
