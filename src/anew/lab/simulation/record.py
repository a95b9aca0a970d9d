"""What happens in a simulation that goes call by call, in columns of instants."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field

from anew.lab.simulation.assembly import outcome, times
from anew.lab.simulation.outcome import SHOWN_DOTS, SHOWN_JOBS, Fresh, Outcome
from anew.lab.simulation.scenario import Scenario
from anew.lab.simulation.tally import Ends, Passage, Tally


def _column() -> array[int]:
    return array("q")


@dataclass
class Record:
    """What happened.

    Attributes:
        made: The instants of each retry's calls.
        good: How many of them succeeded.
        ends: How the herd's jobs ended.
        fresh_ends: How the fresh calls ended.
        fresh_calls: Fresh calls made.
        fresh_retries: Retries of those that failed.
        at_once: Those of them that succeeded at the first try.
        dots: The instants of each of the first jobs.
        due: When each call should have begun; this and what follows is kept where calls meet in a queue.
        offered: When each began.
        served: In which millisecond each was answered in time.
        done: In which millisecond the work for each that was not refused was done.
        abandoned: The same for those whose callers had given up.
        most_backlog: The most calls at any time that the downstream had taken in and not yet done.
    """

    made: dict[int, array[int]] = field(default_factory=dict)
    good: Counter[int] = field(default_factory=Counter)
    ends: Ends = field(default_factory=Ends)
    fresh_ends: Ends = field(default_factory=Ends)
    fresh_calls: int = 0
    fresh_retries: int = 0
    at_once: int = 0
    dots: list[list[int]] = field(default_factory=list)
    due: array[int] = field(default_factory=_column)
    offered: array[int] = field(default_factory=_column)
    served: array[int] = field(default_factory=_column)
    done: array[int] = field(default_factory=_column)
    abandoned: array[int] = field(default_factory=_column)
    most_backlog: int = 0

    @classmethod
    def of(cls, scenario: Scenario) -> Record:
        """Begin the record of a scenario."""
        return cls(dots=[[] for _ in range(min(scenario.jobs, SHOWN_JOBS))])

    def offer(self, instants: array[int]) -> None:
        """Count calls that begin when they are due."""
        self.due.extend(instants)
        self.offered.extend(instants)

    def retried(self, job: int, retry: int, at: int) -> None:
        """Count a retry that begins."""
        if retry in self.made:
            self.made[retry].append(at)
        else:
            self.made[retry] = array("q", (at,))
        self.show(job, at)

    def show(self, job: int, at: int) -> None:
        """Keep a retry's instant if it is one of those that are shown."""
        if job < len(self.dots) and len(self.dots[job]) < SHOWN_DOTS:
            self.dots[job].append(at)

    def outcome(
        self, scenario: Scenario, tally: Tally, *, passage: Passage | None = None, fresh: Fresh | None = None
    ) -> Outcome:
        """Make the outcome of it.

        Args:
            scenario: What was simulated.
            tally: Counts the calls; has not counted any.
            passage: What went through the downstream, if it was limited.
            fresh: What became of fresh calls, if there were any.
        """
        for retry, instants in sorted(self.made.items()):
            tally.add(retry, instants, self.good[retry])
        return outcome(
            scenario,
            tally,
            succeeded=self.ends.succeeded,
            dead=self.ends.dead,
            took_ms=times(self.ends.took_ms),
            last_ms=self.ends.last_ms,
            dots=self.dots,
            passage=passage,
            fresh=fresh,
        )

    def passage(self, outage_ms: int) -> Passage:
        """Give what went through the downstream."""
        taken = array("q", (at for at in self.offered if at >= outage_ms))
        return Passage(
            self.due, self.offered, taken, self.served, self.done, self.abandoned, self.most_backlog
        )

    def fresh(self) -> Fresh:
        """Give what became of the fresh calls."""
        ends = self.fresh_ends
        return Fresh(
            calls=self.fresh_calls,
            retries=self.fresh_retries,
            at_once=self.at_once,
            succeeded=ends.succeeded,
            dead=ends.dead,
            waiting=self.fresh_calls - ends.succeeded - ends.dead,
        )
