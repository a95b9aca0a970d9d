"""What the JSON form refuses, each with the whole of its message."""

# ruff: noqa: E501 (a refusal and its whole message stand on one line)

import math
from typing import Any

import pytest

from anew.backoff import Even, Policy, Power, policy_from_json
from anew.backoff.policy import MAX_POLICY_BYTES
from anew.errors import InvalidPolicy

CURVES = "constant, linear, power, exponential, between, table, fibonacci, sum, scale, stretch"
JITTERS = "none, full, equal, above, below, around, add, grow, up_to, window, decorrelated, slices, even"
FIELDS = "curve, phases, cap, jitter, floor, ceil, limit, deadline, on_deadline, on_exhausted, override"
SHORT_FORMS = "max_attempts, preset, base_ms, exponent, jitter_ms"
DURATION = 'a duration from 0 to 365d such as "15s", or whole milliseconds'
C: dict[str, Any] = {"curve": {"constant": "10s"}}


def curve(**body: Any) -> dict[str, Any]:
    return {"curve": body}


def jitter(body: Any) -> dict[str, Any]:
    return C | {"jitter": body}


def power(**fields: Any) -> dict[str, Any]:
    return {"curve": {"power": {"exponent": 4} | fields}}


def between(**fields: Any) -> dict[str, Any]:
    return {"curve": {"between": {"low": "5s", "high": "9s", "retries": 3} | fields}}


def zizq(**fields: Any) -> dict[str, Any]:
    return {"base_ms": 1, "exponent": 2, "jitter_ms": 3} | fields


def bad(value: str, expected: str) -> str:
    return f"{value} is not valid; expected {expected}"


