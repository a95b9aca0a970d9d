"""The shapes of requests and answers as JSON Schema 2020-12, generated from the Structs that decode and show them.

Descriptions are those Structs' docstrings. What a Struct cannot say, because the edge checks it after decoding, is added here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import cleandoc
from typing import Any

import msgspec

from anew.backoff import ALIASES, PRESETS
from anew.engine.crontab import MOST_ENTRIES
from anew.http.batches import NewBatch
from anew.http.breakers import BreakerQuestion, BreakerTerms, EndedRun, WaitingRun
from anew.http.changing import PatchBody, Redrive, Replan
from anew.http.cron_groups import NewCronGroup, NewGroupEntry, Pause, ShownGroup, ShownGroupEntry
from anew.http.crons import CronEntries, NewCronEntry
from anew.http.query_strings import DEFAULT_LIMIT, MOST_LIMIT, STATES, U16_MAX
from anew.http.render import (
    ListedJob,
    OwnJob,
    ShownDropped,
    ShownError,
    ShownJob,
    ShownLastError,
    ShownTemplate,
    ShownTies,
    ShownUnique,
    StoredJob,
)
from anew.http.reports import REPORTS, ProgressReport
from anew.http.service import NewLimit, NewRate
from anew.http.settling import Ids, JobFailure
from anew.http.tied import NewFold, NewKeyLimit, NewTiedJob, NewTies, NewUnique
from anew.jobs import State
from anew.jobs.change import Decision
from anew.jobs.codec import U64_MAX, Backoff, FailureReport, NewJob, Retention
from anew.jobs.patch import RetentionPatch
from anew.jobs.zizq_ties import MOST_KEY, Folding
from anew.jq import MOST_TEXT

Schema = dict[str, Any]

NAME_PATTERN = r"^[^,*?\[\]{}\\\u0000]+$"
ID_PATTERN = "^[0-9a-z]{25}$"
U16_TEXT = "(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[0-9]{1,4})"
U32_TEXT = "[0-9]{1,9}"
U64_TEXT = "[0-9]{1,19}"
F32_MAX = 3.4028235e38
"""The largest number that 32 bits round to a finite one, as shortest printing writes it."""

GENERATED: dict[type[msgspec.Struct], str] = {
    NewJob: "NewJob",
    Backoff: "Backoff",
    Retention: "Retention",
    PatchBody: "Patch",
    RetentionPatch: "RetentionPatch",
    Redrive: "Redrive",
    Replan: "Replan",
    Ids: "Ids",
    FailureReport: "Failure",
    JobFailure: "JobFailure",
    ShownJob: "Job",
    StoredJob: "StoredJob",
    ListedJob: "ListedJob",
    ShownTies: "Ties",
    ShownUnique: "UniqueTie",
    Folding: "Folding",
    ShownLastError: "LastError",
    ShownError: "ErrorRecord",
    ShownDropped: "DroppedRecords",
    OwnJob: "OwnJob",
    Decision: "Decision",
    NewTiedJob: "NewTiedJob",
    NewTies: "NewTies",
    NewUnique: "NewUnique",
    NewKeyLimit: "NewKeyLimit",
    NewFold: "NewFold",
    NewBatch: "NewBatch",
    NewLimit: "NewLimit",
    NewRate: "NewRate",
    CronEntries: "CronEntries",
    NewCronEntry: "NewCronEntry",
    NewCronGroup: "NewCronGroup",
    NewGroupEntry: "NewGroupEntry",
    Pause: "Pause",
    ShownGroup: "CronGroup",
    ShownGroupEntry: "CronGroupEntry",
    ShownTemplate: "CronJob",
    **{kind: kind.__name__ for kind in REPORTS.values()},
    ProgressReport: "Progress",
    BreakerQuestion: "BreakerQuestion",
    BreakerTerms: "BreakerTerms",
    EndedRun: "EndedRun",
    WaitingRun: "WaitingRun",
}
"""By Struct: what its schema is called."""


def ref(name: str) -> Schema:
    """Point to a shared schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def integer(most: int, about: str = "") -> Schema:
    """Describe a whole number from 0; one written with a zero fraction passes too."""
    return {"type": "integer", "minimum": 0, "maximum": most} | _about(about)


