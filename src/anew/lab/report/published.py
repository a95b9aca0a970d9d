"""The published figures that the report is held against, as printed in docs/evenness.md.

They are those that ``even`` was chosen by. The last table has the setting of the chart in "Visualization of backoff
functions", with 100 jobs and 5 retries, counted from 1.

A row is a scheme's key and its figures in the order of the columns, digits as printed: how many there are says how
far the figure was rounded. ``-`` stands for a figure that was not printed.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

REPEATS: Final = 30
CHART_REPEATS: Final = 200
SAMPLE: Final = 200_000


class Column(msgspec.Struct, frozen=True):
    """One column.

    Args:
        figure: Which figure: see `anew.lab.measure.Measures.flat` and `anew.lab.report.run.chart_figures`.
        heading: What stands above it.
        unit: "%": figures are shares, printed as per cent; else the unit that they are printed in.
        note: What it is, in a few words.
    """

    figure: str
    heading: str
    unit: str
    note: str

    @property
    def factor(self) -> float:
        """From a figure to the number that is printed."""
        return {"%": 100.0, "s": 0.001}.get(self.unit, 1.0)


class Table(msgspec.Struct, frozen=True):
    """One published table.

    Args:
        key: Its name in JSON.
        title: What it shows.
        columns: What was printed.
        rows: Scheme -> figures as printed.
        jobs: Jobs of each herd.
        repeats: Herds that were averaged.
        raw: Figures in plain seconds over the whole horizon, in place of operational time.
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: dict[str, tuple[str, ...]]
    jobs: int = 1_000
    repeats: int = REPEATS
    raw: bool = False


_COLUMNS: Final = {
    column.figure: column
    for column in (
        Column("rsd", "rsd", "%", "sd of a wait ÷ its mean, retries from the second on"),
        Column("max", "max", "%", "largest deviation of a wait from its mean"),
        Column("window_rsd", "window rsd", "%", "sd of a job's whole window ÷ its mean"),
        Column("cv4", "cv4", "", "rms load error, bins of 1/4 gap"),
        Column("cv16", "cv16", "", "rms load error, bins of 1/16 gap"),
        Column("cv64", "cv64", "", "rms load error, bins of 1/64 gap"),
        Column("pk16", "pk16", "", "highest load ÷ ideal, bins of 1/16 gap"),
        Column("pk64", "pk64", "", "highest load ÷ ideal, bins of 1/64 gap"),
        Column("idle16", "idle16", "%", "share of bins of 1/16 gap without a retry"),
        Column("empty_hours", "empty hours", "%", "share of hours without a retry"),
        Column("disc", "disc", "", "how unevenly a gap fills, 0 to 1"),
        Column("ks", "KS", "", "Kolmogorov–Smirnov distance from an even stream"),
        Column("worst_second", "worst second", "%", "most jobs in one second"),
        Column("horizon_ms", "horizon", "s", "when the last retry comes"),
        Column("peak_10s", "peak, 10 s", "calls", "most calls in 10 s"),
        Column("peak_60s", "peak, 60 s", "calls", "most calls in 60 s"),
        Column("empty_minutes", "empty minutes", "%", "share of minutes without a call"),
        Column("silence_ms", "silence", "s", "longest time without a call"),
        Column("shrink", "shrink", "%", "waits shorter than the one before"),
    )
}


def _table(key: str, title: str, figures: str, text: str, **options: Any) -> Table:
    columns = tuple(_COLUMNS[name] for name in figures.split())
    rows = {}
    for line in text.strip().splitlines():
        scheme, *cells = line.split()
        assert len(cells) == len(columns), line
        rows[scheme] = tuple(cells)
    return Table(key, title, columns, rows, **options)


RESULT: Final = _table(
    "result",
    "The result: 1,000 jobs fail at 0 and at every retry",
    "rsd max cv16 pk64 empty_hours",
    """
    sidekiq             5.4   66   2.33   33.3  93.5
    even_hash           11.0  44   0.117  1.82  0
    even_seq            11.0  44   0.014  1.11  0
    spread48            5.3   20   1.01   2.2   47.6
    buckets             15.8  79   0.601  3.21  0
    even_buckets_hash   7.9   44   0.117  1.80  0
    even_buckets_seq    7.9   44   0.011  1.10  0
    full                57.7  107  0.144  1.95  0
    capped_full         57.7  108  0.139  2.05  0
    capped_even_hash    3.8   39   0.117  1.75  0
    capped_even_seq     3.8   39   0.012  1.11  0
    """,
)