REFUSALS: list[tuple[Any, str, str]] = [
    # What is no policy at all.
    (5, "policy", bad("5", 'an object such as {"curve": ...}, {"preset": "zizq"}, or the name of a preset')),
    (None, "policy", bad("null", 'an object such as {"curve": ...}, {"preset": "zizq"}, or the name of a preset')),
    ([C], "policy", bad('[{"curve": {...}}]', 'an object such as {"curve": ...}, {"preset": "zizq"}, or the name of a preset')),
    ({}, "curve", "is missing; expected either curve or phases"),
    ({"limit": 3}, "curve", "is missing; expected either curve or phases"),
    (C | {"phases": [C]}, "phases", bad("a list of phases beside curve", "either curve or phases, not both")),
    # Unknown fields name the known ones.
    (C | {"jiter": "full"}, "jiter", f"is no known field; expected one of: {FIELDS}, {SHORT_FORMS}; did you mean \"jitter\"?"),
    (C | {"a b": 1}, '"a b"', f"is no known field; expected one of: {FIELDS}, {SHORT_FORMS}"),
    (power(bse="1s"), "curve.power.bse", "is no known field; expected one of: base, exponent, origin, scale, slope; did you mean \"base\"?"),
    (jitter({"grow": {"by": 1, "face": 3}}), "jitter.grow.face", "is no known field; expected one of: faces, step, source, cut, redraw, since, by; did you mean \"faces\"?"),
    (jitter({"window": {"low": {"time": 1}, "high": {}}}), "jitter.window.low.time", "is no known field; expected one of: times, grow, add; did you mean \"times\"?"),
    # Curves.
    (curve(powr={}), "curve", bad('{"powr": {}}', f'a curve, named by one of: {CURVES}; did you mean "power"?')),
    (curve(constant=1, linear=2), "curve", bad('{"constant": 1, "linear": 2}', f"a curve, named by one of: {CURVES}")),
    ({"curve": 5}, "curve", bad("5", f"a curve, named by one of: {CURVES}")),
    ({"curve": "constant"}, "curve.constant.wait", "is missing; expected wait"),
    (curve(power={"base": "15s"}), "curve.power.exponent", "is missing; expected exponent (optional: base, origin, scale, slope)"),
    (curve(power=5), "curve.power", bad("5", "an object with fields out of: base, exponent, origin, scale, slope")),
    (curve(constant="soon"), "curve.constant", bad('"soon"', DURATION)),
    (curve(constant=-1), "curve.constant", bad("-1", DURATION)),
    (curve(constant="366d"), "curve.constant", bad('"366d"', DURATION)),
    (curve(constant=1.5), "curve.constant", bad("1.5", DURATION)),
    (curve(constant=True), "curve.constant", bad("true", DURATION)),
    (curve(constant=None), "curve.constant", bad("null", DURATION)),
    (curve(constant=math.nan), "curve.constant", bad("nan", DURATION)),
    (curve(constant=math.inf), "curve.constant", bad("inf", DURATION)),
    (curve(constant={"wait": "x"}), "curve.constant.wait", bad('"x"', DURATION)),
    (curve(linear={"base": "1s", "step": "-1s"}), "curve.linear.step", bad('"-1s"', DURATION)),
    (power(base=-1), "curve.power.base", bad("-1", DURATION)),
    (power(slope=-1), "curve.power.slope", bad("-1", DURATION)),
    (power(exponent=-0.5), "curve.power.exponent", bad("-0.5", "at least 0 unless origin is 1 or more")),
    (power(exponent=-1e13, origin=1), "curve.power.exponent", bad("-10000000000000.0", "a number from -1e+12 to 1e+12")),
    (power(exponent=math.nan), "curve.power.exponent", bad("nan", "a number from -1e+12 to 1e+12")),
    (power(exponent=math.inf), "curve.power.exponent", bad("inf", "a number from -1e+12 to 1e+12")),
    (power(exponent="4"), "curve.power.exponent", bad('"4"', "a number from -1e+12 to 1e+12")),
    (power(exponent=True), "curve.power.exponent", bad("true", "a number from -1e+12 to 1e+12")),
    (power(exponent=10**400), "curve.power.exponent", bad("an integer of 1329 bits", "a number from -1e+12 to 1e+12")),
    (power(origin=-1), "curve.power.origin", bad("-1", "a whole number from 0 to 1000000")),
    (power(origin=0.5), "curve.power.origin", bad("0.5", "a whole number from 0 to 1000000")),
    (curve(exponential={"base": "1s", "factor": 0}), "curve.exponential.factor", bad("0", "a number above 0 to 1e+06")),
    (curve(exponential={"base": "1s", "knee": -1}), "curve.exponential.knee", bad("-1", "a whole number from 0 to 1000000000, or null")),
    (between(low="10s"), "curve.between.high", bad('"9s"', "at least low, which is 10s")),
    (between(low=0, shape="geometric"), "curve.between.low", bad("0", "more than 0, because shape geometric multiplies it")),
    (between(low=0, shape="exponential"), "curve.between.low", bad("0", "more than 0, because shape exponential multiplies it")),
    (between(shape="square"), "curve.between.shape", bad('"square"', "one of linear, arithmetic, geometric, exponential")),
    (between(base=2), "curve.between.base", bad("2.0", "no base unless shape is exponential")),
    (between(retries=0), "curve.between.retries", bad("0", "a whole number from 1 to 1000000")),
    (curve(table=[]), "curve.table", bad("a list of 0 elements", "a list of 1 to 1000 elements")),
    (curve(table=["1s"] * 1_001), "curve.table", bad("a list of 1,001 elements", "a list of 1 to 1000 elements")),
    (curve(table="1s"), "curve.table", bad('"1s"', "a list of 1 to 1000 elements")),
    (curve(table=["1s", "x"]), "curve.table[1]", bad('"x"', DURATION)),
    (curve(sum=[{"constant": 1}, {"linear": {"base": 1}}]), "curve.sum[1].linear.step", "is missing; expected base and step"),
    (curve(sum=[{"constant": 1}] * 17), "curve.sum", bad("a list of 17 elements", "a list of 1 to 16 elements")),
    (curve(scale={"by": -1, "curve": {"constant": 1}}), "curve.scale.by", bad("-1", "a number from 0 to 1e+12")),
    (curve(stretch={"by": 0, "curve": {"constant": 1}}), "curve.stretch.by", bad("0", "a number from 0.001 to 1e+06")),
    (curve(stretch={"curve": {"constant": 1}}), "curve.stretch.by", "is missing; expected by and curve (optional: origin)"),
    (curve(stretch={"by": 2, "curve": {"constant": 1}, "origin": -1}), "curve.stretch.origin", bad("-1", "a whole number from 0 to 1000000")),
    # Jitter.
    (jitter("some"), "jitter", bad('"some"', f"a jitter, named by one of: {JITTERS}")),
    (jitter("ful"), "jitter", bad('"ful"', f'a jitter, named by one of: {JITTERS}; did you mean "full"?')),
    (jitter({"Full": {}}), "jitter", bad('{"Full": {}}', f'a jitter, named by one of: {JITTERS}; did you mean "full"?')),
    (jitter({"above": -1}), "jitter.above", bad("-1", "a number from 0 to 1000")),
    (jitter({"below": 1.5}), "jitter.below", bad("1.5", "a number from 0 to 1")),
    (jitter({"around": math.nan}), "jitter.around", bad("nan", "a number from 0 to 1")),
    (jitter({"grow": -1}), "jitter.grow", bad("-1", DURATION)),
    (jitter({"grow": {"by": 1, "faces": 0}}), "jitter.grow.faces", bad("0", "a whole number from 1 to 1000000, or null")),
    (jitter({"grow": {"by": 1, "step": 0}}), "jitter.grow.step", bad("0", "a step above 0, or null")),
    (jitter({"grow": {"by": 1, "faces": 3, "step": 5}}), "jitter.grow.step", bad("5", "either faces or step, not both")),
    (jitter({"grow": {"by": 1, "cut": 0}}), "jitter.grow.cut", bad("0", "a cut above 0, or null")),
    (jitter({"grow": {"by": 1, "redraw": 0}}), "jitter.grow.redraw", bad("0", "a redraw above 0, or null")),
    (jitter({"grow": {"by": 1, "redraw": "-1s"}}), "jitter.grow.redraw", bad('"-1s"', f"{DURATION}, or null")),
    (jitter({"grow": {"by": 1, "faces": 3, "cut": "1s"}}), "jitter.grow.cut", bad('"1s"', "no cut beside faces or step")),
    (jitter({"grow": {"by": 1, "step": "1s", "redraw": "1h"}}), "jitter.grow.redraw", bad('"1h"', "no redraw beside faces or step")),
    (jitter({"grow": {"by": 1, "cut": "1s", "redraw": "1h"}}), "jitter.grow.redraw", bad('"1h"', "either cut or redraw, not both")),
    (jitter({"grow": {"by": 1, "since": 0}}), "jitter.grow.since", bad("0", "a whole number from 1 to 1000000000")),
    (jitter({"grow": {"by": 1, "since": None}}), "jitter.grow.since", bad("null", "a whole number from 1 to 1000000000")),
    (jitter({"full": {"source": "dice"}}), "jitter.full.source", bad('"dice"', "one of rng, hash, job")),
    (jitter({"window": {"low": {"times": 2}, "high": {"times": 1}}}), "jitter.window.high.times", bad("1.0", "at least low.times, which is 2")),
    (jitter({"window": {"low": {"add": "2s"}, "high": {"times": 1}}}), "jitter.window.high.add", bad("0", "at least low.add, which is 2000")),
    (jitter({"window": {"low": {"times": 1}}}), "jitter.window.high", "is missing; expected low and high (optional: faces, step, source, cut, redraw, since)"),
    (jitter({"up_to": {"constant": "9s"}}), "jitter.up_to", bad('{"constant": "9s"}', "a curve that is never below the policy's own (at retry 1 it is)")),
    (jitter("slices"), "jitter", bad('"slices"', "slices only on an exponential curve with factor 2 and no knee")),
    (jitter({"decorrelated": 0.5}), "jitter.decorrelated", bad("0.5", "a number from 1 to 1000")),
    (jitter({"even": {"spread": 1.1}}), "jitter.even.spread", bad("1.1", "a number from 0 to 1")),
    (jitter({"even": {"detune": 1}}), "jitter.even.detune", bad("1", "a number from 0 to 0.999")),
    # Clamp, limit, deadline, words.
    (C | {"floor": "5s", "cap": "1s"}, "cap", bad('"1s"', "at least floor, which is 5s")),
    (C | {"floor": "5s", "ceil": "1s"}, "ceil", bad('"1s"', "at least floor, which is 5s")),
    (C | {"cap": -1}, "cap", bad("-1", DURATION + ", or null")),
    (C | {"cap": math.nan}, "cap", bad("nan", DURATION + ", or null")),
    (C | {"floor": None}, "floor", bad("null", DURATION)),
    (C | {"limit": -1}, "limit", bad("-1", "a whole number from 0 to 1000000000, or null")),
    (C | {"limit": "3"}, "limit", bad('"3"', "a whole number from 0 to 1000000000, or null")),
    (C | {"limit": True}, "limit", bad("true", "a whole number from 0 to 1000000000, or null")),
    (C | {"max_attempts": 0}, "max_attempts", bad("0", "a whole number from 1 to 1000000000, or null")),
    (C | {"max_attempts": 3, "limit": 2}, "max_attempts", bad("3", "either limit or max_attempts (limit + 1), not both")),
    (C | {"deadline": "soon"}, "deadline", bad('"soon"', DURATION + ", or null")),
    (C | {"on_deadline": "stop"}, "on_deadline", bad('"stop"', "one of finish, clip")),
    (C | {"on_exhausted": "explode"}, "on_exhausted", bad('"explode"', "one of dead, discard")),
    (C | {"override": "no"}, "override", bad('"no"', "one of bounded, exact, spread")),
    # Phases.
    ({"phases": [{"count": 3}]}, "phases[0].curve", "is missing; expected curve (optional: count)"),
    ({"phases": [C, C]}, "phases[0].count", "is missing; expected a count, as only the last phase may be endless"),
    ({"phases": [C | {"count": -1}]}, "phases[0].count", bad("-1", "a whole number from 0 to 1000000000, or null")),
    ({"phases": [C | {"count": 1}] * 33}, "phases", bad("a list of 33 elements", "a list of 0 to 32 elements")),
    # Zizq's three.
    ({"base_ms": 1}, "exponent", "is missing; expected base_ms, exponent and jitter_ms together"),
    ({"exponent": 4, "jitter_ms": 1}, "base_ms", "is missing; expected base_ms, exponent and jitter_ms together"),
    (zizq(base_ms=-1), "base_ms", bad("-1", "a whole number from 0 to 4294967295")),
    (zizq(base_ms=2**32), "base_ms", bad("4294967296", "a whole number from 0 to 4294967295")),
    (zizq(jitter_ms=1.5), "jitter_ms", bad("1.5", "a whole number from 0 to 4294967295")),
    (zizq(jitter_ms="3"), "jitter_ms", bad('"3"', "a whole number from 0 to 4294967295")),
    (zizq(exponent=math.nan), "exponent", bad("nan", "a number from -3.40282e+38 to 3.40282e+38")),
    (zizq(exponent=math.inf), "exponent", bad("inf", "a number from -3.40282e+38 to 3.40282e+38")),
    (zizq(exponent=-1e39), "exponent", bad("-1e+39", "a number from -3.40282e+38 to 3.40282e+38")),
    (zizq(curve=1), "curve", "is no known field; expected one of: base_ms, exponent, jitter_ms, cap, floor, ceil, limit, deadline, on_deadline, on_exhausted, override, max_attempts"),
    # Presets.
    ({"preset": "zizq", "bse": 1}, "bse", "is no known field; expected one of: base, exponent, grow, curve, cap, jitter, floor, ceil, limit, deadline, on_deadline, on_exhausted, override, max_attempts, preset; did you mean \"base\"?"),
    ({"preset": "zizq", "base": "x"}, "base", bad('"x"', DURATION)),
    ({"preset": "zzz_jobs", "literal": 1}, "literal", bad("1", "true or false")),
]  # fmt: skip


