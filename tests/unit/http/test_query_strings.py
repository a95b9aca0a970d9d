"""Query strings: form rules, filters, cursors, and the links that repeat them."""

from __future__ import annotations

import re

import pytest

from anew.errors import InvalidInput, MalformedRequest
from anew.http.query_strings import (
    FILTERS,
    PAGING,
    Paging,
    Selection,
    comma_set,
    number,
    paging,
    query_pairs,
    selection,
)
from anew.jobs import IdText, State
from anew.store.selection import Filter, Page

IDS = IdText("tag000000")
MAX_KEY = (1 << 63) - 1
ALL = FILTERS | PAGING


def select(query: bytes) -> Selection:
    return selection(query_pairs(query, ALL))


def page(query: bytes) -> Paging:
    return paging(query_pairs(query, ALL))


@pytest.mark.parametrize(
    ("query", "pairs"),
    [
        (b"", {}),
        (b"&&", {}),
        (b"queue=a", {"queue": "a"}),
        (b"queue", {"queue": ""}),
        (b"queue=a=b", {"queue": "a=b"}),
        (b"queue=a+b%2Bc", {"queue": "a b+c"}),
        (b"queue=%C3%A9", {"queue": "é"}),
        (b"queue=\xc3\xa9", {"queue": "é"}),
        (b"queue=%FF", {"queue": "�"}),
        (b"queue=%zz%4", {"queue": "%zz%4"}),
        (b"%71ueue=a", {"queue": "a"}),
    ],
)
def test_zizq_13_form_rules_are_lenient(query: bytes, pairs: dict[str, str]) -> None:
    assert query_pairs(query, {"queue"}) == pairs


@pytest.mark.parametrize("query", [b"a=1", b"=1", b"Queue=a", b"queue=a&queue=a", b"queue=a&%71ueue=b"])
def test_zizq_13_unknown_and_repeated_keys_are_refused(query: bytes) -> None:
    with pytest.raises(MalformedRequest, match="invalid query parameters: "):
        query_pairs(query, {"queue"})


def test_comma_sets_skip_empty_items() -> None:
    assert comma_set("a,,b,a,") == {"a", "b"}
    assert comma_set(",") is None
    assert comma_set("") is None
    assert comma_set(None) is None


def test_zizq_72_statuses_mean_our_states() -> None:
    def states(query: bytes) -> frozenset[State] | None:
        return select(query).where(IDS, visible_at=None).states

    assert states(b"status=scheduled") == {State.SCHEDULED, State.RETRYING}
    assert states(b"status=dead") == {State.DEAD, State.CANCELLED}
    assert states(b"status=ready,in_flight,completed") == {State.READY, State.IN_FLIGHT, State.COMPLETED}
    assert states(b"status=") is None
    for bad in (b"status=bogus", b"status=Ready", b"status=retrying", b"status=ready,cancelled"):
        with pytest.raises(MalformedRequest, match="status"):
            select(bad)


def test_everything_together_as_the_store_sees_it() -> None:
    key = 0x0123456789ABCDEF
    query = f"queue=a,b&type=t&id={IDS.write(key)},{'0' * 25}&priority=7&ready_at=..9&attempts=2.."
    assert select(query.encode()).where(IDS, visible_at=5) == Filter(
        queues=frozenset({"a", "b"}),
        types=frozenset({"t"}),
        keys=frozenset({key}),
        priority=(7, 7),
        ready_at=(0, 9),
        attempts=(2, 2**32 - 1),
        visible_at=5,
    )


def test_zizq_71_ids_of_other_stores_match_nothing_instead_of_everything() -> None:
    assert select(b"id=" + b"0" * 25).where(IDS, visible_at=None).keys == frozenset()
    assert select(b"").where(IDS, visible_at=None).keys is None


