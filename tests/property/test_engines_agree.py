"""The same script on SQLite and on PostgreSQL: byte for byte the same answers, rows, payloads and records."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anew.engine import Limits, verbs
from anew.engine.batch import Batch
from anew.engine.upkeep import reap
from anew.errors import AnewError
from anew.jobs import NewJob, Retention
from anew.jobs.patch import Patch
from anew.store.postgres import open_postgres
from anew.store.selection import Filter
from anew.store.sqlite import open_sqlite
from tests.postgres import empty_database
from tests.unit.engine.rig import ALL, NOW, Rig, call, enqueue, fail, succeed, tick

SCRIPTS = 10_000 if os.environ.get("ANEW_NIGHTLY") else 15
LEASE_MS = 5_000
OWN = re.compile(r"(?:hold_(?:token|owner)|phase)=[^,)]*")

texts = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["\0", "a\0b", "\u0065\u0301", "\u00e9", "\u212b", "\ufeff", "\U0010ffff", "'; --", "\\", '"']
)
names = st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8
) | st.sampled_from(["\u0065\u0301", "\u00e9", "\u212b", "\u00c5", "%", "_", "'"])
values = st.recursive(
    st.none()
    | st.booleans()
    | texts
    | st.integers(-(10**64), 10**64)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
picks = st.integers(0, 9)


@dataclass(frozen=True)
class Step:
    """One thing that is done to both; jobs are named by their place among all that there were."""

    what: str
    pick: int = 0
    job: Any = None
    text: str = ""
    number: int = 0


new = st.builds(
    lambda type_, queue, value, priority, delay: (type_, queue, json.dumps(value).encode(), priority, delay),
    names,
    names,
    values,
    st.sampled_from([0, 32_768, 65_535]),
    st.sampled_from([None, 0, 2_000]),
)
steps = st.one_of(
    st.builds(Step, st.just("enqueue"), job=new),
    st.builds(
        Step,
        st.sampled_from(["take", "succeed", "fail", "kill", "cancel", "redrive", "delete"]),
        picks,
        text=texts,
    ),
    st.builds(Step, st.just("patch"), picks, text=names),
    st.builds(Step, st.just("wait"), number=st.sampled_from([1, 2_000, 10_000])),
)


class Both:
    """One engine, which does what a script says."""

    def __init__(self, store: Any) -> None:
        self.rig = Rig(
            store, limits=Limits(max_lease_ms=LEASE_MS, global_in_flight=0, min_free_bytes=0), dead_ms=8_000
        )
        self.rig.clock.jump(NOW - self.rig.clock.now())
        self.keys: list[int] = []
        self.first = -1

    def run(self, script: list[Step]) -> list[Any]:
        """Do it all; give what was answered, and at the end what is stored."""
        told: list[Any] = []
        for step in script:
            told.append(self.shown(self.done(step)))
            told.append(self.stored())
        return told

    def done(self, step: Step) -> Any:
        """Do one step."""
        rig, key = self.rig, self.keys[step.pick % len(self.keys)] if self.keys else 1
        match step.what:
            case "enqueue":
                type_, queue, payload, priority, delay = step.job
                at = None if delay is None else rig.clock.now() + delay
                job = NewJob(
                    type_,
                    queue,
                    msgspec.Raw(payload),
                    priority=priority,
                    ready_at=at,
                    retention=Retention(3_000, None),
                )
                entered = rig.do(enqueue(job))
                self.keys += entered.keys
                return list(entered.keys)
            case "take":
                worker = rig.worker(prefetch=2)
                rig.do(rig.leave(worker)) if step.pick % 2 else rig.engine.dispatcher.remove(worker.taker)
                return [(row[0], *row[1:6]) for row in worker.rows]
            case "succeed":
                return rig.do(succeed(key))
            case "fail" | "kill":
                return rig.do(
                    fail(key, step.text, kill=step.what == "kill", error_type=step.text, backtrace=step.text)
                )
            case "cancel":
                return rig.do(call(verbs.cancel_one(key)))
            case "redrive":
                return rig.do(call(verbs.redrive_one(key, reset_attempts=True)))
            case "delete":
                return rig.do(call(verbs.delete_one(key)))
            case "patch":
                return rig.do(call(verbs.patch_one(key, Patch(queue=step.text, priority=step.pick))))
        # Which of the two removes a job hangs on when a store was last looked through: scripts leave that behind.
        rig.advance(step.number)
        rig.do(call(tick))
        rig.do(call(reap))
        return None

    def stored(self) -> Any:
        """All jobs with their payloads and records, and the counts."""

        def verb(batch: Batch) -> Any:
            store = batch.store
            keys = store.find(Filter(), ALL)
            return [self.shown(job) for job in store.load(keys)], [
                self.shown(store.records.errors(key, ALL)) for key in keys
            ]

        counts = {
            queue: {state: n for state, n in by.items() if n}
            for queue, by in self.rig.store.queues.counts().items()
        }
        return self.rig.do(call(verb)), {queue: by for queue, by in counts.items() if by}

    def shown(self, value: Any) -> str:
        """What is compared: as it is written, with jobs by their places, and without what is each engine's own."""
        text = f"{type(value).__name__}: {value}" if isinstance(value, AnewError) else repr(value)
        for place, key in enumerate(self.keys):
            text = text.replace(str(key), f"#{place}").replace(self.rig.engine.ids.write(key), f"#{place}")
        return OWN.sub("", text)


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    store = open_postgres(empty_database(), relaxed=True)
    yield store
    store.close()


@settings(max_examples=SCRIPTS, deadline=None, suppress_health_check=list(HealthCheck))
@given(script=st.lists(steps, min_size=4, max_size=10))
def test_reliability_28_both_engines_answer_a_script_alike(database: Any, script: list[Step]) -> None:
    """Names may have no NUL, which PostgreSQL refuses by the field; payloads and the texts of failures may."""
    file, far = Both(open_sqlite()), Both(database)
    far.rig.do(call(Batch.delete_all))
    ours, theirs = file.run(script), far.run(script)
    file.rig.store.close()
    assert ours == theirs
