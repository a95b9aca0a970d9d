"""Durations and sizes as people write them, and back; shares as they read them."""

import pytest

from anew.errors import InvalidInput, InvalidPolicy
from anew.units import (
    MAX_DURATION_MS,
    MAX_SIZE,
    counted,
    format_duration,
    format_duration_short,
    format_range,
    format_share,
    format_size,
    format_size_about,
    milliseconds_of,
    parse_duration,
    parse_duration_with_unit,
    parse_share,
    parse_size,
    refused,
    refused_as,
    shown,
)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        (500, 500),
        (0, 0),
        ("500", 500),
        ("500ms", 500),
        ("5s", 5_000),
        ("1m", 60_000),
        ("2h", 7_200_000),
        ("7d", 604_800_000),
        ("3w", 1_814_400_000),
        ("1h 30m", 5_400_000),
        ("1h30m", 5_400_000),
        ("30m 1h", 5_400_000),
        ("12.5s", 12_500),
        ("0.001s", 1),
        ("1.5h", 5_400_000),
        ("4 min 16 s", 256_000),
        ("2 hours", 7_200_000),
        ("  5s ", 5_000),
        ("0s", 0),
        ("36500d", 36_500 * 86_400_000),
    ],
)
def test_zizq_96_durations_read_as_people_write_them(text: str | int, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT1H", 3_600_000),
        ("PT0.5S", 500),
        ("PT1H30M", 5_400_000),
        ("P1DT12H", 129_600_000),
        ("P3W", 1_814_400_000),
        ("P2D", 172_800_000),
    ],
)
def test_iso_8601_durations_read_too(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize(
    "value",
    [
        "", " ", "s", "-5s", "+5s", "1.5", "1e3s", "5 parsecs", "5S", "1h1h", "1m 1min", "0.5ms", "0.0001s",
        "1..5s", "P", "PT", "P1DT", "P1Y", "P1M", "PT1H1H", "p1d", "٣s", "36501d", "9" * 100, "nan", "inf",
        -1, MAX_DURATION_MS + 1, True, 1.5, None, [5],
    ],
)  # fmt: skip
def test_what_is_no_duration_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_duration(value, field="timeout")  # type: ignore[arg-type]
    assert caught.value.field == "timeout"
    assert len(str(caught.value)) < 300


def test_an_integer_too_long_to_print_is_refused_all_the_same() -> None:
    with pytest.raises(InvalidInput, match="an integer of 16610 bits"):
        parse_duration(10**5_000)


def test_the_error_names_field_value_and_expectation() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_duration("5 parsecs", field="drain_timeout")
    assert str(caught.value) == (
        'drain_timeout: "5 parsecs" is not valid; expected a duration such as 500ms, 12.5s, 1h30m, 7d or PT1H'
        " (a bare integer is milliseconds), at most 36500d"
    )
    assert caught.value.value == "5 parsecs"


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (250, "250 ms"),
        (1_000, "1 s"),
        (12_500, "12.5 s"),
        (59_999, "59.999 s"),
        (256_000, "4 min 16 s"),
        (256_999, "4 min 16 s"),
        (3_600_000, "1 h"),
        (5_400_000, "1 h 30 min"),
        (2_154_020_000, "24 d 22 h"),
        (-256_000, "-4 min 16 s"),
    ],
)
def test_durations_read_aloud(ms: int, text: str) -> None:
    assert format_duration(ms) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0s"),
        (250, "250ms"),
        (12_500, "12.5s"),
        (61_500, "1m1.5s"),
        (5_400_000, "1h30m"),
        (604_800_000, "7d"),
        (604_800_001, "7d0.001s"),
    ],
)
def test_short_durations_are_exact_and_read_back(ms: int, text: str) -> None:
    assert format_duration_short(ms) == text
    assert parse_duration(text) == ms


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (4096, 4096),
        ("4096", 4096),
        ("256MB", 256_000_000),
        ("64MiB", 67_108_864),
        ("512kB", 512_000),
        ("1 GiB", 1_073_741_824),
        ("1.5GiB", 1_610_612_736),
        ("100mb", 100_000_000),
        ("7B", 7),
        ("0", 0),
    ],
)
def test_sizes_read_decimal_and_binary(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "value", ["", "64M", "-1MB", "1.5", "0.5B", "1 XB", "MB", "10000PB", -1, MAX_SIZE + 1, False, 1.0, None]
)
def test_what_is_no_size_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match=r"^max_body: .* is not valid; expected a size such as"):
        parse_size(value, field="max_body")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (999, "999 B"),
        (1_000, "1 kB"),
        (1_024, "1 KiB"),
        (67_108_864, "64 MiB"),
        (256_000_000, "256 MB"),
        (1_234_567, "1.23 MB"),
    ],
)
def test_sizes_read_aloud(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1_023, "1023 B"),
        (1_024, "1.0 KiB"),
        (307_200, "300 KiB"),
        (71_308_364 * 1_024, "68.0 GiB"),
        (5 << 50, "5.0 PiB"),
        (1 << 62, "4096 PiB"),
    ],
)
def test_sizes_are_told_to_a_few_digits(size: int, text: str) -> None:
    assert format_size_about(size) == text


