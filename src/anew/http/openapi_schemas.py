"""The shapes of requests and answers, as JSON Schema 2020-12."""

from __future__ import annotations

from typing import Any

from anew.backoff import ALIASES, PRESETS
from anew.http.filters import DEFAULT_LIMIT, MOST_LIMIT, STATES, U16_MAX, U32_MAX
from anew.jobs.codec import DEFAULT_PRIORITY, U64_MAX

Schema = dict[str, Any]

NAME_PATTERN = r"^[^,*?\[\]{}\\\u0000]+$"
ID_PATTERN = "^[0-9a-z]{25}$"
U16_TEXT = "(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[0-9]{1,4})"
U32_TEXT = "[0-9]{1,9}"
U64_TEXT = "[0-9]{1,19}"
F32_MAX = 3.4028234663852886e38


def ref(name: str) -> Schema:
    """Point to a shared schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def integer(most: int, about: str = "", **more: Any) -> Schema:
    """Describe a whole number from 0; one written with a zero fraction passes too."""
    return {"type": "integer", "minimum": 0, "maximum": most} | _about(about) | more


def or_null(schema: Schema) -> Schema:
    """Let null stand for an absent value."""
    return (
        schema | {"type": [schema["type"], "null"]}
        if "type" in schema
        else {"anyOf": [schema, {"type": "null"}]}
    )


def text(about: str = "", **more: Any) -> Schema:
    """Describe a text."""
    return {"type": "string"} | _about(about) | more


def record(required: str, about: str = "", **members: Schema | bool) -> Schema:
    """Describe an object; `required` names members, separated by blanks."""
    shape: Schema = {"type": "object", "properties": members} | _about(about)
    return shape | {"required": required.split()} if required else shape


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


def _instant(about: str) -> Schema:
    return integer(U64_MAX, f"{about} Milliseconds since the Unix epoch, UTC.")


NAME = text(minLength=1, maxLength=512, pattern=NAME_PATTERN)
PRIORITY = integer(U16_MAX, "Low numbers run first.")
READY_AT = integer(U64_MAX, "When it may run: milliseconds since the Unix epoch, UTC.")
RETRY_LIMIT = integer(U32_MAX, "Retries after the first run.")
PERIOD = integer(U64_MAX, "Milliseconds.")

FILTER_PARAMETERS: dict[str, Schema] = {
    # Empty items are skipped, and nothing but empty items is no condition.
    "status": list_of(text(enum=[*STATES, ""])),
    "queue": list_of(text()),
    "type": list_of(text()),
    "id": list_of(text(pattern="^(?:[0-9a-z]{25})?$")),
    "priority": span(U16_TEXT, "Priorities"),
    "ready_at": span(U64_TEXT, "Instants, epoch ms"),
    "attempts": span(U32_TEXT, "Failures reported so far"),
}

PAGING_PARAMETERS: dict[str, Schema] = {
    "order": text(enum=["asc", "desc"], default="asc"),
    "limit": {"type": "integer", "minimum": 1, "maximum": MOST_LIMIT, "default": DEFAULT_LIMIT},
}

_BACKOFF = record(
    "exponent base_ms jitter_ms",
    "Zizq's three numbers: attempts ^ exponent seconds + base_ms + random * jitter_ms * attempts.",
    exponent={"type": "number", "minimum": 0, "maximum": F32_MAX, "description": "A 32-bit float."},
    base_ms=integer(U32_MAX),
    jitter_ms=integer(U32_MAX),
)

_POLICY: Schema = {
    "description": "A retry policy in Anew's own form: a preset's name, a preset with changes, or a curve with all that "
    "follows it. `anew policy explain` shows what one means.",
    "anyOf": [
        text(enum=[*PRESETS, *ALIASES]),
        record("preset", preset=text(enum=[*PRESETS, *ALIASES])),
        record("curve", curve={"type": "object"}),
        record("phases", phases=list_of({"type": "object"}, minItems=1)),
    ],
}

_ONE_POLICY: Schema = {
    "not": {
        "required": ["backoff", "policy"],
        "properties": {"backoff": {"type": "object"}, "policy": {"type": ["object", "string"]}},
    }
}
"""A policy is given in one of its two forms."""

_RETENTION_IN = record("", completed_ms=or_null(PERIOD), dead_ms=or_null(PERIOD))

_NEW_JOB = (
    record(
        "type queue payload",
        type=NAME,
        queue=NAME,
        payload=True,
        priority=or_null(PRIORITY | {"default": DEFAULT_PRIORITY}),
        ready_at=or_null(READY_AT),
        retry_limit=or_null(RETRY_LIMIT),
        backoff=or_null(ref("Backoff")),
        policy=or_null(ref("Policy")),
        retention=or_null(_RETENTION_IN),
    )
    | _ONE_POLICY
)

_PATCH = (
    record(
        "",
        "Absent members are kept, null clears.",
        queue=NAME,
        priority=PRIORITY,
        ready_at=or_null(
            READY_AT | {"description": READY_AT["description"] + " Null makes a waiting job ready now."}
        ),
        retry_limit=or_null(RETRY_LIMIT),
        backoff=or_null(ref("Backoff")),
        policy=or_null(ref("Policy")),
        retention=or_null(_RETENTION_IN),
    )
    | _ONE_POLICY
)

_JOB = record(
    "id type queue priority status ready_at attempts",
    id=text(pattern=ID_PATTERN),
    type=text(minLength=1),
    queue=text(minLength=1),
    priority=PRIORITY,
    status=text(enum=list(STATES)),
    payload={"description": "Any JSON value; shown by take, list and get only."},
    ready_at=_instant("When it may run."),
    attempts=integer(U32_MAX, "Failures reported so far."),
    retry_limit=RETRY_LIMIT,
    backoff=ref("Backoff"),
    policy=ref("Policy"),
    dequeued_at=_instant("When it was last taken."),
    failed_at=_instant("When it last failed."),
    retention=record("", completed_ms=PERIOD, dead_ms=PERIOD),
    purge_at=_instant("When an ended job is removed."),
    completed_at=_instant("When it was completed."),
)

_STORED_JOB: Schema = {
    "allOf": [
        ref("Job"),
        record("duplicate folded", duplicate={"type": "boolean"}, folded={"type": "boolean"}),
    ]
}

_LAST_ERROR = record(
    "attempt message failed_at",
    "The latest failure; at most 1,000 characters of its message.",
    attempt=integer(U32_MAX, "1 for the first failure."),
    message=text(),
    error_type=text(),
    failed_at=_instant("When it failed."),
)

_JOB_WITH_ERROR: Schema = {"allOf": [ref("Job"), record("last_error", last_error=or_null(_LAST_ERROR))]}

_STATUS_COUNTS: dict[str, Any] = {name: integer(U64_MAX) for name in STATES}
_QUEUE_COUNTS = record(" ".join(("name", *STATES)), name=text(), **_STATUS_COUNTS)

_PAGES = record(
    "self next prev",
    "Paths that are followed as they are.",
    self=text(),
    next={"type": ["string", "null"]},
    prev={"type": ["string", "null"]},
)

_ERROR_RECORD = record(
    "attempt message dequeued_at failed_at",
    attempt=integer(U32_MAX, "1 for the first failure."),
    message=text(),
    error_type=text(),
    backtrace=text(),
    dequeued_at=_instant("When that run was taken."),
    failed_at=_instant("When it failed."),
    decision=record(
        "verdict reason",
        "What was decided then, and the arithmetic behind it.",
        verdict=text(enum=["retry", "dead"]),
        reason=text(),
        nominal_ms={"type": "number"},
        draw={"type": "number"},
        cap_ms={"type": "number"},
        wait_ms={"type": "integer"},
        due_at=_instant("When it runs again."),
    ),
)

_REDRIVE = record(
    "",
    spread={
        "description": "Period over which the jobs are spread evenly: milliseconds, or text such as `10m`.",
        "anyOf": [
            integer(36_500 * 86_400_000),
            text(pattern="^[0-9]{1,3}(?:ms|s|m|h|d)$"),
            {"type": "null"},
        ],
    },
    reset_attempts={"type": "boolean", "default": False, "description": "Begin the policies again."},
)

SCHEMAS: dict[str, Schema] = {
    "Backoff": _BACKOFF,
    "Policy": _POLICY,
    "NewJob": _NEW_JOB,
    "NewJobs": record("jobs", jobs=list_of(ref("NewJob"))),
    "Job": _JOB,
    "StoredJob": _STORED_JOB,
    "StoredJobs": record("jobs", jobs=list_of(ref("StoredJob"))),
    "JobPage": record("jobs pages", jobs=list_of(ref("Job")), pages=ref("Pages")),
    "JobErrorPage": record("jobs pages", jobs=list_of(_JOB_WITH_ERROR), pages=ref("Pages")),
    "Pages": _PAGES,
    "Patch": _PATCH,
    "Failure": record(
        "message",
        message=text("What went wrong. Each text is cut to 1,048,576 characters."),
        error_type=or_null(text("Its class, as a short name.")),
        backtrace=or_null(text("Where it went wrong.")),
        retry_at=or_null(
            READY_AT | {"description": "Run again then (epoch ms), whatever curve and limit say."}
        ),
        kill={"type": "boolean", "default": False, "description": "Do not run again."},
    ),
    "Ids": record("ids", ids=list_of(text(), minItems=1)),
    "NotFoundIds": record("not_found", not_found=list_of(text())),
    "ErrorRecord": _ERROR_RECORD,
    "ErrorPage": record("errors pages", errors=list_of(ref("ErrorRecord")), pages=ref("Pages")),
    "Redrive": _REDRIVE,
    "Count": record("count", count=integer(U64_MAX)),
    "Patched": record("patched", patched=integer(U64_MAX)),
    "Deleted": record("deleted", deleted=integer(U64_MAX)),
    "Retried": record("retried", retried=integer(U64_MAX)),
    "Queues": record("queues", queues=list_of(text())),
    "QueueCounts": record("queues", queues=list_of(_QUEUE_COUNTS)),
    "Health": record("status commit", status=text(const="ok"), commit=text(enum=["full", "relaxed"])),
    "Alive": record("status", status=text(const="ok")),
    "Version": record("version", version=text(pattern=r"^\d+\.\d+\.\d+")),
    "Error": record("error", error=text()),
    "Unsupported": record("error supported", error=text(), supported=list_of(text())),
}
"""Every shared schema by name."""
