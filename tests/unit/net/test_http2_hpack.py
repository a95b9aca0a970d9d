"""The header decoder against RFC 7541's own examples and against the `hpack` package."""

from __future__ import annotations

import re

import hpack
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from anew.net.http2.frames import Code, ConnectionFault
from anew.net.http2.hpack import HeaderDecoder, empty_table, encode_field, encode_status

much = 1 << 20

first = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"www.example.com")]
second = [*first, (b"cache-control", b"no-cache")]
third = [
    (b":method", b"GET"),
    (b":scheme", b"https"),
    (b":path", b"/index.html"),
    (b":authority", b"www.example.com"),
    (b"custom-key", b"custom-value"),
]


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param(
            (
                "828684410f7777772e6578616d706c652e636f6d",
                "828684be58086e6f2d6361636865",
                "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
            ),
            id="C.3 without Huffman",
        ),
        pytest.param(
            (
                "828684418cf1e3c2e5f23a6ba0ab90f4ff",
                "828684be5886a8eb10649cbf",
                "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
            ),
            id="C.4 with Huffman",
        ),
    ],
)
def test_examples_of_rfc_7541(blocks: tuple[str, str, str]) -> None:
    decoder = HeaderDecoder()
    for block, fields in zip(blocks, (first, second, third), strict=True):
        assert decoder.decode(bytes.fromhex(block), much, 100) == fields
        assert not decoder.stateless


names = st.sampled_from([b":path", b"accept", b"x-one", b"x-two", b"content-length", b"user-agent"])
values = st.one_of(st.sampled_from([b"", b"/", b"gzip", b"a" * 200]), st.binary(max_size=20))
lists = st.lists(st.tuples(names, values), max_size=8)


@given(st.lists(st.tuples(lists, st.sampled_from([None, 0, 64, 300, 4096]), st.booleans()), max_size=12))
def test_decodes_what_hpack_encodes(script: list[tuple[list[tuple[bytes, bytes]], int | None, bool]]) -> None:
    encoder, decoder = hpack.Encoder(), HeaderDecoder()
    for fields, size, huffman in script:
        if size is not None:
            encoder.header_table_size = size
        assert decoder.decode(encoder.encode(fields, huffman=huffman), much, 100) == fields


# RFC 7541 6.3: 001 and a 5-bit prefix integer. Its section 4.2 needs two of them at most; `hpack` takes any number, Anew two.
three_size_updates = re.compile(rb"(?:[\x20-\x3e]|\x3f[\x80-\xff]*[\x00-\x7f]){3}")


@given(st.binary(max_size=60))
@example(b"  ")
@example(b"\x0f\x80\x80\x80\x80\x00\x00")
def test_decodes_any_bytes_as_hpack_does(block: bytes) -> None:
    assume(not three_size_updates.match(block))
    theirs = hpack.Decoder(max_header_list_size=much)
    try:
        expected = [(bytes(name), bytes(value)) for name, value in theirs.decode(block, raw=True)]
    except hpack.HPACKError:
        with pytest.raises(ConnectionFault):
            HeaderDecoder().decode(block, much, 100)
        return
    try:
        fields = HeaderDecoder().decode(block, much, 100)
    except ConnectionFault as fault:
        # RFC 7541 section 5.1 lets a decoder bound an integer's bytes: Anew takes four behind its prefix, `hpack` any number.
        assume("integer is too long" not in str(fault))
        raise
    assert fields == expected


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(b"\x80", id="index 0"),
        pytest.param(b"\xbe", id="index beyond both tables"),
        pytest.param(b"\x41", id="no value"),
        pytest.param(b"\x41\x05abc", id="value too short"),
        pytest.param(b"\xff\x80\x80\x80\x80\x80\x01", id="integer of six bytes"),
        pytest.param(b"\x41\x84\xff\xff\xff\xff", id="EOS in a Huffman string"),
        pytest.param(b"\x41\x82\x1f\xff", id="padding of more than 7 bits"),
        pytest.param(b"\x82\x20", id="table size after a field"),
        pytest.param(b"\x3f\xe2\x1f", id="table of 4097 bytes"),
    ],
)
def test_refuses(block: bytes) -> None:
    with pytest.raises(ConnectionFault) as caught:
        HeaderDecoder().decode(block, much, 100)
    assert caught.value.code == Code.COMPRESSION_ERROR