@pytest.mark.parametrize(("form", "field", "rest"), REFUSALS)
def test_refusals_name_field_value_and_expectation(form: Any, field: str, rest: str) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        Policy.from_json(form)
    assert str(caught.value) == f"{field}: {rest}"
    assert caught.value.field == field


@pytest.mark.parametrize("name", ["nope", "", "Zizq", {"a": 1}, ["zizq"], None, 5])
def test_an_unknown_preset_is_refused_and_the_list_is_named(name: Any) -> None:
    with pytest.raises(InvalidPolicy, match=r"^preset: .* expected the name of a preset \(anew policy list"):
        Policy.from_json({"preset": name})


def nested(levels: int) -> Any:
    form: Any = {"constant": "1s"}
    for _ in range(levels):
        form = {"sum": [form]}
    return {"curve": form}


def test_stretched_curves_nest_no_deeper_than_others() -> None:
    form: Any = {"constant": "1s"}
    for _ in range(5):
        form = {"stretch": {"by": 2, "curve": form}}
    with pytest.raises(InvalidPolicy, match="nested at most 5 deep"):
        Policy.from_json({"curve": form})


def test_curves_nest_five_deep_and_no_deeper() -> None:
    assert Policy.from_json(nested(4)).nominal(1) == 1_000
    with pytest.raises(
        InvalidPolicy, match="a curve of 6 levels is not valid; expected curves nested at most 5 deep"
    ):
        Policy.from_json(nested(5))


