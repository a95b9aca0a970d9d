"""What is kept of a long text, counted in bytes of UTF-8."""

import pytest

from anew.jobs.records import cut_middle

NOTE = "[... {} bytes cut ...]"


@pytest.mark.parametrize("text", ["", "x" * 100, "é" * 50, "😀" * 25])
def test_a_text_of_100_bytes_fits_into_100(text: str) -> None:
    assert len(text.encode()) in (0, 100)
    assert cut_middle(text, 100) == text


def test_the_middle_of_a_longer_one_is_cut_out_and_counted() -> None:
    """101 bytes less a note of 24 leave 77: 39 in front and 38 behind."""
    text = "a" * 600 + "b" * 600
    note = NOTE.format(1_200 - 77)
    assert len(note) == 24
    assert cut_middle(text, 101) == "a" * 39 + note + "b" * 38


@pytest.mark.parametrize("sign", ["é", "€", "😀"])
@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("most", range(60, 70))
def test_no_character_is_cut_in_two_and_no_byte_is_lost_uncounted(sign: str, shift: int, most: int) -> None:
    text = "x" * shift + sign * 1_000
    kept = cut_middle(text, most)
    head, _, rest = kept.partition("[... ")
    cut, _, tail = rest.partition(" bytes cut ...]")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert min(len(head), len(tail)) > 0
    assert len(text.encode()) == len(head.encode()) + int(cut) + len(tail.encode())
    # Of each half less than one character is left unused, and a digit of the note at most.
    assert most - 2 * (len(sign.encode()) - 1) - 1 <= len(kept.encode()) <= most


@pytest.mark.parametrize(("most", "kept"), [(0, ""), (1, ""), (2, "é"), (23, "é" * 11)])
def test_where_no_note_fits_the_beginning_is_kept(most: int, kept: str) -> None:
    assert cut_middle("é" * 1_000, most) == kept


def test_a_lone_surrogate_does_no_harm() -> None:
    assert cut_middle("\ud800" + "x" * 100, 50).startswith("?x")