@pytest.mark.parametrize("size", [0, 1, 1_000, 1_024, 67_108_864, 256_000_000, 10**15, 2**50])
def test_exact_sizes_read_back(size: int) -> None:
    assert parse_size(format_size(size)) == size


def test_any_value_is_shown_on_one_short_line() -> None:
    values: list[object] = ["x" * 10_000, list(range(10_000)), 10**5_000, {"a": {"b": {"c": {}}}}, "a\nb"]
    for value in values:
        text = shown(value)
        assert len(text) <= 64
        assert "\n" not in text
    assert shown(10**5_000) == "an integer of 16610 bits"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (1e-17, "less than 1 %"),
        (0.0099, "less than 1 %"),
        (0.01, "1 %"),
        (1 / 3, "33 %"),
        (0.99, "99 %"),
        (0.9901, "over 99 %"),
        (1 - 2**-53, "over 99 %"),
        (1, "100 %"),
    ],
)
def test_only_all_or_nothing_reads_100_or_0_per_cent(share: float, text: str) -> None:
    assert format_share(share) == text


def test_a_refusal_names_field_value_and_expectation_whatever_its_class() -> None:
    plain, narrow = refused("n", 0, "1 or more"), refused_as(InvalidPolicy, "n", 0, "1 or more")
    assert str(plain) == str(narrow) == "n: 0 is not valid; expected 1 or more"
    assert (plain.field, plain.value) == (narrow.field, narrow.value) == ("n", 0)
    assert type(plain) is InvalidInput
    assert type(narrow) is InvalidPolicy


@pytest.mark.parametrize(
    ("number", "nouns", "text"),
    [
        (0, ("retry", "retries"), "0 retries"),
        (1, ("retry", "retries"), "1 retry"),
        (1, ("job",), "1 job"),
        (2_000, ("job",), "2,000 jobs"),
    ],
)
def test_a_number_has_its_noun(number: int, nouns: tuple[str, ...], text: str) -> None:
    assert counted(number, *nouns) == text


def test_a_range_without_a_width_is_one_duration() -> None:
    assert format_range(15_000, 53_000) == "15 s to 53 s"
    assert format_range(15_000, 15_000) == "15 s"


@pytest.mark.parametrize(
    ("text", "ms"),
    [("0", 0), ("00", 0), ("1h", 3_600_000), ("3600s", 3_600_000), ("500ms", 500), ("12.5s", 12_500), ("PT1H", 3_600_000)],
)  # fmt: skip
def test_a_typed_duration(text: str, ms: int) -> None:
    assert parse_duration_with_unit(text, "--outage") == ms


@pytest.mark.parametrize("text", ["3600", " 3600 ", "1", "0060"])
def test_a_typed_duration_needs_a_unit(text: str) -> None:
    """Whoever types 3600 for an outage means an hour more often than 3.6 s."""
    with pytest.raises(InvalidInput) as caught:
        parse_duration_with_unit(text, "--outage")
    number = text.strip()
    expected = f"a duration with its unit, such as {number}s or {number}ms"
    assert str(caught.value) == f'--outage: "{text}" has no unit; expected {expected}'
    assert caught.value.field == "--outage"


@pytest.mark.parametrize("text", ["soon", "", "-1", "3600.5", "1" * 40, "\u0663", "40000d"])
def test_what_is_no_duration_is_told_how_one_is_written(text: str) -> None:
    with pytest.raises(
        InvalidInput, match=r"^--outage: .* is not valid; expected a duration such as 500ms, 12.5s, 1h30m"
    ) as caught:
        parse_duration_with_unit(text, "--outage")
    assert "milliseconds" not in str(caught.value), "that is for JSON and Python"


@pytest.mark.parametrize(
    ("value", "share"),
    [(0, 0.0), (1, 1.0), (0.25, 0.25), ("1", 1.0), (".5", 0.5), ("0.99", 0.99), (" 99% ", 0.99), ("0.5 %", 0.005), ("100 %", 1.0)],
)  # fmt: skip
def test_a_share(value: object, share: float) -> None:
    assert parse_share(value) == pytest.approx(share, rel=1e-15)


@pytest.mark.parametrize(
    "value",
    ["", "%", "101 %", "-1 %", "1.5", "nan", "inf", "1e-1", "99", "\u0663 %", -0.1, 1.1, float("nan"), True, None, [0.5]],
)  # fmt: skip
def test_what_is_no_share(value: object) -> None:
    assert parse_share(value) is None


@pytest.mark.parametrize(
    ("seconds", "ms"),
    [(1, 1_000), (0.5, 500), (64.1, 64_100), (0.0005, 1), (1e-300, 1), (1e300, MAX_DURATION_MS), (10**400, MAX_DURATION_MS)],
)  # fmt: skip
def test_seconds_of_a_protocol_become_milliseconds(seconds: float, ms: int) -> None:
    assert milliseconds_of(seconds, "unique_for") == ms


@pytest.mark.parametrize(
    "seconds", [0, 0.0, -1, True, "1", None, [1], float("nan"), float("inf"), -(10**400)]
)
def test_what_is_no_positive_number_of_seconds_is_refused(seconds: object) -> None:
    with pytest.raises(InvalidInput, match=r"unique_for: .* expected a positive number of seconds"):
        milliseconds_of(seconds, "unique_for")
