"""What the client refuses before anything is sent, and what it sends, to a transport made by hand."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from anew.client import Client, Failure, Filters
from anew.client.parameters import local_path
from anew.errors import InvalidConfig, InvalidInput, NotFound, Unreachable

NOBODY = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    "url", ["", "queue", "ftp://h", "http://", "http://h:x", "http://h/?a=1", "http://[::1"]
)
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(InvalidConfig, match="url: "):
        Client(url)


@pytest.mark.parametrize("token", ["secret\n", "sec ret", "secrét"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(
        InvalidConfig, match="token: the value is not valid; expected visible ASCII"
    ) as caught:
        Client(NOBODY, token=token)
    assert "sec" not in str(caught.value)


def test_an_error_shows_no_password_of_the_address() -> None:
    with pytest.raises(Unreachable, match=r"no server at http://127\.0\.0\.1:9/anew ") as caught:
        Client("http://ada:secret@127.0.0.1:9/anew/").health()
    assert "secret" not in str(caught.value)


def test_what_http_cannot_carry_is_refused_before_anything_is_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        client = Client(url, timeout="5s")
        with pytest.raises(InvalidInput, match=r"the request cannot be written: .*/v1/jobs a"):
            client.request("GET", "/v1/jobs a")
        with pytest.raises(InvalidInput, match=r"the request cannot be written: .*header"):
            client.take(worker_id="a\r\nb")


@pytest.mark.parametrize("queue", [5, None])
def test_a_name_that_is_none_is_refused_by_its_field(queue: Any) -> None:
    with pytest.raises(InvalidInput, match=r"queue: .* is not valid; expected text"):
        Filters(queue=queue)


@pytest.mark.parametrize("nothing", ["0s", timedelta(0)])
def test_a_timeout_of_nothing_is_refused(nothing: Any) -> None:
    with pytest.raises(InvalidInput, match=r"timeout: .* expected at least 1ms"):
        Client(NOBODY, timeout=nothing)
    with pytest.raises(InvalidInput, match=r"idle_timeout: .* expected at least 1ms"):
        Client(NOBODY).take(idle_timeout=nothing)


def test_no_condition_at_all_must_be_said() -> None:
    client = Client(NOBODY)
    with pytest.raises(InvalidInput, match="everything=True"):
        client.delete_many(Filters())
    with pytest.raises(InvalidInput, match="everything=True"):
        client.patch_many({"priority": 1}, Filters())


def test_an_empty_id_would_be_another_endpoint() -> None:
    with pytest.raises(InvalidInput, match="id of a job"):
        Client(NOBODY).delete("")


@pytest.mark.parametrize("link", ["http://elsewhere/jobs", "//elsewhere/jobs", "jobs"])
def test_a_link_to_elsewhere_is_not_followed(link: str) -> None:
    with pytest.raises(Unreachable, match="no local path"):
        local_path(link)


class Answers:
    """Stands in for the transport: gives these documents by path and remembers what was sent."""

    def __init__(self, **documents: Any) -> None:
        self.documents = {path.replace("_", "/"): document for path, document in documents.items()}
        self.sent: list[tuple[str, str, Any]] = []

    def request(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        *,
        also: tuple[int, ...] = (),
        headers: Any = None,
    ) -> tuple[int, bytes]:
        self.sent.append((method, target, None if body is None else msgspec.json.decode(body)))
        return 200, msgspec.json.encode(self.documents[target.partition("?")[0]])


def client_of(answers: Answers) -> Client:
    client = Client(NOBODY)
    transport: Any = answers
    client._transport = transport
    return client


def job(job_id: str, **fields: Any) -> dict[str, Any]:
    plain = {"type": "t", "queue": "q", "status": "ready", "priority": 1, "ready_at": 0, "attempts": 0}
    return {"id": job_id} | plain | fields


def test_many_failures_are_one_request_and_each_has_its_result() -> None:
    scheduled = job("a", status="scheduled", attempts=1, ready_at=7)
    results = [
        {"id": "a", "status": "scheduled", "job": scheduled},
        {"id": "b", "error": "job not found in in-flight set", "code": "not_found"},
    ]
    answers = Answers(_v1_jobs_failure={"results": results})
    reports = [
        Failure(id="a", message="no answer", error_type="IOError", retry_at=datetime(1970, 1, 2, tzinfo=UTC)),
        Failure(id="b", message="wrong", backtrace="x:1", kill=True),
    ]
    first, second = client_of(answers).failure_many(reports)
    (sent,) = answers.sent
    assert sent == (
        "POST",
        "/v1/jobs/failure",
        {
            "failures": [
                {
                    "id": "a", "message": "no answer", "error_type": "IOError", "backtrace": None,
                    "retry_at": 86_400_000, "kill": False,
                },
                {
                    "id": "b", "message": "wrong", "error_type": None, "backtrace": "x:1",
                    "retry_at": None, "kill": True,
                },
            ]
        },
    )  # fmt: skip
    assert first.error is None
    assert first.job is not None
    assert (first.id, first.job.status, first.job.ready_at) == ("a", "scheduled", 7)
    assert (second.id, second.job) == ("b", None)
    assert isinstance(second.error, NotFound)


def test_a_text_is_one_id_of_several() -> None:
    answers = Answers(_jobs_success={})
    client_of(answers).success_many("abc")
    client_of(answers).success_many(("abc", "def"))
    assert [body for _, _, body in answers.sent] == [{"ids": ["abc"]}, {"ids": ["abc", "def"]}]


def test_a_redrive_takes_a_timedelta_or_text() -> None:
    answers = Answers(_v1_jobs_retry={"retried": 3})
    for spread in (timedelta(minutes=10), "10m"):
        assert client_of(answers).redrive(Filters(queue="q"), spread=spread) == 3
    assert answers.sent[0] == answers.sent[1]
    assert answers.sent[0][2] == {"spread": 600_000, "reset_attempts": False}


@pytest.mark.parametrize("following", ["/jobs?from=b", "/jobs?from=a"])
def test_a_list_that_leads_back_to_itself_ends_with_an_error(following: str) -> None:
    pages = {"self": "/jobs", "next": following, "prev": None}
    client = client_of(Answers(_jobs={"jobs": [job("a"), job("b")], "pages": pages}))
    with pytest.raises(Unreachable, match="does not go on"):
        list(client.list())


def test_empty_pages_that_lead_to_themselves_end_with_an_error() -> None:
    pages = {"self": "/jobs", "next": "/jobs?from=b", "prev": None}
    with pytest.raises(Unreachable, match="does not go on"):
        list(client_of(Answers(_jobs={"jobs": [], "pages": pages})).pages())


def test_the_last_page_that_is_wanted_fetches_no_other() -> None:
    pages = {"self": "/jobs", "next": "/jobs?from=b", "prev": None}
    answers = Answers(_jobs={"jobs": [job("a"), job("b")], "pages": pages})
    assert len(list(client_of(answers).pages(at_most=1))) == 1
    assert len(answers.sent) == 1
