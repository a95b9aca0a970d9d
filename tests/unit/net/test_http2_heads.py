"""Which header lists are requests, which are refused with an answer, and which are malformed."""

from __future__ import annotations

import pytest

from anew.net.head import above_every_limit, is_host
from anew.net.http2.heads import AnswerBlocks, Head, HeadReader, MalformedHead, parse_head
from anew.net.http2.hpack import Field, empty_table, encode_field
from anew.net.seam import WireLimits

limits = WireLimits()
method, scheme, path = (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/jobs?a=1&b=?")
authority = (b":authority", b"localhost:7890")
usual = [method, scheme, path, authority]


def status(head: Head) -> int:
    """Give the status with which a head is refused, 0 if it is not."""
    return head.refusal.status if head.refusal is not None else 0


def test_a_whole_head() -> None:
    head = parse_head([*usual, (b"content-length", b"12"), (b"accept", b"a"), (b"accept", b"b")], limits)
    assert (head.method, head.path, head.query) == (b"POST", b"/jobs", b"a=1&b=?")
    assert head.headers == {b"content-length": b"12", b"accept": b"a", b"host": b"localhost:7890"}
    assert (head.length, head.refusal, head.expects) == (12, None, False)


lengths = {
    b"": -1,
    b"0": 0,
    b"000": 0,
    b"9" * 18: 999_999_999_999_999_999,
    b"9" * 19: above_every_limit,
    b"1" + b"0" * 19: above_every_limit,
    b"9" * 4_301: above_every_limit,
    b"0" * 9_000 + b"12": 12,
}


@pytest.mark.parametrize("stated", lengths)
def test_a_length_has_any_number_of_digits(stated: bytes) -> None:
    fields = [*usual, (b"content-length", stated)] if stated else usual
    assert parse_head(fields, limits).length == lengths[stated]
    assert above_every_limit > 2**63 - 1  # the largest `--max-body`


def test_host_header_in_place_of_authority() -> None:
    head = parse_head([method, scheme, path, (b"host", b"localhost")], limits)
    assert head.refusal is None
    assert head.headers[b"host"] == b"localhost"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param([method, scheme, path], id="none"),
        pytest.param([method, scheme, path, (b":authority", b"")], id="empty"),
        pytest.param([*usual, (b"host", b"other")], id="different"),
        pytest.param([method, scheme, path, (b"host", b"a"), (b"host", b"a")], id="two"),
        pytest.param([method, scheme, path, (b":authority", b"user@localhost")], id="with user"),
        pytest.param([method, scheme, path, (b":authority", b"a/b")], id="not a host"),
    ],
)
def test_there_is_exactly_one_host(fields: list[Field]) -> None:
    head = parse_head(fields, limits)
    assert head.refusal is not None
    assert (head.refusal.status, head.refusal.reason) == (400, "host")


def test_the_same_host_twice_is_one() -> None:
    assert status(parse_head([*usual, (b"host", b"LOCALHOST:7890")], limits)) == 0


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param([scheme, path, authority], id="no method"),
        pytest.param([method, path, authority], id="no scheme"),
        pytest.param([method, scheme, authority], id="no path"),
        pytest.param([method, scheme, (b":path", b""), authority], id="empty path"),
        pytest.param([method, *usual], id="pseudo-header twice"),
        pytest.param([*usual, (b":status", b"200")], id="pseudo-header of answers"),
        pytest.param([*usual, (b":x", b"1")], id="unknown pseudo-header"),
        pytest.param([method, (b"a", b"b"), scheme, path, authority], id="pseudo-header after a field"),
        pytest.param([*usual, (b"Accept", b"a")], id="upper case"),
        pytest.param([*usual, (b"", b"a")], id="empty name"),
        pytest.param([*usual, (b"a b", b"a")], id="blank in a name"),
        pytest.param([*usual, (b"a", b"b\r\nc: d")], id="line end"),
        pytest.param([*usual, (b"a", b"b\0")], id="NUL"),
        pytest.param([*usual, (b"a", b" b")], id="blank before"),
        pytest.param([*usual, (b"a", b"b\t")], id="blank after"),
        pytest.param([*usual, (b"connection", b"close")], id="connection"),
        pytest.param([*usual, (b"transfer-encoding", b"chunked")], id="transfer-encoding"),
        pytest.param([*usual, (b"upgrade", b"h2c")], id="upgrade"),
        pytest.param([*usual, (b"keep-alive", b"1")], id="keep-alive"),
        pytest.param([*usual, (b"proxy-connection", b"x")], id="proxy-connection"),
        pytest.param([*usual, (b"te", b"gzip")], id="te"),
        pytest.param([*usual, (b"content-length", b"+1")], id="content-length with sign"),
        pytest.param([*usual, (b"content-length", b"")], id="empty content-length"),
        pytest.param(
            [*usual, (b"content-length", b"1"), (b"content-length", b"1")], id="two content-lengths"
        ),
    ],
)
def test_malformed(fields: list[Field]) -> None:
    with pytest.raises(MalformedHead):
        parse_head(fields, limits)


