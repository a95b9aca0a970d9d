"""What the report says in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from anew.lab.report.run import FULL, SEED

TITLE: Final = "How evenly do retries come back?"

LEAD: Final = (
    "When the thing that jobs call goes down, all of them fail together, and what they do next decides how it gets up "
    "again. This report lets herds of jobs fail under the best-known retry policies and under even, measures how "
    "evenly their retries come back and what that costs, and holds every figure against the published one."
)

SECTIONS: Final = (
    ("herds", "A hundred jobs, five retries"),
    ("result", "The result"),
    ("load", "What the called side feels"),
    ("front", "What evenness costs"),
    ("tables", "All figures"),
    ("how", "How it was measured"),
)


def facts(figure: Callable[[str, str, str], float], counts: dict[str, int]) -> list[tuple[str, str]]:
    """Give the numbers at the top of the page, each with what it means.

    Args:
        figure: A measured figure, by table, scheme and name.
        counts: What `anew.lab.report.tables.tally` gives.
    """

    def times(known: str, ours: str) -> str:
        return f"{figure('result', known, 'cv16') / figure('result', ours, 'cv16'):.0f}×"

    return [
        (times("sidekiq", "even_hash"), "as even as Sidekiq, with job ids in any order"),
        (times("sidekiq", "even_seq"), "as even as Sidekiq, with jobs numbered as they fail"),
        (
            f"{figure('result', 'buckets', 'rsd') / figure('result', 'even_buckets_seq', 'rsd'):.1f}×",
            "smaller deviation of the waits than buckets, at the same mean waits",
        ),
        (
            f"{counts['within_4']} of {counts['figures']}",
            f"published figures met within their error ({counts['within_2']} within two standard errors)",
        ),
    ]


HERDS: Final = (
    "A hundred jobs fail at the same moment, and again at every retry. Each row is a job, each dot one of its "
    "retries; below it, how many calls arrive together. On the left a known policy, on the right even on a curve with "
    "the same mean waits and on the same axes. Where dots stand in columns, calls come in waves; where they make a "
    "carpet, the load is flat.",
)

RESULT: Final = (
    "A thousand jobs now, and 25 retries (40 on the curve that is capped at an hour). rsd is the price: how far a wait "
    "strays from its mean. cv16 is the goods: how far the load strays from an even one, 0 being perfect. pk64 is the "
    "highest load against the ideal, and empty hours are those in which nobody asks whether the other side is back.",
)

READING: Final = (
    "Under each figure: the published one, and how far the two are apart in units of their common statistical error, "
    "σ. Point at a figure for all its digits. hash: each job's number comes from a hash of its id; seq: from a "
    "counter. A figure more than 4σ off has a frame."
)

LOAD: Final = (
    "One herd of a thousand jobs, watched through a clock that slows down as the waits grow, so that every job retries "
    "about once a gap, early and late. An even load is the dashed line at 1. Narrow dice, rolled anew at each retry, do "
    "not help for long: the gaps grow faster than the waves widen, so the waves stand out again. Dice as wide as the wait "
    "itself do (full jitter), for five times the deviation. Under even each wave begins where the one before ends.",
)

FRONT: Final = (
    "Each point is a policy: to the right the deviation that it costs, upwards the unevenness that is left, on a scale "
    "of powers. The line is even with its spread turned from 0 (no jitter at all) to 1 (waves meet without a gap). No "
    "known function gets below it: at equal deviation even is more even, at equal evenness it deviates less. "
    "Where each job rolls its own number, hashed ids included, chance ends it at the dashed line; numbers from a counter "
    "get far below.",
)

TABLES: Final = ("All published figures and ours. Rows in blue are even.",)

NOTES: Final = {
    "doubling": (
        "Decorrelated jitter without any bound has an rsd of about 185 %, which hangs on the luck of single jobs; the "
        "published 168 % is met with waits held to 4,096 s, twice the last nominal wait."
    ),
    "polynomial": (
        "Without jitter every curve gives the same figures but for the hours, which are those of Sidekiq's mean curve; so are "
        "the curves under equal, full and ±50 %. River and Rails keep their own, k⁴ and k⁴ + 2 s."
    ),
    "capped": "even with detune 0 here, so that its cap is the hour itself.",
    "chart": (
        "Constant and exponential waits are 300 s and 180 + 60·2ᵏ s, Sidekiq and buckets count from 1. Minutes and "
        "silences are counted from the failure on, so that even on a constant wait is silent for the first 150 s."
    ),
}

HOW: Final = (
    "Retry instants alone are looked at: runs take no time, nothing ever succeeds. The waits are drawn by the engine "
    "that serves jobs, in its form for many jobs at once, to the millisecond.",
)

MEASURES: Final = (
    (
        "Gaps: operational time",
        "The rate of retries falls as waits grow. A smooth monotone curve through the points (sum of the first k mean "
        "waits, k) turns clock time into gaps: about one retry per job and gap, everywhere. Figures are taken from gap 2 "
        "to gap 22 (37 with 40 retries, 9 with 12), so that the edges do not count.",
    ),
    (
        "cv, pk, idle",
        "Calls are counted in bins of 1/4, 1/16 and 1/64 gap and compared with the trend: what a large herd of the same "
        "policy makes, averaged over exactly one gap. cv is the root of the mean squared difference, divided by the mean; "
        "pk the highest count divided by the trend; idle the share of bins without any. Independent calls at random "
        "would have a cv of √(bins per gap ÷ jobs): 0.126 with 16 bins and 1,000 jobs.",
    ),
    (
        "disc, KS",
        "disc: within each gap, the largest difference between the share of jobs seen so far and an even filling of what "
        "the trend expects of that gap; the mean over the gaps. KS: the same for the whole window, against the trend.",
    ),
    (
        "rsd, max, window rsd, shrink",
        "rsd: the standard deviation of the k-th wait over the jobs, divided by its mean, averaged over all but the first "
        "retry. max: the largest deviation of any wait from the mean of its retry. window rsd: the same as rsd for the "
        "sum of a job's waits. shrink: how many waits are shorter than the one before.",
    ),
    (
        "Empty hours, worst second",
        "In plain time. Hours without a call, from the failure to the mean of the last retry but one, when the herd "
        "begins to run out; and the most jobs that ever came in the same second.",
    ),
)

PROTOCOL_TITLE: Final = "Protocol, and when a figure counts as met"


def protocol(sample: int, repeats: int, chart_repeats: int) -> tuple[str, ...]:
    """Say what was drawn."""
    return (
        f"Each figure is the mean over {repeats} herds of 1,000 jobs ({chart_repeats} herds of 100 jobs in the original "
        f"chart's setting). The mean waits and the trend behind cv, pk, disc and KS come from {sample:,} other jobs each. "
        "The published figures have 30 herds, 200, and 200,000 jobs.",
        "Two such means differ by chance. Their common error is made of the spread between herds, on both sides, of the "
        "samples behind the trend, and of the rounding of the published figure. About one figure in twenty lies beyond 2σ by "
        "chance, and one or two of all beyond 3σ; beyond 4σ it counts as not met, and another seed tells whether that "
        "was chance after all.",
        "The protocol is the published one with other random numbers. Where its wording leaves something open, the reading "
        "was taken that meets the published figures: how disc and KS use the trend, where empty hours end, which bins the "
        "trend averages over, and the bound of 4,096 s above. So there agreement says less than elsewhere. To draw it again:",
    )


def command(seed: int, sample: int) -> str:
    """Give the command that makes this page."""
    quick = "" if sample == FULL.sample else " --quick"
    return f"anew lab report{quick}" + ("" if seed == SEED else f" --seed {seed}")


def source(version: str) -> str:
    """Say where the published figures come from."""
    return (
        "Published figures: “How evenly retries come back”, docs/evenness.md of Anew; the setting with a hundred jobs is "
        "that of “Visualization of backoff functions”. "
        f"Measured by Anew {version}."
    )