def test_deep_and_bushy_json_is_refused_before_it_is_walked() -> None:
    bushy: Any = {"curve": {"sum": [[[{}] * 100] * 100] * 100}}
    for form in (nested(20), nested(100_000), bushy):
        with pytest.raises(InvalidPolicy, match="at most 16 levels and 4000 values"):
            Policy.from_json(form)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"nope", b"\xff", b"[" * 10_000, b'{"curve": {"constant": 1}} x']
)
def test_text_that_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidPolicy, match=r"^policy: .* expected JSON"):
        policy_from_json(text)


def test_a_name_that_stands_there_twice_is_refused() -> None:
    with pytest.raises(
        InvalidPolicy, match=r'^"limit" stands in one object twice; expected different names$'
    ):
        policy_from_json(b'{"preset": "even", "limit": 3, "limit": 50}')


def test_too_long_a_text_is_refused_unread() -> None:
    with pytest.raises(InvalidPolicy, match="16385 bytes"):
        policy_from_json(b" " * (MAX_POLICY_BYTES + 1))


def test_pieces_built_in_python_are_checked_too() -> None:
    with pytest.raises(InvalidPolicy, match=r"^base: -1 is not valid"):
        Power(base_ms=-1, exponent=4)
    with pytest.raises(InvalidPolicy, match=r"^spread: nan is not valid"):
        Even(spread=math.nan)
    with pytest.raises(InvalidPolicy, match="either curve or phases"):
        Policy()
    assert Power(base_ms="15s", exponent=4) == Power(base_ms=15_000, exponent=4.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("exponent", [-3.4028236e38, 3.4028236e38, 1e300])
def test_zizqs_exponent_is_no_other(exponent: float) -> None:
    with pytest.raises(InvalidPolicy, match="exponent: "):
        Policy.from_json({"exponent": exponent, "base_ms": 0, "jitter_ms": 0})
