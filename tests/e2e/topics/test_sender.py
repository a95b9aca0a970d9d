"""The sender against real receivers, the hostile ones above all, on both event loops."""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import random
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvloop

from anew.errors import InvalidConfig, Unavailable
from anew.topics.exchange import Answer, Outgoing
from anew.topics.guard import GuardSettings
from anew.topics.sender import Sender
from tests.unit.topics.test_guard import BLOCKED_RANGES

from .receivers import (
    Behaviour,
    Receiver,
    answers,
    by_path,
    drips,
    free_port,
    head,
    is_silent,
    pours,
    redirects,
    says,
    script,
    trusting,
    tunnels,
)

LOCAL = GuardSettings(allow_http=True, allow_cidrs=("127.0.0.0/8", "::1/128"))
STRICT = GuardSettings(allow_http=True)
SHORT_MS = 800
"""Time of an exchange that is to be cut."""

Send = Callable[..., list[Answer]]


def outgoing(url: str, **more: Any) -> Outgoing:
    given: dict[str, Any] = {"body": b"{}", "headers": {"content-type": "application/json"}}
    return Outgoing(**{"url": url, "timeout_ms": 15_000, "connect_timeout_ms": 10_000, **given, **more})


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Both loops."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def send(run: Callable[[Coroutine[Any, Any, Any]], Any]) -> Send:
    """Send requests one after another by one sender; give its answers."""

    def send(*requests: str | Outgoing, settings: GuardSettings = LOCAL, **options: Any) -> list[Answer]:
        async def exchange() -> list[Answer]:
            sender = Sender(settings, **options)
            try:
                return [await sender.send(outgoing(one) if isinstance(one, str) else one) for one in requests]
            finally:
                await sender.close()

        return run(exchange())  # type: ignore[no-any-return]

    return send


def resolving(*found: list[str]) -> Callable[[str], Awaitable[list[str]]]:
    """Resolve any name to one list after another."""
    turns = iter(found)

    async def resolve(name: str) -> list[str]:
        return next(turns)

    return resolve


async def unwanted(*_: Any) -> Any:
    """Stand where nothing may be resolved or connected."""
    raise AssertionError("it was asked")


# What is sent, and what is kept of the answer


def test_the_exact_bytes_are_posted_with_no_header_more(send: Send) -> None:
    body = b'{"a": \xff\x00 1}'
    with Receiver(answers(200, b"thanks")) as receiver:
        (answer,) = send(
            outgoing(
                receiver.url + "/%7Ea//b?x=%20&y=+",
                body=body,
                headers={"webhook-id": "msg_1", "X-Mixed": "a b"},
            )
        )
    (request,) = receiver.requests
    assert (request.method, request.target, request.body) == ("POST", "/hook/%7Ea//b?x=%20&y=+", body)
    assert sorted((name.lower(), value) for name, value in request.headers) == [
        ("content-length", "11"),
        ("host", f"127.0.0.1:{receiver.port}"),
        ("webhook-id", "msg_1"),
        ("x-mixed", "a b"),
    ]
    assert (answer.status, answer.error, answer.excerpt, answer.address) == (200, None, "thanks", "127.0.0.1")
    assert answer.dns_ms is None
    assert answer.connect_ms is not None
    assert answer.tls_ms is None
    assert answer.ttfb_ms is not None


def test_an_empty_body_has_a_length_and_options_have_none(send: Send) -> None:
    with Receiver(answers()) as receiver:
        posted, asked = send(
            outgoing(receiver.url, body=b""), outgoing(receiver.url, body=b"", method="OPTIONS")
        )
    assert (posted.status, asked.status) == (200, 200)
    assert receiver.requests[0].header("content-length") == "0"
    assert receiver.requests[1].method == "OPTIONS"


def test_names_are_resolved_by_the_system(send: Send) -> None:
    with Receiver(answers()) as receiver:
        (answer,) = send(
            receiver.named("localhost"), settings=GuardSettings(allow_http=True, allow_hosts=("localhost",))
        )
    assert (answer.status, answer.address) == (200, "127.0.0.1")
    assert answer.dns_ms is not None


def test_a_connection_is_used_again(send: Send) -> None:
    with Receiver(answers()) as receiver:
        first, second = send(receiver.url, receiver.url)
    assert [request.connection for request in receiver.requests] == [1, 1]
    assert first.connect_ms is not None
    assert second.connect_ms is None
    assert second.address == "127.0.0.1"


