"""Writes what was measured: tables in Markdown, ready for RESULTS.md, with what they were measured on."""

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw

from anew import __version__
from bench.figures import ratio

Row = dict[str, Any]
Table = dict[str, dict[str, Row]]
"""Scenario -> server's name -> its row."""

_RATE_HEAD = ["load", "server", "jobs/s", "p50 ms", "p99 ms", "server CPU us/job", "RSS MB", "loader CPU"]
_SERVED_HEAD = [
    "load",
    "server",
    "p50 ms",
    "p99 ms",
    "max ms",
    "all have theirs, ms",
    "times as fast as the peer",
]
_WAIT_HEAD = ["load", "server", "p50 ms", "p99 ms", "max ms", "last one ready, ms late", "RSS MB"]


def machine(work_dir: Path) -> str:
    """Name the date, the machine and the versions that the figures hold for."""
    info = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*:\s*(.+)", info.read_text() if info.exists() else "")
    df = ["df", "--output=fstype", str(work_dir)]
    disk = subprocess.run(df, capture_output=True, text=True, check=False).stdout.split()[-1:]
    parts = [
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"{os.cpu_count()} x {model[1] if model else platform.machine()}, shared with the load",
        f"{platform.system()} {platform.release()}, data on {disk[0] if disk else 'an unknown file system'}",
        f"Python {platform.python_version()}",
        f"SQLite {apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()})",
        f"Anew {__version__}",
    ]
    return "; ".join(parts)


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def rates(table: Table, waiting: Table | None = None) -> str:
    """Write the rates; with `waiting`, the same loads' rows without the backlog, their ratio is told too."""
    peer = any("peer" in rows for rows in table.values())
    head = [*_RATE_HEAD, *(["to the peer"] if peer else []), *(["to no backlog"] if waiting else [])]
    lines = []
    for name, rows in table.items():
        for server, row in rows.items():
            line = [
                name,
                server,
                f"{row['rate']:,.0f}",
                f"{row['p50_ms']:.2f}",
                f"{row['p99_ms']:.2f}",
                f"{row['cpu_us']:.1f}",
                f"{row['rss_mb']:.0f}",
                f"{row['loader_share']:.0%}",
            ]
            if peer:
                theirs = rows.get("peer", {}).get("rate")
                line.append(ratio(row["rate"], theirs) if server != "peer" else "")
            if waiting:
                line.append(ratio(row["rate"], waiting.get(name, {}).get(server, {}).get("rate")))
            lines.append(line)
    return markdown(head, lines)


def served(table: Table) -> str:
    """Write how long many takers wait for their jobs of one batch."""
    lines = []
    for name, rows in table.items():
        for server, row in rows.items():
            figures = [f"{row[key]:.1f}" for key in ("p50_ms", "p99_ms", "max_ms", "all_ms")]
            theirs = rows.get("peer", {}).get("all_ms")
            to_peer = ratio(theirs or 0, row["all_ms"]) if server != "peer" and theirs else ""
            lines.append([name, server, *figures, to_peer])
    return markdown(_SERVED_HEAD, lines)


def waits(table: Table) -> str:
    """Write what others wait beside a burst and beside heavy jobs."""
    lines = []
    for name, rows in table.items():
        for server, row in rows.items():
            late = row.get("last_late_ms")
            figures = [f"{row[key]:.1f}" for key in ("p50_ms", "p99_ms", "max_ms")]
            lines.append(
                [name, server, *figures, "" if late is None else f"{late:,.0f}", f"{row['rss_mb']:.0f}"]
            )
    return markdown(_WAIT_HEAD, lines)
