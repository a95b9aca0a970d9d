"""Links to the lab's page, and what it takes: so much that each of its answers comes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from anew.backoff import Policy
from anew.backoff.kinds import Duration, Integer, Kind
from anew.errors import InvalidInput
from anew.lab.charts.data import MOST_RETRIES, shown_retries
from anew.lab.simulation.scenario import MAX_SEED, PAGE_JOBS

LETTERS: Final = "abcd"
"""The policies of the page and of its links, the first first."""

PAGE_CALLS: Final = 3_000_000
"""Jobs times retries that the page works out for one policy."""

_ON_PAGE: Final[dict[str, Kind]] = {
    "jobs": Integer(1, PAGE_JOBS),
    "seed": Integer(0, MAX_SEED),
    "retry": Integer(1, MOST_RETRIES),
    "over": Duration(),
    "outage": Duration(),
    "until": Duration(),
}
"""What the page takes of what a picture can be told."""


def link(forms: Sequence[Any], **more: Any) -> str:
    """Give path and query of the lab's page with the same policies; "" for what it would refuse (`beyond_page`).

    What is None of ``more``, the other fields of the page, is left out.
    """
    if beyond_page(forms, **more):
        return ""
    pairs = [
        (letter, form if isinstance(form, str) else msgspec.json.encode(form).decode())
        for letter, form in zip(LETTERS, forms, strict=False)
    ]
    pairs += [(name, str(value)) for name, value in more.items() if value is not None]
    # No brace and no quotation mark: where people chat, a link ends before one.
    return f"/lab?{urlencode(pairs, safe=':,')}"


def beyond_page(forms: Sequence[Any], **more: Any) -> str:
    """Say what of a picture the lab's page would refuse; "" if it takes all."""
    if len(forms) > len(LETTERS):
        return f"it takes {len(LETTERS)} policies at most"
    for name, kind in _ON_PAGE.items():
        if more.get(name) is None:
            continue
        try:
            kind.read(more[name], name)
        except InvalidInput:
            return f"its {name} is {kind.expected}"
    jobs = more.get("jobs")
    if jobs and any(jobs * shown_retries(Policy.from_json(form), None) > PAGE_CALLS for form in forms):
        return f"it takes {PAGE_CALLS:,} retries of a herd at most"
    return ""