@pytest.mark.parametrize(
    "job_id", ["x", "A" * 25, "a" * 24, "a" * 24 + "-", "a" * 24 + "\n", "a" * 26, "é" * 25]
)
def test_zizq_71_ids_have_a_form(job_id: str) -> None:
    chosen = select(b"id=" + job_id.encode())
    with pytest.raises(MalformedRequest) as caught:
        chosen.check_ids()
    assert str(caught.value) == f'invalid job ID: "{job_id}"'


def test_zizq_70_an_expression_stays_as_it_was_written() -> None:
    assert select(b"filter=.a+%3D%3D+%22x,y%22%2B1").expression == '.a == "x,y"+1'
    assert select(b"filter=").expression == ""
    assert select(b"").expression is None


def test_zizq_70_links_carry_the_expression_percent_encoded_and_last() -> None:
    chosen = select(b"filter=.a+%3D%3D+%22%C3%BC%26b%22&attempts=1&queue=q")
    assert chosen.parameters() == [
        ("queue", "q"),
        ("attempts", "1"),
        ("filter", ".a%20%3D%3D%20%22%C3%BC%26b%22"),
    ]


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("7", (7, 7)),
        ("10..20", (10, 20)),
        ("..5", (0, 5)),
        ("9..", (9, 65535)),
        ("..", (0, 65535)),
        ("007", (7, 7)),
    ],
)
def test_zizq_69_ranges(text: str, span: tuple[int, int]) -> None:
    assert select(b"priority=" + text.encode()).ranges == {"priority": span}


@pytest.mark.parametrize(
    "text", ["5..1", "x", "-1", "1..x", "1...3", "1-3", "65536", "1.5", ".", " 1", "1_0", "٣"]
)
def test_zizq_69_bad_ranges(text: str) -> None:
    with pytest.raises(MalformedRequest, match="invalid query parameters: priority"):
        select(b"priority=" + text.encode())


@pytest.mark.parametrize(
    ("name", "most"), [(b"priority", 2**16 - 1), (b"attempts", 2**32 - 1), (b"ready_at", 2**64 - 1)]
)
def test_zizq_69_each_range_has_its_own_greatest_value(name: bytes, most: int) -> None:
    assert select(name + b"=%d" % most).ranges == {name.decode(): (most, most)}
    with pytest.raises(InvalidInput):
        select(name + b"=%d" % (most + 1))


@pytest.mark.parametrize("text", ["x", "1..x", "-1", "65536", "3..65536"])
def test_a_bad_range_is_told_what_a_range_is(text: str) -> None:
    words = "expected a whole number up to 65535, or a range of two: 3, 3..7, 3.. or ..7"
    with pytest.raises(MalformedRequest, match=re.escape(f'priority: "{text}" is not valid; {words}')):
        select(b"priority=" + text.encode())


def test_zizq_66_defaults_and_limits() -> None:
    assert page(b"") == Paging(start=None, order="asc", limit=50)
    assert page(b"order=desc&limit=2000&from=x") == Paging(start="x", order="desc", limit=2000)
    for limit in (b"0", b"2001", b"65535"):
        with pytest.raises(MalformedRequest, match=r"^limit must be between 1 and 2000$"):
            page(b"limit=" + limit)
    for limit in (b"", b"x", b"-1", b"1.0", b"65536", b"9" * 5_000):
        with pytest.raises(MalformedRequest, match="invalid query parameters: limit"):
            page(b"limit=" + limit)
    with pytest.raises(MalformedRequest, match="order"):
        page(b"order=up")


def test_numbers_name_field_and_value_and_expectation() -> None:
    with pytest.raises(MalformedRequest, match='from: "x" is not valid; expected a whole number up to 9'):
        number("from", "x", 9)
    with pytest.raises(MalformedRequest, match=r"^attempt: ") as caught:  # it stands in the path
        number("attempt", "x", 9, MalformedRequest)
    assert caught.value.field == "attempt"


KEY = 0x00000000000000A0


