"""Calls that become one job: `Debounce` puts the job off with every call, `Merge` puts the calls' arguments together.

Both fold a call into the job of its key that waits; `anew.jobs.fold` has the rules. Here stands what users say, and what of it goes
with each call: a digest of its key, and a `FoldRule`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from anew.errors import InvalidInput
from anew.jobs.codec import FoldRule
from anew.jobs.fold import call_digest, check_call
from anew.tasks.call_keys import CallKey, check_key, key_text
from anew.tasks.times import Wait, wait_ms
from anew.units import format_duration, refused

if TYPE_CHECKING:
    from anew.tasks.task import Options, Task

PERIODS: Final = 10
"""How many periods a job is put off at most where nothing else is said."""

WORDS: Final[Mapping[str, str]] = {
    "latest": "{new}",
    "first": "{existing}",
    "append": "{existing} + {new}",
    "union": "{existing} + {new} | unique",
    "sum": "{existing} + {new}",
    "max": "[{existing}, {new}] | max",
    "min": "[{existing}, {new}] | min",
}
"""What may become of an argument, in jq's language."""


@dataclass(frozen=True, slots=True)
class Debounce:
    """Calls of one key become one job, which runs when there has been no further one for a time, with the latest one's arguments.

    Args:
        period: That time.
        key: A text of which ``{name}`` is the argument of that name, or a function of the arguments. None: the task, its queue and
            all arguments; beside ``merge`` the key is that one's.
        max_wait: The job is put off for so long at most, from the first call on. None: ten periods.
    """

    period: Wait
    key: CallKey | None = field(default=None, kw_only=True)
    max_wait: Wait | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Merge:
    """Calls of one key become one job, whose arguments are made of all of theirs.

    Args:
        arguments: By name what becomes of an argument: ``"append"`` and ``"union"`` of lists, ``"sum"``, ``"max"`` and ``"min"``,
            ``"latest"`` or ``"first"``; or an expression in jq's language over ``$existing`` and ``$new``, both calls' arguments.
        key: A text of which ``{name}`` is the argument of that name, or a function of the arguments. None: the task, its queue and
            all arguments that are not named; needed beside an expression.
    """

    arguments: Mapping[str, str] | str
    key: CallKey | None = None


def read_debounce(value: object) -> Debounce:
    """Read what the option is given.

    Raises:
        InvalidInput: It does not fit.
    """
    debounce = value if isinstance(value, Debounce) else Debounce(value)  # type: ignore[arg-type]
    period = wait_ms(debounce.period, "debounce")
    if period == 0:
        raise refused(
            "debounce", debounce.period, 'a duration above 0, such as "10s", or Debounce("10s", key=...)'
        )
    if debounce.max_wait is not None and wait_ms(debounce.max_wait, "max_wait") < period:
        raise refused("max_wait", debounce.max_wait, f"at least the period, {format_duration(period)}")
    return debounce


def read_merge(value: object) -> Merge:
    """Read what the option is given.

    Raises:
        InvalidInput: It does not fit.
    """
    merge = value if isinstance(value, Merge) else Merge(value)  # type: ignore[arg-type]
    if isinstance(merge.arguments, str):
        if merge.key is None:
            raise refused(
                "merge", merge.arguments, 'a key beside an expression: Merge("$new", key="page {page}")'
            )
    elif not isinstance(merge.arguments, Mapping) or not merge.arguments:
        raise refused("merge", merge.arguments, 'arguments by name, such as {"ids": "append"}, or Merge(...)')
    else:
        for name, word in merge.arguments.items():
            if not isinstance(word, str) or word not in WORDS:
                raise refused(f"merge.{name}", word, f"one of {', '.join(WORDS)}")
    return merge


def check_folding(options: Options, task: Task[Any, Any, Any]) -> None:
    """Refuse options beside which the calls of a task cannot become one job, and arguments that it does not have.

    Raises:
        InvalidInput: They are so; says what to do.
    """
    debounce, merge = options.debounce, options.merge
    word = "debounce" if debounce is not None else "merge"
    if options.unique is not None:
        raise _conflict(
            "unique",
            word,
            f"only one of them: a call of a key that waits is folded into its job ({word}), or it is dropped",
        )
    if options.batch is not None:
        raise _conflict(
            "batch", word, f"using({word}=None, batch=...): each job of a batch is counted by itself"
        )
    if debounce is not None:
        for name, value in (("at", options.at), ("delay", options.delay_ms)):
            if value is not None:
                raise _conflict(name, "debounce", "none: the period says when the job runs")
        if merge is not None and debounce.key is not None:
            raise _conflict("debounce.key", "merge", "the key there: Merge(..., key=...)")
        check_key("debounce.key", debounce.key, task)
    if merge is not None:
        _check_merge(merge, task)


def _check_merge(merge: Merge, task: Task[Any, Any, Any]) -> None:
    check_key("merge.key", merge.key, task)
    if not task.arguments.are_named:
        raise refused(
            "merge",
            task.name,
            'a task with arguments of names, and Anew(..., serializer="json"), since JSON is merged',
        )
    if not isinstance(merge.arguments, str):
        unknown = [name for name in merge.arguments if name not in task.arguments.names]
        if unknown:
            raise refused("merge", unknown[0], f"some of the arguments {', '.join(task.arguments.names)}")


def _conflict(field: str, beside: str, expected: str) -> InvalidInput:
    return InvalidInput(f"{field}: cannot stand beside {beside}; expected {expected}", field=field)


def merged_names(merge: Merge | None) -> tuple[str, ...]:
    """Give the arguments that each call must write, also where its function has a default: they are merged by name."""
    return () if merge is None or isinstance(merge.arguments, str) else tuple(merge.arguments)


def fold_rule(debounce: Debounce | None, merge: Merge | None) -> FoldRule:
    """Give what goes with every call."""
    period = most = None
    if debounce is not None:
        period = wait_ms(debounce.period, "debounce")
        most = PERIODS * period if debounce.max_wait is None else wait_ms(debounce.max_wait, "max_wait")
    return FoldRule(quiet_ms=period, most_ms=most, merge=None if merge is None else expression_of(merge))


def expression_of(merge: Merge) -> str | None:
    """Give what makes one payload of two; None: the latest one holds."""
    if isinstance(merge.arguments, str):
        return merge.arguments
    steps = [
        f".[{name}] = ({WORDS[word].format(existing=f'$existing[{name}]', new=f'$new[{name}]')})"
        for name, word in ((json.dumps(name), word) for name, word in merge.arguments.items())
        if word != "latest"
    ]
    return " | ".join(["$new", *steps]) if steps else None


def digest_of(
    debounce: Debounce | None, merge: Merge | None, task: Task[Any, Any, Any], queue: str, payload: bytes
) -> bytes:
    """Give the digest of a call's key.

    Raises:
        InvalidInput: The key cannot be made.
        TooLarge: The call's arguments are too long to take the place of others.
    """
    check_call(len(payload))
    option, key = "debounce.key", None if debounce is None else debounce.key
    if merge is not None:
        option, key = "merge.key", merge.key
    if key is not None:
        text = key_text(option, key, task, payload)
        if not isinstance(text, str):
            raise refused(option, text, "a function that gives a text")
        return call_digest(task.name, "", text.encode("utf-8", "surrogatepass"))
    merged = merged_names(merge)
    if merged:
        given = msgspec.json.decode(payload, type=dict[str, msgspec.Raw])
        payload = msgspec.json.encode({name: value for name, value in given.items() if name not in merged})
    return call_digest(task.name, queue, payload)
