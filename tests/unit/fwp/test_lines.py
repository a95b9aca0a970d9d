"""Lines come out whole, however the bytes are split; one that is too long ends it all."""

import pytest

from anew.fwp.lines import LineSplitter


@pytest.mark.parametrize(
    ("data", "lines", "rest"),
    [
        (b"INFO\r\n", [b"INFO"], 0),
        (b"INFO\n", [b"INFO"], 0),
        (b"\n\r\n", [b"", b""], 0),
        (b"a\r\r\n", [b"a\r"], 0),
        (b"a\rb\n", [b"a\rb"], 0),
        (b"a\r\nb\nc\r\nd", [b"a", b"b", b"c"], 1),
        (b"a\r\nb\r\nc\r", [b"a", b"b"], 2),
        (b"a\nb\n", [b"a", b"b"], 0),
        (b"", [], 0),
        (b"no end", [], 6),
    ],
)
def test_a_line_ends_with_lf_and_one_cr_goes_with_it(data: bytes, lines: list[bytes], rest: int) -> None:
    """Checklist 3."""
    splitter = LineSplitter()
    assert splitter.feed(data) == lines
    assert splitter.unfinished == rest


def test_ten_lines_in_one_read_come_in_order() -> None:
    """Checklist 15."""
    sent = [b"ACK %d" % number for number in range(10)]
    assert LineSplitter().feed(b"\r\n".join(sent) + b"\r\n") == sent


def test_every_split_gives_the_same_lines() -> None:
    data = b"one\r\ntwo\n\r\n\nthree\r\r\nfo\rur\r\n"
    for first in range(len(data) + 1):
        for second in range(first, len(data) + 1):
            splitter = LineSplitter()
            lines = [
                *splitter.feed(data[:first]),
                *splitter.feed(data[first:second]),
                *splitter.feed(data[second:]),
            ]
            assert lines == [b"one", b"two", b"", b"", b"three\r", b"fo\rur"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("step", [1, 2, 3, 100])
def test_a_line_may_be_as_long_as_the_limit_and_no_longer(end: bytes, step: int) -> None:
    def fed(data: bytes) -> tuple[list[bytes], bool]:
        splitter = LineSplitter(max_line=8)
        lines = [line for at in range(0, len(data), step) for line in splitter.feed(data[at : at + step])]
        return lines, splitter.too_long

    assert fed(b"ok" + end + b"12345678" + end + b"ok" + end) == ([b"ok", b"12345678", b"ok"], False)
    assert fed(b"ok" + end + b"123456789" + end + b"ok" + end) == ([b"ok"], True)
    assert fed(b"ok" + end + b"123456789") == ([b"ok"], True)


def test_nothing_is_kept_of_a_line_that_is_too_long() -> None:
    splitter = LineSplitter(max_line=8)
    splitter.feed(b"123456")
    splitter.feed(b"7890")
    assert splitter.too_long
    assert splitter.unfinished == 0
    assert splitter.feed(b"\nINFO\n") == []


def test_ten_megabytes_in_small_reads_are_one_line() -> None:
    """Checklist 16."""
    line = b"PUSHB " + b"0123456789" * 1_000_000
    splitter = LineSplitter()
    lines = [got for at in range(0, len(line), 1000) for got in splitter.feed(line[at : at + 1000])]
    assert lines == []
    assert splitter.feed(b"\r\n") == [line]
