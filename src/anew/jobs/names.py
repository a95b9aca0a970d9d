"""Which names a queue, a type and a cron entry may have, as Zizq has it."""

from __future__ import annotations

from anew.errors import InvalidJob
from anew.jobs.codec import CONFIRMATION_KEY, OWN_QUEUE, SUBSCRIPTION_KEY

_SHOWN_RESERVED = "* ? [ ] { } \\"
_RESERVED = frozenset(_SHOWN_RESERVED) - {" "}
_KNOWN_NAMES = 4_096

good_names: set[str] = set()
"""Names that have passed the rule, so that the usual ones cost one look-up; a bounded number."""


def check_name(name: str, field: str) -> None:
    """Refuse a queue's or type's name that Zizq's rule refuses.

    Raises:
        InvalidJob: In the words of that rule.
    """
    if name in good_names:
        return
    if not name:
        raise InvalidJob(f"{field} must not be empty", field=field)
    if field.endswith("queue"):
        check_not_own(name, field)
    if "," in name:
        raise InvalidJob(f"{field} must not contain ','; expected one name, got {name[:60]!r}", field=field)
    if "\0" in name:
        raise InvalidJob(f"{field} must not contain null bytes", field=field)
    for char in name:
        if char in _RESERVED:
            raise InvalidJob(
                f"{field} must not contain '{char}' (reserved); expected a name without {_SHOWN_RESERVED}, "
                f"got {name[:60]!r}",
                field=field,
            )
    check_length(name, field)
    if name != OWN_QUEUE and len(good_names) < _KNOWN_NAMES:
        good_names.add(name)


def check_not_own(queue: str, field: str) -> None:
    """Refuse the queue of deliveries: nobody but what delivers puts jobs there or takes any.

    Raises:
        InvalidJob: It is that queue.
    """
    if queue == OWN_QUEUE:
        raise InvalidJob(f"{field} must not be {queue!r}, which holds deliveries to webhooks", field=field)


def is_own_key(limit: str) -> bool:
    """Report whether a key's limit is that of a subscription: a job of it would set the bounds of its deliveries."""
    return limit.startswith((SUBSCRIPTION_KEY, CONFIRMATION_KEY))


def check_length(name: str, field: str) -> None:
    """Refuse a name that is longer than any may be."""
    if len(name.encode("utf-8", "surrogatepass")) > 512:
        raise InvalidJob(
            f"{field} must not be longer than 512 bytes, got {len(name)} characters", field=field
        )