def or_null(schema: Schema) -> Schema:
    """Let null stand for an absent value."""
    return {"anyOf": [schema, {"type": "null"}]}


def or_unreadable(name: str) -> Schema:
    """Let what a damaged file has left stand for a shared schema."""
    return {"anyOf": [ref(name), ref("Unreadable")]}


def text(about: str = "", **more: Any) -> Schema:
    """Describe a text."""
    return {"type": "string"} | _about(about) | more


def record(required: str, **members: Schema | bool) -> Schema:
    """Describe an object; `required` names members, separated by blanks."""
    shape: Schema = {"type": "object", "properties": members}
    return shape | {"required": required.split()} if required else shape


def complete(**members: Schema | bool) -> Schema:
    """Describe an object that has all of these members."""
    return record(" ".join(members), **members)


def list_of(items: Schema, **more: Any) -> Schema:
    """Describe a list."""
    return {"type": "array", "items": items} | more


def span(number: str, about: str) -> Schema:
    """Describe a range of numbers as text."""
    return text(
        f"{about}: `N`, `A..B`, `..B` or `A..`, both ends inclusive, the low end first.",
        pattern=f"^(?:{number}|{number}\\.\\.{number}|\\.\\.{number}|{number}\\.\\.|\\.\\.)?$",
        examples=["7", "10..20", "..5", "9.."],
    )


def _about(text: str) -> Schema:
    return {"description": text} if text else {}


COUNT = integer(U64_MAX)
NAME = text(minLength=1, maxLength=512, pattern=NAME_PATTERN)

FILTER_PARAMETERS: dict[str, Schema] = {
    # Empty items are skipped, and nothing but empty items is no condition.
    "status": list_of(text(enum=[*STATES, ""])),
    "state": list_of(text(enum=[*State, ""])),
    "queue": list_of(text()),
    "type": list_of(text()),
    "id": list_of(text(pattern="^(?:[0-9a-z]{25})?$")),
    "jid": list_of(text()),
    "error_type": list_of(text()),
    "priority": span(U16_TEXT, "Priorities"),
    "ready_at": span(U64_TEXT, "Instants, epoch ms"),
    "attempts": span(U32_TEXT, "Failures reported so far"),
    "filter": text(
        "An expression of jq over payloads, such as `.user_id == 42`; a job is meant if any output is neither false nor null. "
        "At most 4096 bytes."
    ),
}

PAGING_PARAMETERS: dict[str, Schema] = {
    "order": text(enum=["asc", "desc"], default="asc"),
    "limit": {"type": "integer", "minimum": 1, "maximum": MOST_LIMIT, "default": DEFAULT_LIMIT},
}

_POLICY: Schema = {
    "description": "A retry policy in Anew's own form: a preset's name, a preset with changes, or a curve with all that "
    "follows it. `anew policy explain` shows what one means.",
    "anyOf": [
        text(enum=[*PRESETS, *ALIASES]),
        complete(preset=text(enum=[*PRESETS, *ALIASES])),
        complete(curve={"type": "object"}),
        complete(phases=list_of({"type": "object"}, minItems=1)),
    ],
}

_ONE_POLICY: Schema = {
    "not": {
        "required": ["backoff", "policy"],
        "properties": {"backoff": {"type": "object"}, "policy": {"type": ["object", "string"]}},
    }
}
"""A policy is given in one of its two forms."""

_ONE_TIE: Schema = {
    "oneOf": [
        {"properties": {"unique_key": {"type": "null"}, "unique_while": {"type": "null"}}},
        {"properties": {"unique_key": text(), "batch": {"type": "null"}}, "required": ["unique_key"]},
    ]
}
"""A key is given for one thing, and a scope for a unique one."""

_ONE_KEY: Schema = {
    "oneOf": [
        {"properties": {"unique_key": {"type": "null"}}},
        {"properties": {"unique_key": text(), "batch": {"type": "null"}}, "required": ["unique_key"]},
    ]
}
"""The same of the job of a cron entry, where a scope alone is let be."""

_NO_TIME: Schema = {"type": "null", "description": "It may run when the entry fires."}

_SPREAD: Schema = {
    "anyOf": [integer(36_500 * 86_400_000), text(pattern="^[0-9]{1,3}(?:ms|s|m|h|d)$"), {"type": "null"}]
}

