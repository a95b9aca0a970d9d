"""Templates to pages: everything that is put into one is escaped."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from anew.jobs import State
from anew.web.dashboard.shown import payload_text
from anew.web.templates import templates_of

if TYPE_CHECKING:
    from jinja2 import Environment

PAGES: Final = {
    "/ui": "Overview",
    "/ui/jobs": "Jobs",
    "/ui/queues": "Queues",
    "/ui/failures": "Failures",
    "/ui/workers": "Workers",
    "/ui/crons": "Cron",
    "/ui/webhooks": "Webhooks",
    "/ui/limits": "Limits",
    "/ui/server": "Server",
    "/lab": "Lab",
}
"""What stands at the head of every page."""

DONE: Final = {
    "retry": ("The job is ready again.", "{} jobs are tried again."),
    "run": ("The job is ready now.", "{} jobs are ready now."),
    "replan": ("", "{} jobs are planned again."),
    "cancel": ("The job is cancelled.", "{} jobs are cancelled."),
    "delete": ("The job is deleted.", "{} jobs are deleted."),
    "pause": ("Paused.", ""),
    "resume": ("Resumed.", ""),
    "quiet": ("The worker gets no more jobs.", ""),
    "terminate": ("The worker is told to end with its next heartbeat.", ""),
    "fire": ("The entry has enqueued its job.", ""),
    "disable": ("Disabled.", ""),
    "enable": ("Enabled. What it has missed is sent by: Send again.", ""),
    "ask": ("The endpoint is asked again whether it wants the messages.", ""),
    "replay": ("They are sent again, the oldest first.", ""),
    "test": ("A test message is on its way. Look again to see what became of it.", ""),
    "send": ("The delivery is on its way.", ""),
    "stop": ("The delivery is cancelled.", ""),
    "close": ("The breaker is closed.", ""),
}
"""What an action says when it is done: of one, of many. An address names it by its key: a link cannot put words into a page."""


def render(template: str, **shown: Any) -> bytes:
    """Make a page; the first one takes longer, since templates are compiled."""
    return _environment().get_template(template).render(shown).encode("utf-8", "replace")


def done_words(given: str, number: str) -> str:
    """Give what an action has come to, from the address of the page behind it; "" if it names none."""
    if given not in DONE:
        return ""
    one, many = DONE[given]
    return (
        many.format(f"{int(number):,}") if number.isascii() and number.isdigit() and len(number) < 16 else one
    )


@lru_cache(maxsize=1)
def _environment() -> Environment:
    made = templates_of("anew.web.dashboard")
    made.filters["number"] = lambda value: f"{value:,}"
    made.filters["payload"] = payload_text
    made.filters["word"] = lambda text: text.replace("_", " ")
    made.globals |= {
        "pages": PAGES,
        "states": [str(state) for state in State],
    }
    return made
