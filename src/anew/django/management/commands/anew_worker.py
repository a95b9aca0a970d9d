"""``manage.py anew_worker``: `anew worker` for the project's application."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError


class Command(BaseCommand):  # type: ignore[misc]
    """Runs the project's jobs; its options are those of `anew worker`."""

    help = "Run the project's jobs. Its options are those of: anew worker --help"

    def run_from_argv(self, argv: list[str]) -> None:
        """Check the project, and run a worker with whatever options follow."""
        from anew.cli import main

        try:
            self.check()
        except CommandError as error:
            self.stderr.write(str(error))
            sys.exit(1)
        sys.argv = ["anew", "worker", "anew.django:app", *argv[2:]]
        main()

    def handle(self, *args: Any, **options: Any) -> None:
        """Run a worker without options."""
        self.run_from_argv(["manage.py", "anew_worker"])
