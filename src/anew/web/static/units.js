// Durations and numbers for axes: where ticks stand, and what they say.

const S = 1000, MIN = 60 * S, H = 60 * MIN, D = 24 * H;
const LOG_TICKS = [1, 10, 100, S, 10 * S, MIN, 10 * MIN, H, 6 * H, D, 7 * D, 30 * D, 365 * D, 3650 * D];
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, S, 2 * S, 5 * S, 10 * S, 15 * S, 30 * S, MIN, 2 * MIN, 5 * MIN, 10 * MIN,
  15 * MIN, 30 * MIN, H, 2 * H, 3 * H, 6 * H, 12 * H, D, 2 * D, 5 * D, 10 * D, 20 * D, 50 * D, 100 * D, 200 * D, 365 * D,
  730 * D, 1825 * D, 3650 * D,
];

/** Writes a duration in its two largest units: "15 s", "1 h 40 min". */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms === 0) return "0";
  const whole = Math.round(ms);
  for (const [unit, name, part, small] of [[D, "d", H, "h"], [H, "h", MIN, "min"], [MIN, "min", S, "s"]]) {
    if (whole < unit) continue;
    const rest = Math.floor((whole % unit) / part);
    return `${Math.floor(whole / unit).toLocaleString("en")} ${name}${rest ? ` ${rest} ${small}` : ""}`;
  }
  return whole >= S ? `${short(whole / S)} s` : `${short(ms)} ms`;
}

/** Writes durations so that no two of them read the same: in all their units, where the two largest do not do. */
export function durations(values) {
  const texts = values.map(duration);
  return new Set(texts).size === texts.length ? texts : values.map(exact);
}

function exact(ms) {
  let rest = Math.round(ms);
  const parts = [[D, "d"], [H, "h"], [MIN, "min"], [S, "s"], [1, "ms"]].map(([unit, name]) => {
    const count = Math.floor(rest / unit);
    rest -= count * unit;
    return count && `${count.toLocaleString("en")} ${name}`;
  });
  return parts.filter(Boolean).join(" ") || "0";
}

/** Writes a number with as many digits as matter. */
export function short(value) {
  if (value === 0) return "0";
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  if (Math.abs(value) < 0.0001) return value.toExponential(0).replace("e-", "e−");
  if (Math.abs(value) < 0.01) return String(Number(value.toPrecision(2)));
  const text = value.toFixed(digits);
  const bare = text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  return Math.abs(value) >= 1000 ? Number(bare).toLocaleString("en") : bare;
}

/** Gives the ticks of an axis of durations, no more than fit. */
export function durationTicks(low, high, log, room) {
  if (log) {
    const among = (ticks) => ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
    // A short stretch of an axis of powers has few of its ticks, or none: then smaller steps, and equal ones at last.
    const inside = [LOG_TICKS, STEPS].map(among).find((ticks) => ticks.length >= Math.min(3, room));
    if (inside === undefined) return durationTicks(low, high, false, room);
    const stride = Math.max(1, Math.ceil(inside.length / Math.max(2, room)));
    return inside.filter((_, place) => (inside.length - 1 - place) % stride === 0);
  }
  const place = STEPS.findIndex((one) => (high - low) / one <= room);
  if (place < 0) return steps(low, high, (high - low) / room, room);
  const ticks = steps(low, high, STEPS[place], room);
  // A single number tells no scale; two or three of the next smaller step have room even on a phone.
  const finer = ticks.length < 2 && place > 0 ? steps(low, high, STEPS[place - 1], 3) : [];
  return finer.length > 1 && finer.length <= 3 ? finer : ticks;
}

function steps(low, high, step, room) {
  // A part of a step more for what rounding takes, not of the time itself: that may be a million steps.
  const first = Math.ceil(low / step - 0.001);
  const count = Math.max(0, Math.floor(high / step + 0.001) - first + 1);
  return Array.from({ length: Math.min(count, Math.ceil(room) + 1) }, (_, place) => (first + place) * step);
}

/** Gives the powers of ten of an axis of numbers, no more than fit; where there is but one, twice and five times it, too. */
export function powerTicks(low, high, room) {
  const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
  const stride = Math.max(1, Math.ceil((last - first + 1) / Math.max(2, room)));
  const ticks = [];
  for (let power = last; power >= first; power -= stride) ticks.unshift(10 ** power);
  if (ticks.length > 1) return ticks;
  return [first - 1, first, first + 1].flatMap((power) => [1, 2, 5].map((times) => times * 10 ** power))
    .filter((tick) => tick >= low && tick <= high);
}
