"""Hypothesis strategies for every policy that JSON can say."""

from typing import Any

from hypothesis import strategies as st

YEAR_MS = 365 * 86_400_000

durations = st.one_of(
    st.integers(0, YEAR_MS), st.integers(0, 100_000), st.sampled_from(["0s", "15s", "1h30m", "12.5s", "365d"])
)
numbers = st.one_of(st.floats(0, 1e12), st.floats(0, 8))
shares = st.floats(0, 1)
sources = st.sampled_from(["rng", "hash", "job"])


def _objects(required: dict[str, Any], optional: dict[str, Any] | None = None) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(required, optional=optional or {})


def _tagged(name: str, body: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(lambda inner: {name: inner}, body)


@st.composite
def _between(draw: st.DrawFn) -> Any:
    low, high = sorted((draw(st.integers(1, YEAR_MS)), draw(st.integers(1, YEAR_MS))))
    body: dict[str, Any] = {"low": low, "high": high, "retries": draw(st.integers(1, 1_000_000))}
    body["shape"] = draw(st.sampled_from(["linear", "arithmetic", "geometric", "exponential"]))
    if body["shape"] == "exponential" and draw(st.booleans()):
        body["base"] = draw(st.floats(1.0001, 1e6))
    return {"between": body}


plain_curves = st.one_of(
    _tagged("constant", durations),
    _tagged("linear", _objects({"base": durations, "step": durations})),
    _tagged(
        "power",
        _objects(
            {"exponent": numbers},
            {"base": durations, "origin": st.integers(0, 1_000), "scale": durations, "slope": durations},
        ),
    ),
    _tagged(
        "exponential",
        _objects({"base": durations}, {"factor": st.floats(1e-9, 1e6), "knee": st.integers(0, 10**9)}),
    ),
    _between(),
    _tagged("table", st.lists(durations, min_size=1, max_size=6)),
    _tagged("fibonacci", durations),
)
curves = st.recursive(
    plain_curves,
    lambda inner: st.one_of(
        _tagged("sum", st.lists(inner, min_size=1, max_size=3)),
        _tagged("scale", _objects({"by": numbers, "curve": inner})),
        _tagged(
            "stretch",
            _objects({"by": st.floats(0.001, 1e6), "curve": inner}, {"origin": st.integers(0, 1_000)}),
        ),
    ),
    max_leaves=3,
)


def _window(name: str, main: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    common = {"source": sources, "since": st.integers(1, 5)}
    die = st.one_of(
        _objects({main: values}, common),
        _objects({main: values, "faces": st.integers(1, 1_000_000)}, common),
        _objects({main: values, "step": st.integers(1, YEAR_MS)}, common),
        _objects({main: values, "cut": st.integers(1, YEAR_MS)}, common),
        _objects({main: values, "redraw": st.integers(1, YEAR_MS)}, common),
    )
    return _tagged(name, st.one_of(values, die))


@st.composite
def _any_window(draw: st.DrawFn) -> Any:
    low = {"times": draw(st.floats(0, 10)), "grow": draw(st.integers(0, 10**6)), "add": draw(durations_ms)}
    more = {"times": draw(st.floats(0, 10)), "grow": draw(st.integers(0, 10**6)), "add": draw(durations_ms)}
    high = {name: min(low[name] + more[name], YEAR_MS) for name in low}
    return {"window": {"low": low, "high": high, "source": draw(sources)}}


durations_ms = st.integers(0, YEAR_MS)
windows = st.one_of(
    st.sampled_from(["none", "full", "equal"]),
    _tagged("full", _objects({"source": sources})),
    _window("above", "share", st.floats(0, 1_000)),
    _window("below", "share", shares),
    _window("around", "share", shares),
    _window("add", "by", durations),
    _window("grow", "by", durations),
    _any_window(),
)
evens = st.one_of(
    st.just("even"),
    _tagged("even", _objects({}, {"spread": shares, "dither": shares, "detune": st.floats(0, 0.999)})),
)
decorrelated = _tagged("decorrelated", st.floats(1, 1_000))


@st.composite
def _clamped(draw: st.DrawFn, body: dict[str, Any]) -> dict[str, Any]:
    floor = draw(st.sampled_from([0, 0, 0, 1, 5_000]))
    for name in ("cap", "ceil"):
        if draw(st.booleans()):
            body[name] = draw(st.integers(max(floor, 1), YEAR_MS))
    return body | {"floor": floor}


@st.composite
def policies(draw: st.DrawFn, *, jitters: st.SearchStrategy[Any] | None = None) -> dict[str, Any]:
    """Any policy in its full form."""
    body: dict[str, Any] = {"limit": draw(st.one_of(st.none(), st.integers(0, 10**9)))}
    if draw(st.integers(0, 4)) == 0:
        counts = draw(st.lists(st.integers(0, 30), min_size=1, max_size=4))
        body["phases"] = [{"count": count, "curve": draw(curves)} for count in counts]
    else:
        body["curve"] = draw(curves)
    body["jitter"] = draw(st.one_of(windows, evens, decorrelated) if jitters is None else jitters)
    body["on_exhausted"] = draw(st.sampled_from(["dead", "discard"]))
    return draw(_clamped(body))


@st.composite
def slices(draw: st.DrawFn) -> dict[str, Any]:
    """A policy with Polly's slices, which go with one curve only."""
    curve = {"exponential": {"base": draw(durations)}}
    return draw(_clamped({"curve": curve, "jitter": "slices", "limit": None}))


units = st.floats(0, 1, exclude_max=True)
"""Numbers that chance may give."""