def test_no_new_table_after_the_limit_is_known_but_the_old_one_goes_on() -> None:
    decoder = HeaderDecoder()
    decoder.decode(b"\x41\x01x", much, 100)
    decoder.table_limit = 0
    assert decoder.decode(b"\xbe", much, 100) == [(b":authority", b"x")]
    with pytest.raises(ConnectionFault):
        decoder.decode(b"\x21", much, 100)


def test_too_large_a_list_leaves_the_table_in_step() -> None:
    decoder = HeaderDecoder()
    # Three fields of 1 + 1 + 32 bytes; two fit into 80.
    decoder.decode(b"\x40\x01a\x01x\x40\x01b\x01y\x40\x01c\x01z", 80, 100)
    assert decoder.oversized
    assert decoder.decode(b"\xbe\xbf\xc0", much, 100) == [(b"c", b"z"), (b"b", b"y"), (b"a", b"x")]
    assert not decoder.oversized


def test_a_list_of_twice_the_limit_ends_the_decoding() -> None:
    """The last byte is no index at all: whoever reads so far calls it a compression error."""
    # One literal of 1 + 100 + 32 bytes, 133, and six references to it: 931 in all, where twice the limit is 800.
    block = b"\x40\x01a\x64" + b"x" * 100 + b"\xbe" * 6 + b"\x80"
    with pytest.raises(ConnectionFault, match="larger than 400 bytes") as caught:
        HeaderDecoder().decode(block, 400, 100)
    assert caught.value.code == Code.ENHANCE_YOUR_CALM
    with pytest.raises(ConnectionFault) as caught:
        HeaderDecoder().decode(block, 466, 100)  # twice that is 932
    assert caught.value.code == Code.COMPRESSION_ERROR


def test_many_short_fields_end_the_decoding_as_well() -> None:
    """Ten a field at most: 42 bytes each, RFC 7541 appendix A and section 4.1; 24 of them have 1,008."""
    with pytest.raises(ConnectionFault) as caught:
        HeaderDecoder().decode(b"\x82" * 24 + b"\x80", 500, 10)
    assert caught.value.code == Code.ENHANCE_YOUR_CALM


def test_a_block_begins_with_two_table_sizes_at_most() -> None:
    """RFC 7541 section 4.2: the smallest and the last one."""
    decoder = HeaderDecoder()
    assert decoder.decode(b"\x20\x21\x82", much, 100) == [(b":method", b"GET")]
    with pytest.raises(ConnectionFault) as caught:
        decoder.decode(b"\x20\x21\x22\x82", much, 100)
    assert caught.value.code == Code.COMPRESSION_ERROR


def test_too_many_fields() -> None:
    decoder = HeaderDecoder()
    assert len(decoder.decode(b"\x82" * 5, much, 4)) == 4
    assert decoder.oversized


def test_stateless_blocks() -> None:
    decoder = HeaderDecoder()
    decoder.decode(b"\x82\x01\x01x\x00\x01a\x01b", much, 100)
    assert decoder.stateless
    decoder.decode(b"\x41\x01x", much, 100)
    assert not decoder.stateless
    decoder.decode(empty_table, much, 100)
    assert decoder.closed
    decoder.decode(b"\x41\x01x", much, 100)  # with an empty table, inserting changes nothing
    assert decoder.stateless


@given(st.integers(200, 599), lists)
def test_hpack_decodes_what_we_encode(status: int, fields: list[tuple[bytes, bytes]]) -> None:
    block = encode_status(status) + b"".join([encode_field(name, value) for name, value in fields])
    expected = [(b":status", b"%d" % status), *fields]
    assert [(bytes(n), bytes(v)) for n, v in hpack.Decoder().decode(block, raw=True)] == expected