POLYNOMIAL: Final = _table(
    "polynomial",
    "The known functions on polynomial curves, 25 retries",
    "rsd max window_rsd cv4 cv16 cv64 pk16 pk64 idle16 empty_hours disc ks",
    """
    no_jitter           0     0    0     1.732  3.873  7.937  16.0  64.0  93.8  95.7  1.000  .0500
    sidekiq             5.41  66   0.04  .939   2.326  4.224  8.4   33.3  68.4  93.5  .413   .0252
    sidekiq8            2.66  38   0.01  .982   2.484  4.819  8.5   33.7  77.9  94.3  .462   .0257
    zizq                3.17  50   0.03  .982   2.442  4.501  8.4   33.6  76.3  94.3  .447   .0255
    rails               4.00  7    1.33  1.001  2.203  2.404  8.3   19.6  69.3  62.1  .409   .0238
    river               5.77  10   1.91  1.000  1.857  1.939  8.2   13.6  58.8  47.4  .371   .0231
    equal               19.2  35   6.49  .540   .597   .640   2.57  3.20  3.5   0     .147   .0118
    buckets             15.8  79   2.26  .530   .601   .644   2.55  3.21  0.1   0     .142   .0107
    around50            28.8  53   9.73  .222   .268   .349   1.81  2.36  0     0     .074   .0071
    full                57.7  107  19.4  .087   .144   .264   1.44  1.95  0     0     .043   .0042
    tiles               42.3  109  5.89  .054   .122   .250   1.37  1.92  0     0     .032   .0026
    even_hash           11.0  44   5.86  .048   .117   .251   1.29  1.82  0     0     .024   .0014
    even_seq            11.0  44   5.87  .008   .014   .040   1.04  1.11  0     0     .003   .0006
    even_buckets_hash   7.9   44   4.33  .049   .117   .250   1.28  1.80  0     0     .024   .0012
    even_buckets_seq    7.9   44   4.33  .003   .011   .040   1.03  1.10  0     0     .002   .0002
    """,
)

CAPPED: Final = _table(
    "capped",
    "15 s doubling to an hour, 40 retries",
    "rsd max window_rsd cv4 cv16 cv64 pk16 pk64 idle16 disc",
    """
    capped_oban          2.75  5     0.47  .956  1.733  1.969  8.4   16.4  41.1  .332
    capped_around10      5.77  10    0.99  .689  1.137  1.185  6.9   8.4   19.1  .204
    capped_zzz_jobs      6.41  12    1.10  .648  1.047  1.094  6.5   7.6   16.8  .185
    capped_grpc          11.5  21    1.98  .495  .652   .694   3.9   4.7   9.6   .107
    capped_polly         14.4  26    2.47  .451  .534   .581   3.2   3.9   6.7   .089
    capped_polly_v2      10.5  130   0.80  .321  .428   .489   2.1   2.7   0     .111
    capped_equal         19.2  35    3.30  .355  .397   .455   2.5   3.1   2.8   .071
    capped_cenkalti      28.9  53    4.95  .166  .213   .306   1.8   2.3   0     .049
    capped_full          57.7  108   9.89  .080  .139   .260   1.45  2.05  0     .041
    capped_decorrelated  95.5  1016  46.2  .074  .133   .262   1.49  2.26  0     .047
    capped_even_hash     3.76  39    0.87  .048  .117   .248   1.28  1.75  0     .024
    capped_even_seq      3.76  38    0.87  .006  .012   .040   1.04  1.11  0     .003
    """,
)

DOUBLING: Final = _table(
    "doubling",
    "1, 2, 4 … s without a cap, 12 retries",
    "rsd cv16",
    """
    doubling_polly_v2      44.6  .124
    doubling_full          57.8  .176
    doubling_equal         19.2  .852
    doubling_decorrelated  168   .113
    doubling_even_hash     20.0  .118
    doubling_even_seq      20.1  .017
    """,
)

FRONT: Final = _table(
    "front",
    "The front: how much spread w costs, and what it buys",
    "rsd max window_rsd cv16 cv64 pk64 idle16 empty_hours",
    """
    no_jitter  0     0   0     3.87   7.94   64    93.8  95.7
    spread10   1.1   4   0.59  2.646  2.929  10.4  87.5  86.0
    spread25   2.8   10  1.47  1.724  1.725  4.19  68.8  71.1
    spread48   5.3   20  2.8   1.007  1.029  2.23  49.6  47.6
    spread75   8.3   32  4.41  .551   .567   1.46  18.8  21.1
    spread90   9.9   39  5.29  .294   .324   1.22  2.9   6.2
    even_seq   11.0  44  5.87  .014   .040   1.11  0     0
    """,
)

WORST: Final = _table(
    "worst_second",
    "The worst second of the whole run",
    "worst_second",
    """
    sidekiq            5.0
    buckets            5.9
    even_seq           3.3
    even_buckets_seq   6.8
    """,
)

CHART: Final = _table(
    "chart",
    "The original chart's own setting: 100 jobs, 5 retries, in plain seconds",
    "horizon_ms peak_10s peak_60s empty_minutes silence_ms rsd max shrink",
    """
    chart_constant          1500  100   100    80    300   0     0   0
    chart_constant_even     1648  4.0   20.9   7     152   0     0   12.5
    chart_exponential       4620  100   100    93.5  2100  0     0   0
    chart_exponential_even  6609  4.0   18.8   1.8   152   15.6  35  0
    chart_sidekiq           1548  23.0  77.9   23.1  392   18.9  61  5.3
    chart_sidekiq_hash      2046  21.7  74.0   0.2   58    20.7  43  0
    chart_sidekiq_even      2055  18.8  73.1   0     23    20.8  43  0
    chart_buckets           691   44.5  169.6  0     29    34.9  80  12.6
    chart_buckets_hash      678   43.7  158.9  0     16    17.7  43  0
    chart_buckets_even      680   43.7  158.6  0     7     17.8  43  0
    """,
    jobs=100,
    repeats=CHART_REPEATS,
    raw=True,
)

TABLES: Final = (RESULT, POLYNOMIAL, CAPPED, DOUBLING, FRONT, WORST, CHART)
