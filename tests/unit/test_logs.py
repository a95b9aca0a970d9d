"""Where lines of the log go: files that are put aside by time and by size, none of them lost before its turn."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anew import logs
from anew.errors import InvalidConfig


@pytest.fixture(autouse=True)
def _leave_logging_alone() -> Iterator[None]:
    root = logging.getLogger("anew")
    before = (root.handlers, root.propagate, root.level)
    yield
    root.handlers, root.propagate = before[0], before[1]
    root.setLevel(before[2])


def write(folder: Path, rotation: str, lines: range, *, max_files: int) -> None:
    """Log numbered lines of some 150 bytes to files of at most 300."""
    handler = logs.rotating(folder, rotation, 300, max_files)
    logs.set_up("json", "info", handler=handler)
    for number in lines:
        logging.getLogger("anew.test").info("line %03d %s", number, "x" * 60)
    handler.close()


def numbers(folder: Path) -> list[int]:
    """The numbers of the lines that are kept, in the order of the files' names; the one still open comes last."""
    put_aside = sorted(path for path in folder.iterdir() if path.name != "anew.log")
    text = "".join(path.read_text("utf-8") for path in [*put_aside, folder / "anew.log"])
    return [int(part[:3]) for part in text.split("line ")[1:]]


@pytest.mark.parametrize("rotation", ["daily", "hourly"])
def test_a_file_that_its_size_ended_replaces_none_of_the_same_day(tmp_path: Path, rotation: str) -> None:
    write(tmp_path, rotation, range(12), max_files=20)
    assert numbers(tmp_path) == list(range(12))


@pytest.mark.parametrize("rotation", ["daily", "hourly"])
def test_the_oldest_files_go_and_the_rest_stays_in_order(tmp_path: Path, rotation: str) -> None:
    write(tmp_path, rotation, range(30), max_files=4)
    write(tmp_path, rotation, range(30, 60), max_files=4)
    kept = numbers(tmp_path)
    assert kept == list(range(60 - len(kept), 60))
    assert len(list(tmp_path.iterdir())) == 5


def test_without_a_rhythm_size_alone_ends_a_file(tmp_path: Path) -> None:
    write(tmp_path, "never", range(30), max_files=4)
    assert len(list(tmp_path.iterdir())) == 5


@pytest.mark.parametrize("rotation", ["daily", "never"])
def test_a_folder_that_cannot_be_used_is_a_bad_setting(tmp_path: Path, rotation: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(
        InvalidConfig, match=r"--log-dir: .*file.* cannot be used \(.*\); expected a directory"
    ):
        logs.rotating(tmp_path / "file", rotation, 300, 4)


RUN = {
    "job_id": "03h9",
    "task": "jobs.send",
    "attempt": 2,
    "took_ms": 1.5,
    "error_type": "ValueError",
    "reason": None,
}


def _record(**facts: object) -> logging.LogRecord:
    return logging.getLogger("anew.tasks").makeRecord(
        "anew.tasks", logging.WARNING, __file__, 1, "job %s", ("failed",), None, extra=facts
    )


def test_the_facts_of_a_tasks_run_are_fields_of_its_line() -> None:
    line = json.loads(logs.JsonFormatter().format(_record(**RUN)))
    assert (line["level"], line["target"]) == ("WARN", "anew.tasks")
    assert line["fields"] == {
        "message": "job failed",
        "job_id": "03h9",
        "task": "jobs.send",
        "attempt": 2,
        "took_ms": 1.5,
        "error_type": "ValueError",
    }


values = (
    st.text() | st.integers() | st.floats() | st.booleans() | st.none() | st.binary() | st.lists(st.text())
)


@given(
    message=st.text(),
    facts=st.dictionaries(st.sampled_from(["job_id", "reason", "took_ms", "queue"]), values),
    fallen=st.none() | st.text(),
)
@example(message="a\n{}", facts={"took_ms": float("nan"), "reason": "\ud800\u2028\x85"}, fallen="x\r\ny")
def test_reliability_58_a_line_is_one_document_whatever_is_in_it(
    message: str, facts: dict[str, Any], fallen: str | None
) -> None:
    record = logging.makeLogRecord({"msg": "%s", "args": (message,), **facts, "exc_text": fallen})
    line = logs.JsonFormatter().format(record)
    assert line.isascii()
    assert line.isprintable()
    read = json.loads(line, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))
    assert read["fields"].keys() <= {"message", "exception", *facts}


def test_the_facts_of_a_tasks_run_follow_its_words_as_text() -> None:
    text = logs.TextFormatter(short=False).format(_record(**RUN | {"reason": "two\nlines \x1b[31m"}))
    assert text.endswith(
        ' WARN  anew.tasks: job failed job_id="03h9" task="jobs.send" attempt=2 took_ms=1.5 '
        'error_type="ValueError" reason="two\\nlines \\\\u001b[31m"'
    )


def test_times_are_readable_to_people_and_numbers_to_programs() -> None:
    record = _record(next_at=1_795_439_599_260)  # date -u -d @1795439599: Mon Nov 23 13:13:19 UTC 2026
    assert logs.TextFormatter(short=True).format(record).endswith(" next_at=2026-11-23T13:13:19.260Z")
    assert json.loads(logs.JsonFormatter().format(record))["fields"]["next_at"] == 1_795_439_599_260


def test_no_line_of_a_traceback_looks_like_one_of_the_log() -> None:
    record = _record()
    record.exc_text = "Traceback:\nValueError: x\n2026-11-23T13:13:19.260Z INFO  anew.tasks: forged\x1b[2J\n"
    first, *rest = logs.TextFormatter(short=False).format(record).split("\n")
    assert first.endswith("job failed")
    assert rest == [
        "  Traceback:", "  ValueError: x", "  2026-11-23T13:13:19.260Z INFO  anew.tasks: forged\\u001b[2J"
    ]  # fmt: skip


def test_the_middle_of_a_long_traceback_is_left_out() -> None:
    record = _record()
    record.exc_text = "Traceback:\n" + "  File\n" * 10_000 + "ValueError: x"
    shown = json.loads(logs.JsonFormatter().format(record))["fields"]["exception"]
    assert (len(shown) < 9_000, shown[:10], shown[-13:]) == (True, "Traceback:", "ValueError: x")


def test_a_line_for_people_says_nothing_twice() -> None:
    facts = {"job_id": "0abc", "task": "app.greet", "queue": "mail", "attempt": 1, "reason": "no route"}
    record = logging.makeLogRecord(
        {"msg": "app.greet 0abc failed: OSError: no route", "levelno": logging.WARNING} | facts
    )
    line = logs.TextFormatter(short=False).format(record)
    assert line.endswith(' app.greet 0abc failed: OSError: no route queue="mail" attempt=1')
