"""What became of deliveries that were sent: attempts, jobs, deliveries and endpoints' health are written in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from anew.engine.batch import Batch
from anew.errors import CorruptRow
from anew.jobs import Change, Failed, Job, Snoozed, State
from anew.jobs.key_limits import OPEN, Gate
from anew.store.topics import AttemptRow, DeliveryRow, DeliveryStatus, TopicRow
from anew.topics.attempts import Attempt, attempt_row, ended, unanswered
from anew.topics.confirmation import TRIGGER, granted_rate, is_echo, token_of
from anew.topics.counting import LATENCIES, RETRIES, SECONDS, Tally
from anew.topics.documents import is_readable, subscription_document, topic_document
from anew.topics.exchange import Answer
from anew.topics.health import after_attempt
from anew.topics.outcome import Verdict, judge
from anew.topics.publishing import TEST, died, gate_of, health_of, publish_event_of
from anew.topics.registry import confirmed, disabled
from anew.topics.taking import Assignment
from anew.topics.terms import TopicTerms, limit_name

AGAIN_MS: Final = 5_000
"""After how long a delivery is tried again that failed by a fault of our own."""


SOON_MS: Final = 1_000
"""After how long one is tried that found no slot."""


class Sent(NamedTuple):
    """An assignment, and what came of it.

    Attributes:
        answer: None: it was cut off, because its dispatcher was stopped.
        headers: The names of those that were sent.
        digest: Of the body.
    """

    assignment: Assignment
    answer: Answer | None
    headers: tuple[str, ...] = ()
    digest: str = ""


def settle(batch: Batch, terms: TopicTerms, sent: Sequence[Sent]) -> None:
    """Write what became of deliveries, in an open transaction."""
    if sent:
        _Settling(batch, terms, sent).write()


def put_back(batch: Batch, given: Sequence[Assignment]) -> None:
    """Put deliveries back that were taken and not begun; nothing goes to their endpoints before `SOON_MS` is over.

    If only these waited, each would make room for the next one of its endpoint, and a long line of those would hold up all others.
    """
    if not given:
        return
    held = batch.store.held_under([(one.delivery.job, one.token) for one in given])
    soon = Snoozed(
        ready_at=batch.now + SOON_MS,
        reason="endpoints that fail or are slow have half of the slots",
        outcome="held",
    )
    batch.settle([batch.decide_outcome(job, soon) for job in batch.in_flight([key for key, _ in held])])
    batch.store.topics.drop_attempts([(one.delivery.id, one.number) for one in given])
    rows = batch.store.topics.subscriptions(list({one.subscription.id for one in given}), batch.now)
    open_ones = [row.id for row in rows.values() if gate_of(row, batch.now) == OPEN]
    batch.hooks.blocking.gate({limit_name(id_): Gate(batch.now + SOON_MS) for id_ in open_ones})


class _Settling:
    """What became of some deliveries.

    Args:
        batch, terms: The transaction, and what holds.
        sent: The deliveries; those whose jobs are held no longer, as somebody has cancelled them, have their attempts noted alone.
    """

    def __init__(self, batch: Batch, terms: TopicTerms, sent: Sequence[Sent]) -> None:
        self._batch = batch
        self._terms = terms
        self._sent = sent
        rows = batch.store.topics
        self._held = batch.store.held_under(
            [(one.assignment.delivery.job, one.assignment.token) for one in sent]
        )
        self._jobs = {job.key: job for job in batch.in_flight([key for key, _ in self._held])}
        self._deliveries = rows.deliveries([one.assignment.delivery.id for one in sent])
        before = rows.subscriptions(list({one.assignment.subscription.id for one in sent}), batch.now)
        self._before = {id_: row for id_, row in before.items() if is_readable(row.document)}
        self._now = dict(self._before)
        self._delivered: list[int] = []
        self._given_back: list[int] = []
        self._changes: list[Change] = []
        self._written: list[DeliveryRow] = []
        self._dead: list[tuple[DeliveryRow, Assignment, str]] = []
        self._tally = Tally()
        self._excerpts: dict[str, bool] = {}

    def write(self) -> None:
        """Decide about all, and write it."""
        batch, rows = self._batch, self._batch.store.topics
        attempts = [self._settled(one) for one in self._sent]
        rows.write_attempts(attempts)
        batch.finish(self._delivered)
        if self._changes:
            batch.settle(self._changes)
        if self._given_back:
            batch.release(self._given_back, None)
        rows.write_deliveries(self._written)
        for row, given, reason in self._dead:
            died(batch, self._terms, row, given.message, given.subscription, reason)
        self._write_health()
        self._tally.write(batch)

    def _settled(self, sent: Sent) -> AttemptRow:
        """Decide about one; give the row of its attempt."""
        given, answer = sent.assignment, sent.answer
        delivery = self._deliveries.get(given.delivery.id)
        job = self._jobs.get(given.delivery.job)
        if (given.delivery.job, given.token) not in self._held or delivery is None:
            job = None
        document = Attempt(
            trigger=given.delivery.trigger,
            outcome="interrupted",
            url=given.subscription.endpoint,
            dispatcher=self._batch.store.session,
            answer=self._kept(given, answer),
            sent=sent.headers,
            digest=sent.digest,
        )
        if answer is None:
            kept = unanswered(given.started_at, self._batch.now)
            document = replace(document, error="interrupted", answer=kept)
            if job is not None:
                self._given_back.append(job.key)
                self._written.append(replace(delivery or given.delivery, attempts=given.number))
                document = replace(document, next_at=self._batch.now, cause="deferral")
            return attempt_row(given.delivery.id, given.number, given.started_at, document)
        policy = given.policy
        verdict = judge(answer, policy.retry, policy.health.disable_on_gone, self._batch.now)
        next_at = cause = None
        if job is not None and delivery is not None:
            verdict, next_at, cause = self._decide(given, answer, delivery, job, verdict)
        self._note_health(given, verdict)
        self._count(given, answer, verdict)
        document = replace(document, outcome=verdict.kind, error=verdict.error, next_at=next_at, cause=cause)
        return attempt_row(given.delivery.id, given.number, given.started_at, document)

    def _decide(
        self, given: Assignment, answer: Answer, row: DeliveryRow, job: Job, verdict: Verdict
    ) -> tuple[Verdict, int | None, str | None]:
        """Decide what becomes of a delivery; give the verdict, when it is tried again, and why then."""
        now, terms = self._batch.now, self._terms
        row = replace(row, attempts=given.number)
        if verdict.kind == "delivered":
            self._delivered.append(job.key)
            self._written.append(ended(row, DeliveryStatus.DELIVERED, now, terms))
            if row.trigger == TRIGGER:
                self._confirm(given, answer)
            elif row.trigger != "scheduled" and given.message.type != TEST:
                write = self._batch.ids.write
                ids = {"delivery_id": f"dlv_{write(row.id)}", "message_id": f"msg_{write(row.message)}"}
                publish_event_of(self._batch, terms, given.subscription, "delivery.recovered", **ids)
            return verdict, None, None
        if verdict.kind == "ours":
            change = self._batch.decide_outcome(
                job, Snoozed(ready_at=now + AGAIN_MS, reason=verdict.error or "")
            )
            self._changes.append(change)
            self._written.append(replace(row, cause="deferral"))
            return verdict, change.ready_at, "deferral"
        change, cause, reason = self._failed(given, job, verdict)
        self._changes.append(change)
        if change.state is not State.DEAD:
            self._written.append(replace(row, cause=cause))
            return verdict, change.ready_at, cause
        self._written.append(ended(row, DeliveryStatus.DEAD, now, terms, reason))
        self._dead.append((row, given, reason))
        return replace(verdict, kind="dead"), None, None

    def _failed(self, given: Assignment, job: Job, verdict: Verdict) -> tuple[Change, str, str]:
        """Decide about a failed attempt; give the change, why the next one comes when it does, and why it would be dead."""
        decide, now = self._batch.decide, self._batch.now
        is_last = verdict.kind == "dead" or given.delivery.trigger == "once"
        failed = Failed(message=verdict.error or "", error_type="Delivery", kill=is_last)
        change = decide(job, failed)
        # Dead before its retries are spent: by the deadline of a policy of its own.
        early = not is_last and change.attempts <= len(given.policy.retry.delays_ms)
        cause, reason = "policy", verdict.dead_reason or ("expired" if early else "exhausted")
        earliest = now + verdict.wait_at_least_ms
        if change.state is not State.DEAD and (change.ready_at or 0) < earliest:
            change, cause = decide(job, replace(failed, retry_at=earliest, limited=True)), verdict.cause
        if change.state is not State.DEAD and (change.ready_at or 0) > given.deadline_at:
            change, reason = decide(job, replace(failed, kill=True)), "expired"
        return change, cause, reason

    def _confirm(self, given: Assignment, answer: Answer) -> None:
        """An endpoint has taken the question; its answer may be the consent."""
        row = self._now.get(given.subscription.id)
        if row is None or row.status != "unconfirmed":
            return
        document = subscription_document(row.document)
        rate = None
        if document.handshake == "cloudevents":
            consents, rate = granted_rate(answer, self._terms.origin)
        else:
            consents = is_echo(answer, token_of(self._batch, row))
        if consents:
            self._now[row.id] = self._before[row.id] = confirmed(self._batch, self._terms, row, rate)

    def _count(self, given: Assignment, answer: Answer, verdict: Verdict) -> None:
        topic, tally = given.message.topic, self._tally
        kind = "error" if answer.status is None else f"{answer.status // 100}xx"
        tally.add("attempts", topic, verdict.kind, kind)
        tally.observe("attempt_seconds", answer.duration_ms / 1_000, SECONDS)
        if answer.error == "blocked_address":
            tally.add("ssrf_blocked")
        if verdict.kind == "delivered":
            tally.add("deliveries", topic, "delivered")
            tally.observe("latency_seconds", (self._batch.now - given.message.due_at) / 1_000, LATENCIES)
            tally.observe("retry_index", given.number - 1, RETRIES)

    def _kept(self, given: Assignment, answer: Answer | None) -> Answer | None:
        """Give what is kept of an answer: nothing that tells a token, and no excerpt where the topic says so."""
        if answer is None:
            return None
        if given.delivery.trigger == TRIGGER:
            return replace(answer, excerpt="", headers={})
        name = given.message.topic
        if name not in self._excerpts:
            row = self._batch.store.topics.topic(name)
            self._excerpts[name] = row is None or _keeps_excerpts(row)
        return answer if self._excerpts[name] else replace(answer, excerpt="")

    # -- health

    def _note_health(self, given: Assignment, verdict: Verdict) -> None:
        """Note how an endpoint has done. What is our own fault, or our guard's, says nothing about it."""
        row = self._now.get(given.subscription.id)
        says_nothing = verdict.kind == "ours" or verdict.dead_reason in ("blocked_address", "invalid_request")
        if row is None or says_nothing or given.delivery.trigger == TRIGGER:
            return
        if row.endpoint != given.subscription.endpoint:  # the subscription has got another one meanwhile
            return
        batch, terms = self._batch, self._terms
        before = health_of(row.health)
        ok = verdict.kind == "delivered"
        checkup = after_attempt(
            before, given.policy.health, ok, given.started_at, batch.now, verdict.spare_ms
        )
        if checkup.state != before:
            row = replace(row, health=msgspec.json.encode(checkup.state))
        if checkup.opened:
            publish_event_of(batch, terms, row, "subscription.failing", failures=checkup.state.failures)
        if checkup.warning is not None:
            publish_event_of(batch, terms, row, "subscription.failing", percent=checkup.warning)
        reason = verdict.disables or ("failing" if checkup.disabled else None)
        if reason is not None and row.status != "disabled":
            row = disabled(row, reason, batch.now)
            publish_event_of(batch, terms, row, "subscription.disabled", reason=reason)
        self._now[row.id] = row

    def _write_health(self) -> None:
        changed = [row for row in self._now.values() if row is not self._before[row.id]]
        if not changed:
            return
        self._batch.store.topics.write_subscriptions(changed)
        now = self._batch.now
        turned = {
            limit_name(row.id): gate
            for row in changed
            if (gate := gate_of(row, now)) != gate_of(self._before[row.id], now)
        }
        if turned:
            self._batch.hooks.blocking.gate(turned)


def _keeps_excerpts(topic: TopicRow) -> bool:
    try:
        return topic_document(topic.document).excerpts
    except CorruptRow:  # it may have said no
        return False
