"""``anew lab``: retry policies under load, and the lab's page in a browser. One command a file."""

from __future__ import annotations

from typing import Final

import click

from anew.cli.lazy import LazyGroup

_COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "chart": (".chart", "Draw policies, in the terminal or as a file."),
    "compare": (".compare:compare_policies", "Put policies side by side: the same jobs, the same trouble."),
    "fit": (".fit:fit_policy", "Propose a policy with a stated window, first wait and number of retries."),
    "replay": (".replay", "Tell what other policies would have made of recorded attempts."),
    "open": (".page:open_lab", "Serve the lab's page to a browser."),
    "simulate": (".simulate:simulate_policy", "Let jobs fail together and see what becomes of them."),
}
"""Subcommands: see `LazyGroup`."""


class LabGroup(LazyGroup):
    """The lab opens where nothing else is asked for: ``anew lab --port 8080`` is ``anew lab open --port 8080``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the missing word before options that are not the group's own."""
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            args = ["open", *args]
        return super().parse_args(ctx, args)


@click.group(cls=LabGroup, table=_COMMANDS, package=__name__)
def lab() -> None:
    """Simulate, compare, draw and fit retry policies; open the lab in a browser (plain anew lab)."""