@pytest.mark.parametrize(
    ("cursor", "order", "after", "inclusive"),
    [
        (IDS.write(KEY), "asc", KEY, False),
        (IDS.write(KEY), "desc", KEY, False),
        # Before every id of ours: all going up, none going down.
        ("", "asc", -1, False),
        ("", "desc", -1, True),
        ("sss", "asc", -1, False),
        # Behind every id of ours: none going up, all going down.
        ("zzz", "asc", MAX_KEY, False),
        ("zzz", "desc", MAX_KEY, True),
        # Between two ids: the one before it belongs to the page that goes down.
        (IDS.write(KEY) + "0", "asc", KEY, False),
        (IDS.write(KEY) + "0", "desc", KEY, True),
        (IDS.write(KEY)[:-1] + "z", "desc", 0xAF, True),
    ],
)
def test_zizq_66_a_cursor_may_be_any_text(cursor: str, order: str, after: int, inclusive: bool) -> None:
    given = Paging(start=cursor, order="desc" if order == "desc" else "asc", limit=3)
    assert given.by_key(IDS) == Page(order=given.order, after=after, inclusive=inclusive, limit=4)


@pytest.mark.parametrize(
    ("query", "rendered"),
    [
        (b"", "order=asc&limit=50"),
        (b"from=&order=desc&limit=7", "from=&order=desc&limit=7"),
        (b"status=dead,ready,scheduled,,ready", "order=asc&limit=50&status=scheduled,ready,dead"),
        (b"queue=b,a,B&type=z,y", "order=asc&limit=50&queue=B,a,b&type=y,z"),
        (b"queue=%C3%A9,z", "order=asc&limit=50&queue=z,%C3%A9"),
        (b"queue=a%26b%3Dc%23d%2525+e", "order=asc&limit=50&queue=a%26b%3Dc%23d%2525%20e"),
        (b"priority=7..7&ready_at=..&attempts=5..", "order=asc&limit=50&priority=7&ready_at=..18446744073709551615&attempts=5.."),
        (b"attempts=0..0", "order=asc&limit=50&attempts=0"),
        (b"from=a%26b", "from=a%26b&order=asc&limit=50"),
    ],
)  # fmt: skip
def test_zizq_68_links_repeat_what_is_in_effect(query: bytes, rendered: str) -> None:
    link = page(query).link("/jobs", select(query).parameters())
    assert link == f"/jobs?{rendered}"
    path, _, again = link.partition("?")
    assert page(again.encode()).link(path, select(again.encode()).parameters()) == link


def test_zizq_68_neighbours_of_a_page() -> None:
    here = page(b"from=m&limit=5&order=desc")
    assert here.after("k").link("/jobs") == "/jobs?from=k&order=desc&limit=5"
    assert here.before("l").link("/jobs") == "/jobs?from=l&order=asc&limit=5"


def test_zizq_80_what_counts_as_no_filter() -> None:
    assert select(b"").is_everything()
    assert select(b"status=&queue=,&priority=&id=&jid=").is_everything()
    assert not select(b"jid=a").is_everything()
    for query in (b"status=dead", b"queue=a", b"type=a", b"id=a", b"priority=..", b"filter="):
        assert not select(query).is_everything()


def test_states_by_anews_own_names_narrow_what_a_status_means() -> None:
    def states(query: bytes) -> object:
        return select(query).where(IdText("tag000000"), visible_at=None).states

    assert states(b"state=dead") == {State.DEAD}
    assert states(b"status=dead") == {State.DEAD, State.CANCELLED}
    assert states(b"status=dead,ready&state=cancelled,ready") == {State.CANCELLED, State.READY}
    assert states(b"status=ready&state=dead") == frozenset()
    assert select(b"state=cancelled,dead").parameters() == [("state", "dead,cancelled")]
    assert not select(b"state=dead").is_everything()
    with pytest.raises(MalformedRequest, match=r"state: .gone. is not valid; expected scheduled"):
        select(b"state=gone")
