"""Lines of a stream, however it is cut into pieces."""

from __future__ import annotations

from anew.client.stream import Lines


def test_lines_survive_every_way_of_cutting_the_stream() -> None:
    stream = b'{"a":1}\n\n{"b":"\xc3\xa9"}\r\n\n'
    for size in range(1, len(stream) + 1):
        lines = Lines()
        got = [
            line for start in range(0, len(stream), size) for line in lines.feed(stream[start : start + size])
        ]
        assert got == [b'{"a":1}', b"", b'{"b":"\xc3\xa9"}', b""]
        assert not lines.pending


def test_a_line_that_has_not_ended_is_kept_and_said() -> None:
    lines = Lines()
    assert lines.feed(b"abc") == []
    assert lines.pending
    assert lines.feed(b"def\nx") == [b"abcdef"]
    assert lines.pending
