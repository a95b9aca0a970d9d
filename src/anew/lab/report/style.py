"""The report's style sheet: one file without anything from elsewhere, light and dark, from a phone's width up."""

from __future__ import annotations

from typing import Final

from anew.lab.charts.colours import retry_colours

RETRIES: Final = 5
"""Retries of the herds that are drawn dot by dot."""


def _ramp(*, dark: bool) -> str:
    colours = retry_colours(RETRIES, dark=dark)
    return "".join(f"--r{retry}:{colour};" for retry, colour in enumerate(colours, start=1))


def style() -> str:
    """Give the style sheet."""
    classes = "".join(f".r{retry}{{stroke:var(--r{retry})}}" for retry in range(1, RETRIES + 1))
    return (
        f":root{{color-scheme:light dark;{_LIGHT}{_ramp(dark=False)}}}"
        f"@media (prefers-color-scheme:dark){{:root{{{_DARK}{_ramp(dark=True)}}}}}" + _RULES + classes
    )


_LIGHT: Final = (
    "--ground:#fff;--ink:#1c1f23;--quiet:#5b636d;--line:#e3e6ea;--axis:#9aa2ac;--load:#7f8a96;"
    "--ours:#0072b2;--theirs:#b34e00;--stripe:#f6f7f9;"
)
_DARK: Final = (
    "--ground:#14171a;--ink:#e8eaed;--quiet:#9aa3ad;--line:#2b3036;--axis:#6b747e;--load:#8a949f;"
    "--ours:#56b4e9;--theirs:#ee8a3c;--stripe:#1a1e22;"
)

_RULES: Final = """
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.55 system-ui,sans-serif;-webkit-text-size-adjust:100%}
main{max-width:1180px;margin:0 auto;padding:2rem 1rem 4rem}
h1{font-size:1.9rem;line-height:1.2;margin:0 0 .4rem;letter-spacing:-.01em}
h2{font-size:1.3rem;margin:3.2rem 0 .4rem;line-height:1.3}
h3{font-size:1.02rem;margin:2.2rem 0 .3rem}
p,ul,dl{max-width:46rem;margin:.5rem 0}
.lead{font-size:1.12rem;color:var(--quiet);max-width:46rem}
.quiet{color:var(--quiet);font-size:.88rem}
code{font:.9em ui-monospace,monospace;overflow-wrap:anywhere}
pre{max-width:100%;overflow-x:auto;background:var(--stripe);padding:.6rem .8rem;border-radius:6px}
nav{display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;margin:1rem 0 0;font-size:.92rem}
a{color:var(--ours)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:1rem;margin:1.6rem 0 0;padding:0;max-width:none}
.facts div{border-top:2px solid var(--ours);padding-top:.5rem}
.facts b{display:block;font-size:1.75rem;line-height:1.2;font-weight:650;font-variant-numeric:tabular-nums}
.facts span{color:var(--quiet);font-size:.9rem}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,25rem),1fr));gap:1.2rem 2rem;margin:1.2rem 0 1.8rem}
figure{margin:0;min-width:0}
figcaption{font-size:.95rem;font-weight:600;margin:0 0 .15rem}
figcaption span{font-weight:400;color:var(--quiet)}
svg{display:block;width:100%;height:auto;overflow:visible;font:11px system-ui,sans-serif}
svg text{fill:var(--quiet);font-variant-numeric:tabular-nums}
svg text.name{font-style:italic}
svg text.ours{fill:var(--ours)}
svg path{fill:none}
svg .grid{stroke:var(--line);stroke-width:.8}
svg .axis{stroke:var(--axis);stroke-width:1}
svg .ideal{stroke:var(--ink);stroke-width:1.2;stroke-dasharray:4 3}
svg .lead{stroke:var(--axis);stroke-width:.7}
svg .load{fill:var(--load)}
.ours .load{fill:var(--ours)}
svg .dot{stroke-width:2.4;stroke-linecap:round}
svg .front{stroke:var(--ours);stroke-width:1.6}
svg .point{stroke-width:7;stroke-linecap:round}
svg .point.ours{stroke:var(--ours)}
svg .point.theirs{stroke:var(--theirs)}
.wide{max-width:44rem;margin:1.2rem 0}
.key{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:.9rem;color:var(--quiet);margin:.6rem 0}
.key span{display:inline-flex;align-items:center;gap:.35rem;white-space:nowrap}
.key i{width:.75rem;height:.75rem;border-radius:50%;display:inline-block}
.scroll{overflow-x:auto;margin:.8rem 0 0}
table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums;min-width:min(100%,36rem)}
th,td{padding:.3rem 0 .3rem .75rem;text-align:right;vertical-align:top;white-space:nowrap}
thead th{white-space:normal;font-weight:600;border-bottom:1.5px solid var(--axis);vertical-align:bottom}
thead small,td small{display:block;font-weight:400;color:var(--quiet);font-size:.75em;line-height:1.35}
tbody th{font-weight:400;text-align:left;position:sticky;left:0;background:var(--ground);padding-left:0}
tbody th{min-width:8.5rem;white-space:normal}
thead th:first-child{text-align:left;padding-left:0;position:sticky;left:0;background:var(--ground)}
tbody tr{border-top:1px solid var(--line)}
tr.even th{color:var(--ours);font-weight:600}
td.off{outline:2px solid var(--theirs);outline-offset:-2px}
dt{font-weight:600;margin-top:.7rem}
dd{margin:0 0 .2rem}
@media (max-width:40rem){main{padding:1.2rem .9rem 3rem}h1{font-size:1.55rem}tbody th{min-width:7rem;max-width:9rem}}
@media print{.scroll{overflow:visible}figure,tr{break-inside:avoid}}
"""
