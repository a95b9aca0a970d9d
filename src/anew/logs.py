"""Structured logs on the standard library: one event a line, facts as fields, never a payload.

Fields come from ``extra=``. As JSON a line has ``timestamp``, ``level``, ``fields`` (with ``message``) and ``target``, the shape
in which test harnesses of Zizq's clients look for the line that says ``listening``.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import math
import os
import sys
import time
import unicodedata
from glob import escape, glob
from pathlib import Path
from typing import Any

from anew.errors import InvalidConfig

FIELD_CHARACTERS = 1_024
"""Longer text is cut."""

TRACE = 5
LEVELS = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}
_NAMES = {logging.WARNING: "WARN", TRACE: "TRACE"}
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Give a record's facts: its message and what came as ``extra=`` and is not None, made safe for one line."""
    fields: dict[str, Any] = {"message": _safe(record.getMessage())}
    for name, value in vars(record).items():
        if name not in _STANDARD and value is not None:
            fields[name] = value if _is_number(value) else _safe(str(value))
    if record.exc_info and record.exc_info[0] is not None:
        fields["exception"] = _safe(logging.Formatter().formatException(record.exc_info), most=8_192)
    elif record.exc_text:
        fields["exception"] = _safe(_cut_lines(record.exc_text.rstrip("\n")), most=1 << 20)
    return fields


def _is_number(value: object) -> bool:
    """Report whether JSON has this number, or truth."""
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


_LINES = str.maketrans("", "", "\n\t")


def _safe(text: str, *, most: int = FIELD_CHARACTERS) -> str:
    """Escape control and direction marks, so that no field can forge a line or hide one; cut what is long."""
    if len(text) > most:
        text = text[: most - 3] + "..."
    if text.isprintable() or text.translate(_LINES).isprintable():  # a traceback is long, and mostly harmless
        return text
    return "".join(
        char if char in "\n\t" or unicodedata.category(char)[0] != "C" else f"\\u{ord(char):04x}"
        for char in text
    )


def _cut_lines(trace: str, *, most: int = 8_192) -> str:
    """Leave the middle out of a long traceback: its end says what was raised."""
    half = most // 2
    return trace if len(trace) <= most else f"{trace[:half]}\n...\n{trace[-half:]}"


def _timestamp(record: logging.LogRecord) -> str:
    return _moment(int(record.created) * 1_000 + int(record.msecs))


def _moment(ms: int) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(ms // 1_000))}.{ms % 1_000:03d}Z"


def _shown(name: str, value: Any) -> str:
    """Write a field for people: an instant, whose name ends in ``_at``, as a time."""
    if name.endswith("_at") and type(value) is int and 0 <= value < _LAST_MOMENT:
        return _moment(value)
    return json.dumps(value, ensure_ascii=True)


_LAST_MOMENT = 253_402_300_800_000
"""The year 10000, epoch ms."""


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        return json.dumps(
            {
                "timestamp": _timestamp(record),
                "level": _NAMES.get(record.levelno, record.levelname),
                "fields": fields_of(record),
                "target": record.name,
            },
            ensure_ascii=True,
            # No spaces: clients' test harnesses grep the log for `"api":"primary"` as bytes.
            separators=(",", ":"),
        )


class TextFormatter(logging.Formatter):
    """One line for people.

    Args:
        short: Leave the date and the target out, as suits a terminal.
    """

    def __init__(self, *, short: bool) -> None:
        super().__init__()
        self._short = short

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        fields = fields_of(record)
        message = fields.pop("message").replace("\n", "\\n")
        exception = fields.pop("exception", "")
        # What the message says is not said twice.
        told = {
            name: value
            for name, value in fields.items()
            if not isinstance(value, str) or value not in message
        }
        facts = "".join(f" {name}={_shown(name, value)}" for name, value in told.items())
        level = _NAMES.get(record.levelno, record.levelname)
        when = _timestamp(record)
        head = f"{when[11:23]} {level:5}" if self._short else f"{when} {level:5} {record.name}:"
        # Set in: what was raised may have lines that look like a log's.
        below = "".join(f"\n  {line}" for line in exception.split("\n")) if exception else ""
        return f"{head} {message}{facts}{below}"


def set_up(style: str, level: str, *, handler: logging.Handler | None = None) -> None:
    """Send the program's logs somewhere.

    Args:
        style: ``json``, ``pretty``, ``compact``, or ``auto``: pretty on a terminal, else compact.
        level: One of `LEVELS`.
        handler: Where they go, such as what `rotating` has opened; None means standard output.
    """
    if style == "auto":
        style = "pretty" if handler is None and sys.stdout.isatty() else "compact"
    handler = handler or logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter(short=style == "pretty"))
    logging.addLevelName(TRACE, "TRACE")
    root = logging.getLogger("anew")
    root.handlers = [handler]
    root.propagate = False
    root.setLevel(LEVELS[level])


def rotating(folder: Path, rotation: str, max_bytes: int, max_files: int) -> logging.Handler:
    """Open a log file that is put aside by time and by size.

    Args:
        folder: Where it lies; made if need be.
        rotation: ``daily``, ``hourly`` or ``never``.
        max_bytes: Size at which it is put aside whatever the time.
        max_files: How many old ones are kept.

    Raises:
        InvalidConfig: The folder cannot be used.
    """
    path = folder / "anew.log"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if rotation == "never":
            return logging.handlers.RotatingFileHandler(path, maxBytes=max_bytes, backupCount=max_files)
        return _TimedOrSized(path, "H" if rotation == "hourly" else "D", max_bytes, max_files)
    except OSError as error:
        raise InvalidConfig(
            f"--log-dir: {str(folder)!r} cannot be used ({error.strerror}); "
            "expected a directory that this user may write to",
            field="log-dir",
            value=str(folder),
        ) from error


class _TimedOrSized(logging.handlers.TimedRotatingFileHandler):
    """Rotates at the hour or the day, and earlier when the file has grown too large."""

    def __init__(self, path: Path, when: str, max_bytes: int, max_files: int) -> None:
        super().__init__(path, when=when, backupCount=max_files, utc=True)
        self._max_bytes = max_bytes

    def shouldRollover(self, record: logging.LogRecord) -> int:
        """Report whether this record begins a new file."""
        if self.stream is not None and self.stream.tell() + len(record.getMessage()) >= self._max_bytes:
            return 1
        return int(super().shouldRollover(record))

    def rotation_filename(self, default_name: str) -> str:
        """Number the files of one hour or day: its size may end several, and each would replace the one before."""
        numbered = sorted(glob(escape(default_name) + ".[0-9]*"))
        if not numbered and not os.path.exists(default_name):
            return default_name
        last = int(numbered[-1].rpartition(".")[2]) if numbered else 0
        return f"{default_name}.{last + 1:06}"

    def getFilesToDelete(self) -> list[str]:
        """List the oldest files above the number that is kept, numbered ones too."""
        kept = sorted(glob(escape(self.baseFilename) + ".*"))
        return kept[: max(0, len(kept) - self.backupCount)]
