"""Cron entries and their groups, as a store keeps them; `anew.engine.crontab` and `anew.engine.cron_firing` use them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from anew.jobs.cron_entry import CronEntry, CronGroup


class CronRow(Struct, frozen=True, gc=False):
    """A stored cron entry.

    Attributes:
        group, name: Its key.
        entry: Its schedule.
        job: What it enqueues; the store does not look into it.
        group_paused: Its group is paused; not written with it.
        group_timezone: Its group's zone; neither is this.
    """

    group: str
    name: str
    entry: CronEntry
    job: bytes
    group_paused: bool = False
    group_timezone: str | None = None

    @property
    def zone(self) -> str | None:
        """The zone that its expression means: an IANA name; None is the server's own."""
        return self.group_timezone if self.entry.timezone is None else self.entry.timezone


class CronRows(Protocol):
    """The verbs on them, inside the open transaction."""

    def due(self, now: int, limit: int) -> list[CronRow]:
        """List entries whose next slot has come, the one that waits longest first; no others are looked at.

        Gives fewer where their jobs are long.
        """

    def stop_damaged(self, now: int, limit: int) -> int:
        """Where `due` has met a UnicodeDecodeError: have the due entries that it is about wait for no slot; tell how many."""

    def next_slot(self) -> int | None:
        """Give the earliest slot that an entry waits for, epoch ms."""

    def entries(self, group: str, after: str, limit: int) -> list[CronRow]:
        """List entries of a group by name, from behind one on."""

    def all_entries(self, after: tuple[str, str], limit: int) -> list[CronRow]:
        """List entries of all groups by group and name, without their jobs, from behind one on."""

    def entry(self, group: str, name: str) -> CronRow | None:
        """Read one entry."""

    def write(self, rows: Sequence[CronRow]) -> None:
        """Write entries, new ones and others."""

    def drop(self, keys: Iterable[tuple[str, str]]) -> None:
        """Remove entries: (group, name)."""

    def extent(self, group: str) -> tuple[int, int]:
        """Count a group's entries, and the bytes of their jobs."""

    def groups(self, limit: int) -> list[str]:
        """List the names of groups, by their bytes. What has entries has a row: who writes entries sees to it."""

    def group(self, name: str) -> CronGroup | None:
        """Read one group."""

    def write_group(self, name: str, group: CronGroup) -> None:
        """Write a group, a new one or another, whether or not it has any."""

    def drop_group(self, name: str) -> None:
        """Remove a group with its entries."""

    def drop_all(self) -> int:
        """Remove all groups and their entries; report how many groups there were."""
