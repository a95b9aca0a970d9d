"""What Zizq's producers say of a job's tie: how it becomes one, and how it is given back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anew.errors import InvalidJob
from anew.fwp.jobs import meta_of
from anew.jobs import State
from anew.jobs.carried import carrying, is_carried, read_carried, result_of
from anew.jobs.codec import JobHooks, NewJob, PushedJob, UniqueKey
from anew.jobs.fold import fold_digest
from anew.jobs.unique import Scope, text_digest
from anew.jobs.zizq_ties import Folding, Said, beside_said, result_beside, said_of, tied

from .helpers import make_job


def new_job(**fields: Any) -> NewJob:
    if "batch" in fields:
        fields["batch"] = msgspec.Raw(msgspec.json.encode(fields["batch"]))
    return NewJob("t", "q", msgspec.Raw(b"1"), priority=7, **fields)


def as_pushed(**fields: Any) -> PushedJob:
    job = tied(new_job(**fields))
    assert isinstance(job, PushedJob)
    return job


def test_a_job_that_says_nothing_is_left_as_it_is() -> None:
    job = new_job()
    assert tied(job) is job


@pytest.mark.parametrize("scope", ["queued", "active", "exists"])
def test_a_unique_key_becomes_a_tie_and_is_remembered(scope: str) -> None:
    job = as_pushed(unique_key="k", unique_while=scope)
    assert job.hooks == JobHooks(unique=UniqueKey(text_digest("k"), Scope(scope)))
    assert msgspec.structs.asdict(said_of(job.meta)) == {
        "unique_key": "k",
        "unique_while": scope,
        "batch": None,
    }
    assert (job.type, job.queue, bytes(job.payload), job.priority, job.jid) == ("t", "q", b"1", 7, "")


def test_the_usual_scope_is_queued_and_is_said() -> None:
    assert said_of(as_pushed(unique_key="").meta) == Said(unique_key="", unique_while="queued")


def test_the_job_of_a_cron_entry_may_say_a_scope_without_a_key() -> None:
    job = new_job(unique_while="exists")
    assert tied(job, template=True) is job
    with pytest.raises(InvalidJob, match='invalid unique_while: "ever"'):
        tied(new_job(unique_while="ever"), template=True)
    batch = {"key": "k", "when": "true", "fold": "$new"}
    job = tied(new_job(unique_while="active", batch=batch), template=True)
    assert isinstance(job, PushedJob)
    assert said_of(job.meta) == Said(batch=Folding("k", "true", "$new"))


def test_a_batch_becomes_a_key_to_fold_by() -> None:
    batch = {"key": "k", "when": "true", "fold": "$new", "more": 1}
    job = as_pushed(batch=batch)
    assert job.hooks == JobHooks(fold=fold_digest("k"))
    assert said_of(job.meta) == Said(batch=Folding("k", "true", "$new"))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"unique_while": "active"}, "unique_while"),
        ({"unique_key": "k", "unique_while": "Active"}, "unique_while"),
        ({"unique_key": "ü" * 2_049}, "unique_key"),
        ({"unique_key": "k", "batch": {"key": "k", "when": "true", "fold": "$new"}}, "unique_key"),
        ({"batch": {"key": "k", "when": "true"}}, "batch"),
        ({"batch": {"key": 1, "when": "true", "fold": "$new"}}, "batch"),
        ({"batch": {"key": "x" * 4_097, "when": "true", "fold": "$new"}}, "batch.key"),
    ],
)
def test_what_does_not_fit_names_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        tied(new_job(**fields))
    assert caught.value.field == field


EMPTY = b' ["",0,null,"",0,"",null,0,'


@pytest.mark.parametrize(
    "meta",
    [
        None,
        b"",
        b"[]",
        b' ["",0,{"a":"b"}]',
        EMPTY + b"7]",
        EMPTY + b'{"unique_key":7}]',
        EMPTY,
        b'"a result"',
    ],
)
def test_of_any_other_meta_nothing_was_said(meta: bytes | None) -> None:
    assert said_of(meta) == Said()


def test_the_other_readers_of_a_meta_can_read_it() -> None:
    """The Faktory door shows such a job too, and it carries nothing and has no result."""
    meta = as_pushed(unique_key="k").meta
    assert (meta_of(meta).failure, bytes(meta_of(meta).custom)) == (None, b"null")
    assert (is_carried(meta), read_carried(meta)) == (True, {})
    assert carrying([as_pushed(unique_key="k")], {}) == [as_pushed(unique_key="k")]


@pytest.mark.parametrize("result", [b"null", b"[1,2]", b'"]"', b'{"a":[]}'])
def test_a_result_stands_behind_what_was_said(result: bytes) -> None:
    said = as_pushed(batch={"key": "k", "when": "true", "fold": "$new"}).meta
    kept = beside_said(said, result)
    assert said_of(kept) == said_of(said)
    assert result_of(make_job(state=State.COMPLETED, meta=kept)) == result
    assert result_of(make_job(state=State.COMPLETED, meta=said)) is None


@pytest.mark.parametrize("meta", [None, b"", b' ["",0,{"traceparent":"00"}]'])
def test_without_anything_said_a_result_stands_alone(meta: bytes | None) -> None:
    assert beside_said(meta, b"7") == b"7"


def test_damaged_words_give_no_result() -> None:
    kept = beside_said(as_pushed(unique_key="k").meta, b"7").replace(b'"k"', b'"k')
    assert result_beside(kept) is None
    assert said_of(kept) == Said()
