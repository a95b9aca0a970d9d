"""Chunked bodies, however they are cut."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from anew.net.http1.body import ChunkedBody
from anew.net.seam import WireLimits

limits = WireLimits(max_body=100_000, max_headers=6)


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    st.lists(st.integers(min_value=1, max_value=30), min_size=1),
    st.sampled_from([b"", b";a=b", b' ; a="b c"']),
)
@settings(max_examples=300, deadline=None)
def test_a_chunked_body_reads_the_same_however_it_is_cut(
    pieces: list[bytes], cuts: list[int], extension: bytes
) -> None:
    raw = (
        b"".join(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces)
        + b"000\r\nT: v\r\n\r\n"
    )
    stream = raw + b"GET / HTTP/1.1"
    body = ChunkedBody(limits)
    at = 0
    rest = None
    while rest is None:
        cut = cuts[at % len(cuts)]
        rest = body.feed(stream[at : at + cut])
        at = min(at + cut, len(stream))
    assert at - len(rest) == len(raw)
    assert body.take() == b"".join(pieces)
