"""What a producer got wrong is logged, once in a while."""

from __future__ import annotations

import pytest

from anew.net.bounded_log import EVERY_MS

from .desk import Desk


def refused(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str, int]]:
    """Level, jid, reason and the number since the last line of each warning about a job."""
    return [
        (record.levelname, said["jid"], said["reason"], said["since_the_last_line"])
        for record in caplog.records
        for said in (vars(record),)
        if record.message == "a pushed job was refused"
    ]


def test_a_refused_job_is_logged_with_its_reason_and_no_more_than_once_in_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = Desk()
    job = '{"jid":"job-%d","jobtype":"kind","args":[],"queue":"a b"}'
    answer = desk.say(f"PUSH {job % 10001}")
    assert answer.startswith("-ERR ")
    desk.say(f"PUSHB [{job % 10002},{job % 10003}]")
    desk.advance(EVERY_MS - 1)
    desk.say(f"PUSH {job % 10004}")
    desk.advance(1)
    desk.say(f"PUSH {job % 10005}")
    reason = answer.removeprefix("-ERR ")
    assert refused(caplog) == [("WARNING", "job-10001", reason, 1), ("WARNING", "job-10005", reason, 4)]


def test_what_a_client_sent_is_cut_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    desk.say(f'PUSH {{"jid":"{"j" * 300}","jobtype":"kind","args":[],"queue":"a b"}}')
    ((_, jid, _, _),) = refused(caplog)
    assert jid == "j" * 200


def test_a_job_without_its_batch_is_logged_and_a_duplicate_of_a_unique_job_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = Desk()
    unique = '{"jid":"job-%d","jobtype":"kind","args":[],"custom":{"unique_for":60}}'
    desk.say(f"PUSH {unique % 10001}")
    assert desk.say(f"PUSH {unique % 10002}") == "-NOTUNIQUE Job not unique"
    assert refused(caplog) == []
    assert desk.say('PUSH {"jid":"job-10003","jobtype":"kind","args":[],"custom":{"bid":"b-x"}}').startswith(
        "-ERR"
    )
    assert refused(caplog) == [("WARNING", "job-10003", "no such batch b-x", 1)]


def test_an_end_that_is_no_time_is_refused_by_its_name() -> None:
    answer = Desk().say('PUSH {"jid":"job-10001","jobtype":"kind","args":[],"custom":{"expires_at":"soon"}}')
    assert answer.startswith(
        "-ERR invalid timestamp for 'expires_at': \"soon\": expected a timestamp such as"
    )