def test_te_trailers_is_allowed() -> None:
    assert status(parse_head([*usual, (b"te", b"trailers")], limits)) == 0


@pytest.mark.parametrize(
    "target", [b"jobs", b"*", b"http://localhost/jobs", b"/a b", b"/\xff", b"/a#b", b"/\x7f"]
)
def test_targets_that_are_no_path(target: bytes) -> None:
    assert status(parse_head([method, scheme, (b":path", target), authority], limits)) == 400


def test_options_of_the_whole_server() -> None:
    head = parse_head([(b":method", b"OPTIONS"), scheme, (b":path", b"*"), authority], limits)
    assert (head.refusal, head.path) == (None, b"*")


def test_long_target() -> None:
    short = WireLimits(max_target=10)
    assert status(parse_head([method, scheme, (b":path", b"/" * 10), authority], short)) == 0
    assert status(parse_head([method, scheme, (b":path", b"/" * 11), authority], short)) == 414


def test_connect_is_refused() -> None:
    assert status(parse_head([(b":method", b"CONNECT"), authority], limits)) == 501


def test_trailers_hold_no_pseudo_headers() -> None:
    reader = HeadReader(limits)
    reader.read_trailers(block_of([(b"x-sum", b"1")]))
    with pytest.raises(MalformedHead):
        reader.read_trailers(block_of([(b":path", b"/")]))


def block_of(fields: list[Field]) -> bytes:
    return b"".join([encode_field(name, value) for name, value in fields])


def test_a_block_seen_before_is_the_same_head_on_every_connection() -> None:
    block = block_of(usual)
    assert HeadReader(limits).read(block) is HeadReader(limits).known[block]


def test_a_block_that_changes_the_table_is_not_kept() -> None:
    reader = HeadReader(WireLimits(max_headers=99))  # limits that no other test has
    reader.read(block_of(usual[:3]) + b"\x41\x09localhost")
    assert reader.read(block_of(usual[:3]) + b"\xbe").headers == {b"host": b"localhost"}
    assert reader.known == {}


def test_a_block_that_inserts_is_kept_for_connections_with_a_closed_table_alone() -> None:
    reader, other = HeadReader(limits), HeadReader(limits)
    reader.read(empty_table + block_of(usual))
    block = block_of(usual[:3]) + b"\x41\x05other"
    head = reader.read(block)
    assert reader.known[block] is head
    assert block not in other.known


def test_what_is_kept_is_bounded() -> None:
    reader = HeadReader(limits)
    for number in range(3000):
        reader.read(block_of([method, scheme, (b":path", b"/%d" % number), authority]))
    assert len(reader.known) <= 1024


def test_too_large_a_head_is_refused_by_its_method() -> None:
    reader = HeadReader(WireLimits(max_head=1000))
    head = reader.read(block_of([(b":method", b"HEAD"), scheme, path, authority, (b"a", b"x" * 1000)]))
    assert (status(head), head.method) == (431, b"HEAD")


def test_one_field_too_many() -> None:
    reader = HeadReader(WireLimits(max_headers=2))
    fields = [*usual, (b"a", b"1"), (b"b", b"2")]
    assert status(reader.read(block_of(fields))) == 0
    assert status(reader.read(block_of([*fields, (b"c", b"3")]))) == 431


@pytest.mark.parametrize(
    "host",
    [b"localhost:99999999", b"localhost:x:y", b"[::1]zzz", b"localhost:80,evil", b"a b", b"a@b", b"[::1"],
)
@pytest.mark.parametrize("name", [b":authority", b"host"])
def test_what_is_no_host_for_http1_is_none_here(host: bytes, name: bytes) -> None:
    assert not is_host(host)
    assert status(parse_head([method, scheme, path, (name, host)], limits)) == 400


@pytest.mark.parametrize("host", [b"localhost", b"LOCALHOST:7890", b"[::1]:0080", b"a.b-c_d~", b"localhost:"])
def test_hosts_with_and_without_a_port(host: bytes) -> None:
    assert status(parse_head([method, scheme, path, (b":authority", host)], limits)) == 0


def test_what_every_answer_carries_stands_in_its_block_before_the_first_date_and_after() -> None:
    blocks = AnswerBlocks(((b"anew-commit", b"relaxed"),))
    carried = encode_field(b"anew-commit", b"relaxed")
    assert blocks.block(200, None, (), None).endswith(carried)
    blocks.new_date(b"Thu, 01 Jan 1970 00:00:00 GMT")
    assert blocks.block(200, None, (), None).endswith(carried)