_ADDED: dict[str, dict[str, Schema]] = {
    "NewJob": {
        "type": NAME,
        "queue": NAME,
        "priority": or_null(integer(U16_MAX)),
        "policy": or_null(ref("Policy")),
        "unique_key": or_null(text(maxLength=MOST_KEY)),
        "unique_while": {"enum": ["queued", "active", "exists", None], "default": "queued"},
        "batch": or_null(ref("Folding")),
    },
    "Backoff": {"exponent": {"type": "number", "minimum": -F32_MAX, "maximum": F32_MAX}},
    "Patch": {
        "queue": NAME,
        "priority": integer(U16_MAX),
        "policy": or_null(ref("Policy")),
        "retention": or_null(ref("RetentionPatch")),
    },
    "Redrive": {"spread": _SPREAD},
    "Replan": {"policy": ref("Policy"), "spread": _SPREAD},
    "Ids": {"ids": list_of(text(), minItems=1)},
    "Job": {
        "id": text(pattern=ID_PATTERN),
        "backoff": ref("Backoff"),
        "policy": or_unreadable("Policy"),
        "retention": or_unreadable("Retention"),
        "batch": ref("Folding"),
        "ties": ref("Ties"),
    },
    "Folding": {
        "key": text(maxLength=MOST_KEY),
        "when": text(maxLength=MOST_TEXT),
        "fold": text(maxLength=MOST_TEXT),
    },
    "Ties": {"unique": ref("UniqueTie")},
    "ErrorRecord": {"decision": or_unreadable("Decision")},
    "Decision": {"verdict": text(enum=["retry", "dead", "cancelled"])},
}
"""What replaces members whose Structs say less, with the description that they have there."""
_ADDED["StoredJob"] = _ADDED["Job"]
_ADDED["NewTiedJob"] = _ADDED["NewJob"]
_ADDED["NewBatch"] = {name: or_null(ref("NewTiedJob")) for name in ("on_success", "on_complete")}
_ADDED["CronEntries"] = {"entries": list_of(ref("NewCronEntry"))}
_ADDED["NewCronEntry"] = {"job": ref("NewTiedJob"), "name": NAME}
_ADDED["NewCronGroup"] = {"entries": list_of(ref("NewGroupEntry"), maxItems=MOST_ENTRIES)}
_ADDED["NewGroupEntry"] = {"job": ref("NewCronJob"), "name": NAME}
_ADDED["CronGroup"] = {"entries": list_of(ref("CronGroupEntry"))}
_ADDED["CronGroupEntry"] = {"job": ref("CronJob")}
_ADDED["CronJob"] = {name: _ADDED["Job"][name] for name in ("backoff", "policy", "retention", "batch")}
_ADDED["FailedReport"] = {"policy": ref("Policy")}
_ADDED["BreakerTerms"] = {"cooldown": ref("Policy")}
_ADDED["ListedJob"] = _ADDED["OwnJob"] = _ADDED["Job"] | {"last_error": or_null(ref("LastError"))}

_OTHER_FORM = ("unique_key", "unique_while", "batch")
"""Members of a new job in whose place `ties` stands."""