def test_a_few_headers_of_the_answer_are_kept(send: Send) -> None:
    behaviour = answers(
        503, retry_after="120", webhook_delivery="disable", server="caf\u00e9", x_other="1", set_cookie="a=b"
    )
    with Receiver(behaviour) as receiver:
        first, _ = send(receiver.url, receiver.url)
    assert first.headers == {"retry-after": "120", "webhook-delivery": "disable", "server": "caf\ufffd"}
    assert "cookie" not in dict(receiver.requests[1].headers)


def test_a_compressed_body_stays_so(send: Send) -> None:
    packed = gzip.compress(b"a" * 1_000_000)
    with Receiver(answers(200, packed, content_encoding="gzip")) as receiver:
        (answer,) = send(receiver.url)
    assert answer.status == 200
    assert "aaaa" not in answer.excerpt


@pytest.mark.parametrize(
    ("body", "excerpt"),
    [
        (b"a" * 4_096, "a" * 4_096),
        (b"a" * 4_095 + "é".encode(), "a" * 4_095),
        (b"\xff" * 4_096, "\ufffd" * 1_365),  # each has three bytes: 4,095 of them fit
        (b"a\xffb", "a\ufffdb"),
        (b"", ""),
    ],
)
def test_an_excerpt_has_4_KiB_in_utf_8_at_most(body: bytes, excerpt: str, send: Send) -> None:
    with Receiver(answers(200, body)) as receiver:
        (answer,) = send(receiver.url)
    assert answer.excerpt == excerpt


# Hostile receivers


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_notifications_32_a_redirect_is_not_followed(status: int, send: Send) -> None:
    """The target sees no request."""
    with Receiver(answers()) as inside, Receiver(redirects(inside.url, status)) as receiver:
        (answer,) = send(receiver.url)
    assert (answer.status, answer.error) == (status, None)
    assert inside.lines == []


@pytest.mark.parametrize("size", [65_537, 100_000_000, None])
def test_notifications_33_a_200_with_too_long_a_body_is_a_200(size: int | None, send: Send) -> None:
    """And at most 4 KiB of it are stored."""
    with Receiver(pours(size)) as receiver:
        (answer,) = send(receiver.url)
        receiver.wait_for(1, ended=1)
    assert (answer.status, answer.error, answer.excerpt) == (200, None, "x" * 4_096)
    assert receiver.lines[0].sent < 50_000_000  # what the kernels' buffers take, and not all of it


def test_a_body_of_64_KiB_is_read_whole(send: Send) -> None:
    with Receiver(pours(65_536)) as receiver:
        first, second = send(receiver.url, receiver.url)
    assert (first.status, second.status) == (200, 200)
    assert [request.connection for request in receiver.requests] == [1, 1]


def test_notifications_34_a_dripping_head_is_cut_at_the_timeout(send: Send) -> None:
    with Receiver(drips(head(200), every_s=0.1)) as receiver:
        (answer,) = send(outgoing(receiver.url, timeout_ms=SHORT_MS))
        receiver.wait_for(1, ended=1)
    assert (answer.status, answer.error, answer.excerpt) == (None, "timeout", "")
    assert answer.duration_ms >= SHORT_MS
    assert answer.address == "127.0.0.1"


def test_notifications_34_a_dripping_body_is_cut_at_the_timeout(send: Send) -> None:
    """One byte a second."""
    with Receiver(drips(b"more", head(500, {"content-length": "1000"}) + b"down")) as receiver:
        (answer,) = send(outgoing(receiver.url, timeout_ms=SHORT_MS))
        receiver.wait_for(1, ended=1)
    assert (answer.status, answer.error) == (500, "timeout")
    assert answer.excerpt in ("down", "downm")


@pytest.mark.parametrize(
    "behaviour", [is_silent(), None, says(b"HTTP/1.1 100 Continue\r\n\r\n"), says(head(200)[:-1])]
)
def test_a_receiver_without_an_answer_is_cut_at_the_timeout(behaviour: Behaviour | None, send: Send) -> None:
    with Receiver(behaviour) as receiver:
        (answer,) = send(outgoing(receiver.url, timeout_ms=SHORT_MS))
        if behaviour is not None:
            receiver.wait_for(ended=1)
    assert (answer.status, answer.error) == (None, "timeout")


