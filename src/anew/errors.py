"""One tree of errors, each leaf with a code that never changes.

    AnewError
      InvalidInput        the caller's mistake: field, value, expectation
        InvalidPolicy       a retry policy that cannot be built
        InvalidJob          a job, patch or failure report with a bad field
        InvalidConfig       a setting, flag, variable or file entry
        MalformedRequest    bytes that are not a request at all
        TooLarge            more bytes or items than may come at once
        BlockedAddress      an address that nothing is sent to
        InvalidExpression   an expression of jq that cannot be compiled, or does not give what it should
        ExpressionTooSlow   an expression of jq that takes more time or memory for one payload than it may
      NotFound            no such job, error record or queue
      Conflict            the state of things forbids it
        IllegalTransition   the job is not in a state from which this move is legal
        PayloadExpired      what was to be sent again is kept no longer
        CorruptRow          what is stored of it cannot be read
        ForkedStore         the store was opened by the process that this one was forked from
        NewerStore          the store was written by a newer Anew
      Expired             what was to be used once was used, or its time is over
      Unavailable         worth trying again later
        Overloaded          more work is waiting than may wait
        StoreFull           no space left for new jobs
        StoreBusy           another process holds the store
        Unreachable         no server answered
      Unauthorized        the server asks for a token, or does not know this one
      NotSupported        a part of a protocol that this build does not speak
      InternalError       ours
        StoreFailed         the disk or the database failed: what was in doubt stays in doubt
        InDoubt             the change is made, but a failover may undo it

Drivers' own exceptions stop at the store and are kept as ``__cause__``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import timedelta


class AnewError(Exception):
    """Base of every error that Anew raises on purpose.

    Attributes:
        code: Never changes.
        status: The HTTP status that stands for it.
    """

    code = "error"
    status = 500


class InvalidInput(AnewError):
    """A value that somebody gave does not fit.

    Args:
        message: The whole sentence for people; names field, value and expectation.
        field: Dotted path of the offending field, "" when there is none.
        value: The offending value as given (never logged).
    """

    code = "invalid_input"
    status = 400

    def __init__(self, message: str, *, field: str = "", value: object = None) -> None:
        super().__init__(message)
        self.field = field
        self.value = value


class InvalidPolicy(InvalidInput):
    """A retry policy cannot be built from this."""

    code = "invalid_policy"


class InvalidJob(InvalidInput):
    """A job, a patch or a failure report has a bad field."""

    code = "invalid_job"


class InvalidConfig(InvalidInput):
    """A setting does not fit."""

    code = "invalid_config"


class MalformedRequest(InvalidInput):
    """Bytes that do not form a request."""

    code = "malformed_request"


class TooLarge(InvalidInput):
    """More bytes or items than may come at once."""

    code = "too_large"
    status = 413


class BlockedAddress(InvalidInput):
    """A host, or an address that its name has, is one that nothing is sent to."""

    code = "blocked_address"


class InvalidExpression(InvalidInput):
    """An expression of jq cannot be compiled, or does not give what it should."""

    code = "invalid_expression"


class ExpressionTooSlow(InvalidInput):
    """An expression of jq takes more time or memory for one payload than it may; its evaluation was ended."""

    code = "expression_too_slow"


class NotFound(AnewError):
    """There is no such thing (any more)."""

    code = "not_found"
    status = 404


class Conflict(AnewError):
    """The present state forbids the operation."""

    code = "conflict"
    status = 409


class IllegalTransition(Conflict):
    """The job is in a state from which this move is not legal."""

    code = "illegal_transition"


class PayloadExpired(Conflict):
    """What was to be sent again is kept no longer."""

    code = "payload_expired"


class CorruptRow(Conflict):
    """What is stored of it cannot be read any more; nothing else is concerned."""

    code = "corrupt_row"


class ForkedStore(Conflict):
    """The store was opened by the process that this one was forked from; open it again."""

    code = "forked_store"

    def __init__(
        self, message: str = "the store was opened before this process was forked; open it again here"
    ) -> None:
        super().__init__(message)


class NewerStore(Conflict):
    """The store's schema is newer than this program knows."""

    code = "newer_store"


class Expired(AnewError):
    """What was to be used once was used already, or its time is over."""

    code = "expired"
    status = 410


class Unavailable(AnewError):
    """Not now; trying again later is right.

    Attributes:
        retry_after: How long the server asks to wait before the next try (its ``Retry-After``); None if it names no time.
    """

    code = "unavailable"
    status = 503
    retry_after: timedelta | None = None


class Overloaded(Unavailable):
    """More work is waiting than may wait; nothing was stored."""

    code = "overloaded"


class StoreFull(Unavailable):
    """No space for new jobs; settling goes on."""

    code = "store_full"
    status = 507


class StoreBusy(Unavailable):
    """Another process holds the store."""

    code = "store_busy"


class Unreachable(Unavailable):
    """No server answered at the address."""

    code = "unreachable"


class Unauthorized(AnewError):
    """The server asks for a token, or does not know the one it got."""

    code = "unauthorized"
    status = 401


class NotSupported(AnewError):
    """A part of a protocol that this build does not speak yet.

    403, as Zizq answers where a license is missing: its clients send again what gets a 5xx, which would never end.
    """

    code = "not_supported"
    status = 403


class InternalError(AnewError):
    """Our fault, never the caller's."""

    code = "internal_error"


class StoreFailed(InternalError):
    """The disk or the database failed; what was in doubt stays in doubt."""

    code = "store_failed"


class InDoubt(InternalError):
    """The change is made, but the database has not confirmed that it is safe: after a failover it may be gone.

    It comes in place of success, on which nobody could rely. To repeat the call is safe with a
    unique key, over HTTP with an `Idempotency-Key` too.

    Attributes:
        result: What the call would have given.
    """

    code = "in_doubt"

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result