def schemas() -> dict[str, Schema]:
    """Give every shared schema by name."""
    found = generated(GENERATED, _ADDED)
    for name in _OTHER_FORM:
        del found["NewTiedJob"]["properties"][name]
    for kind in ("NewJob", "NewTiedJob", "Patch"):
        found[kind] |= _ONE_POLICY
    members = found["NewJob"]["properties"] | {"ready_at": _NO_TIME}
    found["NewCronJob"] = found["NewJob"] | {"title": "NewCronJob", "properties": members} | _ONE_KEY
    found["NewJob"] |= _ONE_TIE
    found["NewUnique"] |= _ENDS
    found["NewBatch"] |= _one_of_both(on_success=ref("NewTiedJob"), on_complete=ref("NewTiedJob"))
    found["NewKeyLimit"] |= _one_of_both(concurrency={"type": "integer"}, rate=ref("NewRate"))
    found["NewLimit"] |= _one_of_both(concurrency={"type": "integer"}, rate=ref("NewRate"))
    return found | {
        "Policy": _POLICY,
        "Unreadable": complete(unreadable=text("What a damaged file has left.")),
        "NewJobs": complete(jobs=list_of(ref("NewJob"))),
        "StoredJobs": complete(jobs=list_of(ref("StoredJob"))),
        "JobPage": complete(jobs=list_of(ref("Job")), pages=ref("Pages")),
        "ErrorPage": record(
            "errors pages",
            errors=list_of(ref("ErrorRecord")),
            pages=ref("Pages"),
            dropped=list_of(ref("DroppedRecords")),
        ),
        "Pages": complete(self=text(), next=or_null(text()), prev=or_null(text())),
        "NotFoundIds": complete(not_found=list_of(text())),
        "Failures": complete(failures=list_of(ref("JobFailure"))),
        "FailureResults": complete(results=list_of({"anyOf": [_DECIDED, _NOT_DECIDED]})),
        "NewTiedJobs": complete(jobs=list_of(ref("NewTiedJob"))),
        "Batch": complete(id=_BATCH_ID),
        "BatchCounts": complete(id=_BATCH_ID, total=COUNT, pending=COUNT, failed=COUNT),
        "Reports": complete(reports=list_of({"anyOf": [ref(GENERATED[kind]) for kind in REPORTS.values()]})),
        "ReportResults": complete(results=list_of({"anyOf": [_REPORTED, _NOT_DECIDED]})),
        "QuietStreams": complete(streams=COUNT),
        "TerminatedWorkers": complete(workers=COUNT),
        "Workers": complete(workers=list_of(_WORKER)),
        "QueueLimited": complete(name=text(), limit=or_null(_LIMIT)),
        "CronsReplaced": complete(written=list_of(text()), removed=list_of(text())),
        "CronGroupNames": complete(crons=list_of(text())),
        "CronsRemoved": complete(removed=list_of(text())),
        "BreakerAnswer": complete(
            held=list_of(complete(id=text(pattern=ID_PATTERN), ready_at=COUNT)),
            open={"type": "object", "additionalProperties": or_null(text(pattern=ID_PATTERN))},
            turned=list_of(_BREAKER),
        ),
        "Breakers": complete(breakers=list_of(_BREAKER)),
        "BreakerClosed": complete(key=text(), closed={"type": "boolean"}),
        "Count": complete(count=COUNT),
        "Patched": complete(patched=COUNT),
        "Deleted": complete(deleted=COUNT),
        "Retried": complete(retried=COUNT),
        "Replanned": complete(
            replanned=COUNT,
            sooner=COUNT,
            later=COUNT,
            unchanged=COUNT,
            kept=complete(named=COUNT, spent=COUNT),
            due=list_of(complete(within_ms=or_null(COUNT), before=COUNT, after=COUNT)),
            dry_run={"type": "boolean"},
        ),
        "ListedJobPage": complete(jobs=list_of(ref("ListedJob")), pages=ref("Pages")),
        "QueueCounts": complete(queues=list_of(_QUEUE_COUNTS)),
        "QueuePaused": complete(name=text(), paused={"type": "boolean"}),
        "Crons": complete(crons=list_of(_CRON)),
        "Queues": complete(queues=list_of(text())),
        "Health": complete(status=text(const="ok"), commit=text(enum=["full", "relaxed"])),
        "Alive": complete(status=text(const="ok")),
        "Version": complete(version=text(pattern=r"^\d+\.\d+\.\d+")),
        "Error": complete(error=text(), code=_CODE),
        "Unsupported": complete(error=text(), code=_CODE, supported=list_of(text())),
    }


_ENDS = {
    "oneOf": [
        {"properties": {"scope": text(enum=["queued", "active", "exists"]), "ends_at": {"type": "null"}}},
        {
            "properties": {"scope": text(enum=["started", "succeeded"]), "ends_at": COUNT},
            "required": ["scope", "ends_at"],
        },
    ]
}


def _one_of_both(**members: Schema) -> Schema:
    """Say that one of some members must be there, and not null."""
    return {"anyOf": [record(name, **{name: schema}) for name, schema in members.items()]}


