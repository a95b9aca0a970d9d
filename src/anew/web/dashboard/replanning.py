"""A form that gives jobs that wait for a retry the times of another policy. It shows those before it changes anything."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import msgspec

from anew.backoff import policy_from_json
from anew.engine.replanning import WITHIN_MS, Plan, Replanning, replannable
from anew.http.api import Context
from anew.http.bulk import ManyJobs
from anew.http.formats import Format
from anew.http.query_strings import Selection, query_pairs
from anew.http.router import Router
from anew.net.seam import Request
from anew.units import format_duration, parse_duration
from anew.web.dashboard.actions import chosen_jobs
from anew.web.dashboard.pages import UI
from anew.web.dashboard.replies import go_to, later, paged, show

MOST_BYTES: Final = 64 << 10
"""Bytes of the form, which has a policy in it."""

PATH: Final = UI + "/replan"


class ReplanForm:
    """Asks for a policy, shows what it comes to, and then has it done."""

    def __init__(self, context: Context) -> None:
        self._reads = context.reads
        self._ids = context.engine.ids
        self._many = ManyJobs(context)

    def ask(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show the empty form, for the jobs that the address's filters mean."""
        self._show(request, form, chosen_jobs(request), {}, None)

    def send(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show the times of the form's policy, or, once they have been shown, give them to the jobs."""
        given = query_pairs(request.body, {"policy", "spread", "apply"})
        chosen = chosen_jobs(request)
        spread_ms = parse_duration(given["spread"], field="spread") if given.get("spread") else 0
        change = Replanning(_policy(given.get("policy", "")), spread_ms, dry_run="apply" not in given)

        def done(_: int) -> None:
            if change.dry_run:
                self._show(request, form, chosen, given, change.plan)
            else:
                go_to(
                    request,
                    f"{UI}/jobs?{chosen.query()}",
                    "replan",
                    change.plan.replanned,
                )

        where = replannable(chosen.where(self._ids, visible_at=None))
        self._many.change(
            None if change.dry_run else "replanned",
            where,
            chosen.expression,
            change,
            lambda: request.hung_up,
            later(request, form, done),
            counted=spread_ms > 0,
        )

    def _show(
        self,
        request: Request,
        form: Format,
        chosen: Selection,
        given: dict[str, str],
        plan: Plan | None,
    ) -> None:
        show(self._reads, request, form, "replan.html", partial(_shown, chosen, given, plan))


def _shown(chosen: Selection, given: dict[str, str], plan: Plan | None) -> dict[str, Any]:
    return {
        "here": UI + "/jobs",
        "query": chosen.query(),
        "policy": given.get("policy", ""),
        "spread": given.get("spread", ""),
        "plan": plan,
        "due": [] if plan is None else _due(plan),
    }


def _due(plan: Plan) -> list[tuple[str, int, int]]:
    """Give when how many jobs are due: in words, as it is and as it would be."""
    words = ["now", *(f"within {format_duration(bound)}" for bound in WITHIN_MS[1:]), "later"]
    rows = zip(words, plan.due_before, plan.due_after, strict=True)
    return [row for row in rows if row[1] or row[2]]


def _policy(text: str) -> bytes:
    """Read a policy as people type it: JSON, or the name of a preset.

    Raises:
        InvalidPolicy: It is neither.
    """
    policy = text.strip()
    stored = policy.encode() if policy.startswith("{") else msgspec.json.encode(policy)
    policy_from_json(stored)
    return stored


def add_routes(router: Router, context: Context) -> None:
    """Serve the form."""
    form = ReplanForm(context)
    router.add("GET", PATH, paged(form.ask), streams=True)
    router.add("POST", PATH, paged(form.send), streams=True, most_bytes=MOST_BYTES)