def test_a_receiver_that_reads_nothing_of_a_long_body_is_cut_at_the_timeout(send: Send) -> None:
    with Receiver(None) as receiver:
        (answer,) = send(outgoing(receiver.url, body=b"x" * 900_000, timeout_ms=SHORT_MS))
    assert (answer.status, answer.error) == (None, "timeout")


@pytest.mark.parametrize(
    ("data", "then", "status", "error"),
    [
        (b"", "close", None, "reset"),
        (b"", "reset", None, "reset"),
        (b"HTTP/1.1 200 O", "close", None, "reset"),
        (b"HTTP/1.1 200 OK\r\nServer: x\r\n", "close", None, "reset"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "close", 200, "reset"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "reset", 200, "reset"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", "close", 200, "reset"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n",
            "wait",
            200,
            "protocol",
        ),
        (b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", "close", 503, None),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "wait", 204, None),
        (
            b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "wait",
            200,
            None,
        ),
        (b"HTTP/1.0 200 OK\r\n\r\nhalf", "close", 200, None),
        (b"HTTP/1.0 500 No\r\nContent-Length: 4\r\n\r\nhalf", "wait", 500, None),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "wait", None, "protocol"),
        (b"<html>hello</html>\r\n\r\n", "wait", None, "protocol"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "wait", None, "protocol"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "wait", None, "protocol"),
        (b"HTTP/1.1 abc OK\r\n\r\n", "wait", None, "protocol"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nhalf", "wait", None, "protocol"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "wait", None, "protocol"),
        (b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n", "wait", None, "protocol"),
    ],
)
def test_a_broken_answer_has_its_class(data: bytes, then: str, status: int, error: str, send: Send) -> None:
    with Receiver(says(data, then=then)) as receiver:
        (answer,) = send(receiver.url)
        receiver.wait_for(ended=1)
    assert (answer.status, answer.error) == (status, error)
    whole = "half" if b"half" in data and status else ""
    assert answer.excerpt in ((whole,) if error is None else (whole, ""))  # its end may come with it


@pytest.mark.parametrize(
    "lines",
    [
        b"x-long: " + b"a" * 17_000 + b"\r\n",
        b"x-many: aaaaaaaaaaaaa\r\n" * 1_000,
        b"x-some: " + b"a" * 8_000 + b"\r\n",
    ],
    ids=["one", "many", "sum"],
)
def test_a_head_above_16_KiB_is_refused(lines: bytes, send: Send) -> None:
    with Receiver(says(b"HTTP/1.1 200 OK\r\n" + lines * 3 + b"content-length: 0\r\n\r\n")) as receiver:
        (answer,) = send(receiver.url)
        receiver.wait_for(ended=1)
    assert (answer.status, answer.error, answer.headers) == (None, "protocol", {})


def test_headers_without_end_are_cut(send: Send) -> None:
    async def behave(line: Any, request: Any) -> None:
        await line.send(b"HTTP/1.1 200 OK\r\n")
        while True:
            await line.send(b"x-more: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 100)

    with Receiver(behave) as receiver:
        (answer,) = send(receiver.url)
        receiver.wait_for(ended=1)
    assert (answer.status, answer.error) == (None, "protocol")


def test_announcements_without_an_answer_are_cut(send: Send) -> None:
    async def behave(line: Any, request: Any) -> None:
        while True:
            await line.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)

    some = b"HTTP/1.1 102 Processing\r\n\r\n" * 15 + head(200, {"content-length": "0"})
    with Receiver(script(says(some, then="go on"), says(some, then="go on"), behave)) as receiver:
        done = send(*[receiver.url] * 3)
        receiver.wait_for(ended=1)
    assert [(answer.status, answer.error) for answer in done] == [
        (200, None),
        (200, None),
        (None, "protocol"),
    ]


def test_a_head_of_almost_16_KiB_passes(send: Send) -> None:
    with Receiver(answers(200, b"ok", x_long="a" * 16_000)) as receiver:
        (answer,) = send(receiver.url)
    assert (answer.status, answer.error) == (200, None)


def test_an_answer_before_the_body_was_read_is_the_answer(send: Send) -> None:
    async def behave(line: Any, request: Any) -> None:
        raise AssertionError("the body was read")

    class Early(Receiver):
        async def _answer(self, line: Any) -> None:
            await line.reader.readuntil(b"\r\n\r\n")
            await line.send(head(413, {"content-length": "0", "connection": "close"}))
            await line.ended()

    with Early(behave) as receiver:
        (answer,) = send(outgoing(receiver.url, body=b"x" * 900_000))
    assert (answer.status, answer.error) == (413, None)


def test_bytes_after_an_answer_are_not_taken_for_the_next_one(send: Send) -> None:
    one = head(500, {"content-length": "0"})
    with Receiver(script(says(one + one, then="go on"), answers(200))) as receiver:
        first, second = send(receiver.url, receiver.url)
    assert (first.status, second.status) == (500, 200)
    assert [request.connection for request in receiver.requests] == [1, 2]


def test_one_that_hangs_delays_no_other(run: Callable[..., Any]) -> None:
    async def exchange(receiver: Receiver) -> None:
        sender = Sender(LOCAL)
        async with asyncio.TaskGroup() as group:
            hanging = [
                group.create_task(sender.send(outgoing(receiver.url.replace("hook", "silent"))))
                for _ in range(50)
            ]
            while len(receiver.requests) < 50:
                await asyncio.sleep(0)
            assert (await sender.send(outgoing(receiver.url.replace("hook", "good")))).status == 200
            assert not any(task.done() for task in hanging)
            for task in hanging:
                task.cancel()
        await sender.close()
        receiver.wait_for(ended=50)

    with Receiver(by_path(silent=is_silent(), good=answers())) as receiver:
        run(exchange(receiver))


# Connections that do not come about


def test_a_closed_port_refuses(send: Send) -> None:
    (answer,) = send(f"http://127.0.0.1:{free_port()}/")
    assert (answer.status, answer.error) == (None, "refused")


def test_an_unreachable_network_is_named(send: Send) -> None:
    async def connect(addresses: tuple[str, ...], port: int) -> socket.socket:
        raise OSError(113, "No route to host")

    (answer,) = send("http://127.0.0.1/", connect=connect)
    assert answer.error == "unreachable"


def test_a_machine_out_of_sockets_is_nobodys_failure(send: Send) -> None:
    async def connect(addresses: tuple[str, ...], port: int) -> socket.socket:
        raise OSError(24, "Too many open files")

    with pytest.raises(Unavailable, match="Too many open files"):
        send("http://127.0.0.1/", connect=connect)


def test_a_connection_has_a_time_of_its_own(send: Send) -> None:
    async def connect(addresses: tuple[str, ...], port: int) -> socket.socket:
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    url = "http://127.0.0.1/"
    done = send(outgoing(url, connect_timeout_ms=50), outgoing(url, timeout_ms=50), connect=connect)
    assert [(answer.error, answer.address) for answer in done] == [("connect_timeout", "")] * 2


def test_a_handshake_that_is_not_answered_ends_with_the_time_to_connect(send: Send) -> None:
    with Receiver(None) as receiver:
        (answer,) = send(outgoing(receiver.url.replace("http", "https"), connect_timeout_ms=100))
    assert answer.error == "connect_timeout"


def test_a_second_address_is_tried(send: Send) -> None:
    with Receiver(answers()) as receiver:
        (answer,) = send(receiver.named("hooks.test"), resolve=resolving(["::1", "127.0.0.1"]))
    assert (answer.status, answer.address) == (200, "127.0.0.1")


def test_tls_is_verified_and_names_the_host(send: Send) -> None:
    settings = GuardSettings(allow_hosts=("localhost",))
    with Receiver(answers(), tls=True) as receiver:
        (answer,) = send(
            receiver.named("localhost"), settings=settings, tls=trusting(), resolve=resolving(["127.0.0.1"])
        )
    assert (answer.status, answer.error) == (200, None)
    assert answer.tls_ms is not None
    assert receiver.names == ["localhost"]
    assert receiver.requests[0].header("host") == f"localhost:{receiver.port}"


@pytest.mark.parametrize(("host", "tls"), [("127.0.0.1", None), ("other.test", trusting())])
def test_a_certificate_of_nobody_or_of_somebody_else_is_refused(
    host: str, tls: ssl.SSLContext | None, send: Send
) -> None:
    with Receiver(answers(), tls=True) as receiver:
        (answer,) = send(receiver.named(host), tls=tls, resolve=resolving(["127.0.0.1"]))
    assert (answer.status, answer.error) == (None, "tls")
    assert receiver.requests == []


@pytest.mark.parametrize("then", ["wait", "close", "reset"])
def test_what_is_no_tls_is_a_tls_error(then: str, send: Send) -> None:
    class Plain(Receiver):
        async def _answer(self, line: Any) -> None:
            await line.reader.read(1)
            await says(b"HTTP/1.1 400 Bad Request\r\n\r\n" if then == "wait" else b"", then=then)(line, None)  # type: ignore[arg-type]

    with Plain(answers()) as receiver:
        (answer,) = send(receiver.url.replace("http", "https"))
        receiver.wait_for(ended=1)
    assert (answer.status, answer.error) == (None, "tls")


@pytest.mark.parametrize(
    "failure", [socket.gaierror(-2, "Name or service not known"), socket.gaierror(-3, "again"), OSError(), []]
)
def test_a_name_without_addresses_is_a_dns_error(failure: Any, send: Send) -> None:
    async def resolve(name: str) -> list[str]:
        if isinstance(failure, list):
            return failure
        raise failure

    (answer,) = send("https://hooks.test/", resolve=resolve, connect=unwanted)
    assert (answer.error, answer.address) == ("dns", "")


def test_a_silent_server_of_names_ends_with_the_time_to_connect(send: Send) -> None:
    async def resolve(name: str) -> list[str]:
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    url = "https://hooks.test/"
    done = send(outgoing(url, connect_timeout_ms=50), outgoing(url, timeout_ms=50), resolve=resolve)
    assert [answer.error for answer in done] == ["connect_timeout"] * 2


def test_a_sender_that_is_cancelled_cuts_its_connection(run: Callable[..., Any]) -> None:
    async def exchange(receiver: Receiver) -> None:
        sender = Sender(LOCAL)
        task = asyncio.create_task(sender.send(outgoing(receiver.url)))
        while not receiver.requests:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await sender.close()

    with Receiver(is_silent()) as receiver:
        run(exchange(receiver))
        receiver.wait_for(ended=1)


# The guard


@pytest.mark.parametrize(
    "addresses", [["8.8.8.8", "127.0.0.1"], ["169.254.169.254"], ["64:ff9b::7f00:1"], ["::ffff:10.0.0.1"]]
)
def test_notifications_43_44_one_blocked_address_of_a_name_blocks_the_attempt(
    addresses: list[str], send: Send
) -> None:
    (answer,) = send("https://hooks.test/", settings=STRICT, resolve=resolving(addresses), connect=unwanted)
    assert (answer.status, answer.error, answer.excerpt, answer.address) == (None, "blocked_address", "", "")


def test_notifications_44_a_name_that_changes_is_blocked_at_the_next_attempt(send: Send) -> None:
    """Although a connection to its earlier address is open."""
    settings = GuardSettings(allow_http=True, allow_cidrs=("127.0.0.1/32",))
    resolve = resolving(["127.0.0.1"], ["127.0.0.1"], ["127.0.0.2"], ["127.0.0.1", "10.0.0.1"], ["127.0.0.1"])
    with Receiver(answers(), bind="0.0.0.0") as receiver:
        done = send(*[receiver.named("hooks.test")] * 5, settings=settings, resolve=resolve)
    assert [answer.error for answer in done] == [None, None, "blocked_address", "blocked_address", None]
    assert len(receiver.requests) == 3


def test_a_connection_serves_its_own_address_and_host_alone(send: Send) -> None:
    resolve = resolving(["127.0.0.1"], ["127.0.0.2"], ["127.0.0.2"], ["127.0.0.2"])
    with Receiver(answers(), bind="0.0.0.0") as receiver:
        names = ["a.test", "a.test", "b.test", "a.test"]
        done = send(*map(receiver.named, names), resolve=resolve)
    assert [answer.address for answer in done] == ["127.0.0.1", "127.0.0.2", "127.0.0.2", "127.0.0.2"]
    assert [request.connection for request in receiver.requests] == [1, 2, 3, 2]
    assert [request.header("host") for request in receiver.requests] == [
        f"{name}:{receiver.port}" for name in names
    ]


def test_a_connection_that_leads_elsewhere_is_blocked_before_anything_is_sent(send: Send) -> None:
    with Receiver(answers()) as receiver:

        async def connect(addresses: tuple[str, ...], port: int) -> socket.socket:
            other = socket.create_connection(("127.0.0.1", receiver.port))
            other.setblocking(False)
            return other

        (answer,) = send(
            "http://hooks.test/", settings=STRICT, resolve=resolving(["8.8.8.8"]), connect=connect
        )
        receiver.wait_for(ended=1)
    assert (answer.error, answer.address) == ("blocked_address", "")
    assert receiver.requests == []


def hostile_urls(number: int) -> list[tuple[str, list[list[str]]]]:
    """Addresses inside in many spellings, each with what names resolve to: any of a blocked range, beside public ones or alone."""
    chance, found = random.Random(54), []
    for _ in range(number // 5):
        first, last = map(ipaddress.ip_address, chance.choice(BLOCKED_RANGES[:-2]))
        address = type(first)(chance.randint(int(first), int(last)))
        host = f"[{address}]" if address.version == 6 else str(address)
        found.append((f"http://{host}/", []))
        found.append(("http://hooks.test/", [[str(address)]]))
        found.append(("http://hooks.test/", [chance.sample(["8.8.8.8", "2600::1", str(address)], 3)]))
        if address.version == 4:
            found.append((f"http://[::ffff:{address}]/", []))
            found.append((f"http://{int(address)}/", []))
        else:
            found.append((f"http://[{address.exploded}]/", []))
            found.append(("http://hooks.test/", [[address.exploded.upper()]]))
    return found


def test_reliability_54_none_of_five_hundred_hostile_endpoints_is_connected_to() -> None:
    """Rebinding and redirects have tests of their own: 44, and 32 of notifications."""

    async def exchange() -> list[Answer]:
        names = iter([one for _, found in urls for one in found])

        async def resolve(name: str) -> list[str]:
            return next(names)

        sender = Sender(STRICT, resolve=resolve, connect=unwanted)
        try:
            return [await sender.send(outgoing(url)) for url, _ in urls]
        finally:
            await sender.close()

    urls = hostile_urls(500)
    seen = asyncio.run(exchange())
    assert len(seen) == 500
    assert {answer.error for answer in seen} == {"blocked_address", "invalid_request"}
    assert {(answer.status, answer.address, answer.excerpt) for answer in seen} == {(None, "", "")}


@pytest.mark.parametrize(
    ("host", "error"),
    [
        ("2130706433", "invalid_request"),
        ("0x7f.1", "invalid_request"),
        ("[::ffff:127.0.0.1]", "blocked_address"),
        ("[64:ff9b::7f00:1]", "blocked_address"),
        ("user:word@hooks.test", "invalid_request"),
        ("localhost", "blocked_address"),
    ],
)
def test_notifications_45_urls_in_disguise_are_not_sent_to(host: str, error: str, send: Send) -> None:
    (answer,) = send(f"http://{host}/", settings=STRICT, resolve=unwanted, connect=unwanted)
    assert answer == Answer(error=error)  # type: ignore[arg-type]


def test_notifications_46_a_blocked_attempt_tells_nothing_about_the_port(send: Send) -> None:
    with Receiver(answers()) as receiver:
        urls = [receiver.url, f"http://127.0.0.1:{free_port()}/"]
        done = send(*urls, settings=STRICT)
        named = send(
            *[url.replace("127.0.0.1", "hooks.test") for url in urls],
            settings=STRICT,
            resolve=resolving(["127.0.0.1"], ["127.0.0.1"]),
        )
    assert done == [Answer(error="blocked_address")] * 2
    for answer in named:
        assert (answer.status, answer.error, answer.excerpt, answer.address) == (
            None,
            "blocked_address",
            "",
            "",
        )
        assert (answer.connect_ms, answer.tls_ms, answer.ttfb_ms) == (None, None, None)
    assert receiver.lines == []


@pytest.mark.parametrize(
    "headers", [{"Host": "inside"}, {"x-a": "a\r\nhost: b"}, {"a b": "c"}, {"transfer-encoding": "chunked"}]
)
def test_notifications_47_headers_that_break_the_request_are_not_sent(
    headers: dict[str, str], send: Send
) -> None:
    with Receiver(answers()) as receiver:
        (answer,) = send(outgoing(receiver.url, headers=headers))
    assert answer == Answer(error="invalid_request")
    assert receiver.lines == []


def test_each_attempt_asks_once_for_the_name(send: Send) -> None:
    asked: list[str] = []

    async def resolve(name: str) -> list[str]:
        asked.append(name)
        return ["127.0.0.1"]

    with Receiver(answers()) as receiver:
        send(*[receiver.named("Hooks.TEST.")] * 3, resolve=resolve)
    assert asked == ["hooks.test"] * 3


def test_no_proxy_is_taken_from_the_environment(send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver(answers()) as receiver, Receiver(answers(502)) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        (answer,) = send(receiver.url)
    assert answer.status == 200
    assert proxy.lines == []


# The operator's proxy


def proxied(proxy: Receiver, login: str = "") -> dict[str, Any]:
    return {"egress_proxy": f"http://{login}127.0.0.1:{proxy.port}", "resolve": unwanted, "settings": STRICT}


def test_a_proxy_resolves_and_connects(send: Send) -> None:
    with Receiver(answers()) as receiver, Receiver(tunnels(receiver.port)) as proxy:
        first, second = send(*["http://hooks.test:8080/a"] * 2, **proxied(proxy, "me:w%40rd@"))
    assert (first.status, second.status, first.address) == (200, 200, "")
    (asked,) = proxy.requests
    assert (asked.method, asked.target, asked.header("host")) == (
        "CONNECT",
        "hooks.test:8080",
        "hooks.test:8080",
    )
    assert asked.header("proxy-authorization") == "Basic bWU6d0ByZA=="
    assert receiver.requests[0].target == "/a"
    assert "proxy-authorization" not in {name.lower() for name, _ in receiver.requests[0].headers}


def test_tls_goes_through_a_proxy(send: Send) -> None:
    with Receiver(answers(), tls=True) as receiver, Receiver(tunnels(receiver.port)) as proxy:
        options = proxied(proxy) | {"settings": GuardSettings(allow_hosts=("localhost",)), "tls": trusting()}
        (answer,) = send("https://localhost/", **options)
    assert answer.status == 200
    assert proxy.requests[0].target == "localhost:443"


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (answers(403, b"no"), "blocked_address"),
        (answers(502, b""), "unreachable"),
        (answers(503, b""), "unreachable"),
        (answers(504, b""), "unreachable"),
        (answers(407, b""), "proxy"),
        (answers(500, b""), "proxy"),
        (says(b"hello\r\n\r\n"), "proxy"),
        (says(b"HTTP/1.1 2", then="close"), "proxy"),
        (says(b"", then="reset"), "proxy"),
        (says(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 10_000), "proxy"),
    ],
)
def test_a_proxys_refusal_is_not_its_outage(behaviour: Behaviour, error: str, send: Send) -> None:
    with Receiver(behaviour) as proxy:
        (answer,) = send("http://hooks.test/", **proxied(proxy))
        proxy.wait_for(ended=1)
    assert (answer.status, answer.error, answer.excerpt, answer.address) == (None, error, "", "")


def test_a_proxy_that_is_away_is_an_outage(send: Send) -> None:
    (answer,) = send("http://hooks.test/", settings=STRICT, egress_proxy=f"http://127.0.0.1:{free_port()}")
    assert answer.error == "proxy"


def test_a_proxy_that_does_not_accept_in_time_is_an_outage(send: Send) -> None:
    async def connect(addresses: tuple[str, ...], port: int) -> socket.socket:
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    asked = outgoing("http://hooks.test/", connect_timeout_ms=50)
    (answer,) = send(asked, settings=STRICT, egress_proxy="http://127.0.0.1:1", connect=connect)
    assert answer.error == "proxy"


def test_a_target_that_a_proxy_does_not_reach_in_time_is_slow(send: Send) -> None:
    with Receiver(is_silent()) as proxy:
        (answer,) = send(outgoing("http://hooks.test/", connect_timeout_ms=1_000), **proxied(proxy))
    assert answer.error == "connect_timeout"


def test_literal_addresses_are_judged_with_a_proxy_too(send: Send) -> None:
    with Receiver(answers()) as proxy:
        (answer,) = send("http://127.0.0.1/", **proxied(proxy))
    assert answer.error == "blocked_address"
    assert proxy.lines == []


@pytest.mark.parametrize(
    "url", ["https://proxy:1", "proxy:1", "http://proxy", "http://proxy:x", "http://proxy:1/path", ""]
)
def test_a_proxy_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidConfig, match=r"egress_proxy"):
        Sender(LOCAL, egress_proxy=url)
