"""Public ids: shape, order, reading back, and the place of any text among them."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anew.jobs import IdText
from anew.jobs.ids import COUNTER_BITS, MAX_KEY

TAG = "0k3v9x2mz"
IDS = IdText(TAG)
keys = st.integers(0, MAX_KEY)


def slow_lower_bound(cursor: str) -> int:
    """The greatest key whose id, compared as text, is at or before the cursor: halving, nothing clever."""
    low, high = -1, MAX_KEY
    while low < high:
        middle = (low + high + 1) // 2
        if f"{TAG}{middle:016x}" <= cursor:
            low = middle
        else:
            high = middle - 1
    return low


def test_an_id_is_the_tag_and_sixteen_digits() -> None:
    assert IDS.write(0) == "0k3v9x2mz0000000000000000"
    assert IDS.write(255) == "0k3v9x2mz00000000000000ff"
    assert IDS.write((1 << 63) - 1) == "0k3v9x2mz7fffffffffffffff"


def test_a_millisecond_holds_a_million_ids() -> None:
    assert COUNTER_BITS == 20
    assert MAX_KEY == 9_223_372_036_854_775_807


@given(keys)
def test_ids_are_25_lower_case_letters_and_digits_and_read_back(key: int) -> None:
    text = IDS.write(key)
    assert len(text) == 25
    assert set(text) <= set("0123456789abcdefghijklmnopqrstuvwxyz")
    assert IDS.read(text) == key
    assert IDS.is_exact(text)


@given(keys, keys)
def test_ids_sort_as_their_keys_do(one: int, other: int) -> None:
    assert (IDS.write(one) < IDS.write(other)) == (one < other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0k3v9x2mz",
        "0k3v9x2mz00000000000000f",
        "0k3v9x2mz00000000000000fff",
        "0k3v9x2mz00000000000000FF",
        "0K3V9X2MZ00000000000000ff",
        "1k3v9x2mz00000000000000ff",
        "0k3v9x2mz00000000000000f\n",
        "0k3v9x2mz00000000000000ff\n",
        "0k3v9x2mz8000000000000000",
        "0k3v9x2mzffffffffffffffff",
        "0k3v9x2mz+00000000000000f",
        "0k3v9x2mz0x0000000000000f",
        "0k3v9x2mz0000000_0000000f",
        "0k3v9x2mz000000000000000\u0661",
        "0k3v9x2mz 00000000000000f",
    ],
)
def test_anything_else_is_no_id_of_this_store(text: str) -> None:
    assert IDS.read(text) == -1
    assert not IDS.is_exact(text)


@pytest.mark.parametrize(
    "tag", ["", "0k3v9x2m", "0k3v9x2mzz", "0K3v9x2mz", "0k3v9x2m-", "0k3v9x2mz\n", "0k3v9x2m\u00e9"]
)
def test_a_tag_that_does_not_fit_is_refused(tag: str) -> None:
    with pytest.raises(ValueError, match="nine characters"):
        IdText(tag)


cursors = st.one_of(
    keys.map(IDS.write),
    st.builds(lambda key, cut: IDS.write(key)[:cut], keys, st.integers(0, 25)),
    st.builds(lambda key, tail: IDS.write(key) + tail, keys, st.text(max_size=3)),
    st.builds(
        lambda key, cut, tail: IDS.write(key)[:cut] + tail,
        keys,
        st.integers(0, 25),
        st.text(st.sampled_from("019afgz!~/:`\u00e9\U0001f600"), max_size=4),
    ),
    st.text(max_size=30),
)


@settings(max_examples=1_000)
@given(cursors)
@example("")
@example(TAG)
@example(TAG + "9")
@example(TAG + "8")
@example(TAG + "a!")
@example(TAG + "ffffffffffffffff")
@example(TAG + "8000000000000000")
@example(TAG + "0" * 16 + "z")
@example(TAG + "!")
@example(TAG + "~")
@example("0k3v9x2m")
@example("0k3v9x2mzz")
@example("zzz")
def test_the_lower_bound_of_any_text_is_what_comparing_texts_says(cursor: str) -> None:
    assert IDS.lower_bound(cursor) == slow_lower_bound(cursor)