_BATCH_ID = text(pattern=f"^b-{ID_PATTERN[1:]}")
_BREAKER = complete(
    key=text(),
    state=text(enum=["closed", "open", "half_open"]),
    runs={"type": "number"},
    failures={"type": "number"},
    opened=COUNT,
    reopens_at=or_null(COUNT),
    released_until=or_null(COUNT),
)
_WORKER = complete(
    id=text(),
    door=text(enum=["http", "faktory"]),
    state=text(enum=["running", "quiet", "terminate"]),
    connections=COUNT,
    jobs=or_null(COUNT),
    since=COUNT,
    queues=or_null(list_of(text())),
    host=or_null(text()),
    pid=or_null({"type": "integer"}),
    labels=list_of(text()),
    rss_kb=or_null({"type": "integer"}),
)
_RATE = complete(count=COUNT, per_ms=COUNT, burst=COUNT)
_LIMIT = complete(
    concurrency=or_null(COUNT), worker=or_null(COUNT), timeout_ms=or_null(COUNT), rate=or_null(_RATE)
)
_QUEUE_COUNTS = record(
    " ".join(("name", *STATES, "retrying", "cancelled", "paused", "limit")),
    name=text(),
    **dict.fromkeys(STATES, COUNT),
    retrying=integer(U64_MAX, "Of the scheduled: those that have failed before."),
    cancelled=integer(U64_MAX, "Of the dead: those that were cancelled."),
    paused={"type": "boolean"},
    limit=or_null(_LIMIT),
)
_CRON = complete(
    group=text(),
    name=text(),
    schedule=text(),
    timezone=or_null(text()),
    paused={"type": "boolean"},
    next_at=or_null(COUNT),
    last_fired_at=or_null(COUNT),
)
_CODE = text("Stable: programs match on it, not on the sentence.", pattern="^[a-z_]+$")
_DECIDED = complete(id=text(), status=text(enum=["scheduled", "dead"]), job=ref("Job"))
_REPORTED = record(
    "id state",
    id=text(),
    state=text(enum=["scheduled", "retrying", "ready", "completed", "dead", "cancelled"]),
    ready_at=COUNT,
)
_NOT_DECIDED = complete(id=or_null(text()), error=text(), code=_CODE)


def generated(
    names: Mapping[type[msgspec.Struct], str], added: Mapping[str, Mapping[str, Schema]]
) -> dict[str, Schema]:
    """Describe Structs under the names that they are known by, with their docstrings' words.

    Args:
        names: By Struct.
        added: By name what replaces members whose Structs say less.
    """
    _, found = msgspec.json.schema_components(names, ref_template=ref("{name}")["$ref"])
    return {
        name: _described(found[kind.__name__], kind, name, added.get(name, {}))
        for kind, name in names.items()
    }


def _described(schema: Schema, kind: type[msgspec.Struct], name: str, added: Mapping[str, Schema]) -> Schema:
    about, members = _words_of(kind)
    properties = {
        member: (added.get(member) or _bounded(described)) | _about(members.get(member, ""))
        for member, described in schema["properties"].items()
    }
    return schema | {"title": name, "properties": properties} | _about(about)


def _bounded(schema: Schema) -> Schema:
    """Add the bound of 64 bits to integers that have none, since msgspec's own bounds end at 63."""
    if schema.get("type") == "integer":
        return schema | {"minimum": schema.get("minimum", 0), "maximum": schema.get("maximum", U64_MAX)}
    return schema | {"anyOf": [_bounded(part) for part in schema["anyOf"]]} if "anyOf" in schema else schema


def _words_of(kind: type[msgspec.Struct]) -> tuple[str, dict[str, str]]:
    """Give what a Struct's docstring says of it, and of each of its members, those of its bases too."""
    members: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if "__doc__" in base.__dict__ and base.__doc__ and issubclass(base, msgspec.Struct):
            listed = cleandoc(base.__doc__).partition("Attributes:\n")[2]
            for found in re.finditer(r"^    (\w+): (.+(?:\n {8}.+)*)", listed, re.MULTILINE):
                members[found[1]] = _in_json(found[2])
    return _in_json(cleandoc(kind.__doc__ or "").partition("\n\n")[0]), members


def _in_json(words: str) -> str:
    """Give a docstring's words as they read beside JSON."""
    return re.sub(r"\s+", " ", words).replace("``", "`").replace("None", "null")
