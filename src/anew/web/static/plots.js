// The charts with two axes: waits, load, the spread of one retry. uPlot draws them; here is what they say.

import { colour, element, faint, font, mark, policyColour, replace } from "./look.js";
import { duration, durationTicks, powerTicks, short } from "./units.js";

const uPlot = window.uPlot;
const shown = new Map();

/** Draws the waits before each retry: a line for the mean wait, a band from the earliest to the latest. */
export function drawCurves(data) {
  const lines = data.curves.filter((line) => line.middle.length);
  const most = Math.max(1, ...lines.map((line) => line.middle.length));
  const x = Array.from({ length: most }, (_, place) => place + 1);
  const long = (values) => x.map((_, place) => values[place] ?? null);
  const series = [{}], bands = [], columns = [x];
  for (const line of lines) {
    const own = policyColour(line.key), strong = strength(data, line);
    const at = series.length;
    series.push({ ...ink(data, line), width: 2, points: { show: most > 1 && most <= 40, size: 5, fill: faint(own, strong) } });
    series.push({ stroke: faint(own, 0.35 * strong), width: 1, points: { show: false } });
    series.push({ stroke: faint(own, 0.35 * strong), width: 1, points: { show: false } });
    bands.push({ series: [at + 2, at + 1], fill: faint(own, 0.16 * strong) });
    columns.push(long(line.middle), long(line.earliest), long(line.latest));
  }
  const y = yScale(data.log, columns.slice(1));
  draw("curve", data, {
    series, bands, columns: grounded(columns, y), legend: lines,
    marks: [["middle", `line: ${data.line}`]],
    scales: { x: { time: false, range: [0.5, most + 0.5] }, y },
    ranges: most === 1 ? lines : [], look: most === 1 ? "ranges" : most <= 40 ? "points" : "",
    axes: [{ ...axis("retry number"), incrs: [1, 2, 5, 10, 20, 50, 100] }, durationAxis("wait before the retry", data.log)],
    read: (place) => `Retry ${x[place]}. ` + lines.map((line) =>
      `${line.label}: ${waits(line, place)}`).join(" · "),
  });
}

/** Draws the calls per second that reach the downstream, at most and on average; dashed, those that it serves in time. */
export function drawLoad(data) {
  const { edges, lines, capacity, outage } = data.load;
  const columns = [edges], series = [{}];
  const add = (one, values) => {
    series.push(one);
    columns.push(closed(values));
  };
  for (const line of lines) {
    add({ ...filled(data, line, 0.16), stroke: undefined, width: 0 }, line.means);
    add({ ...filled(data, line, 0), fill: undefined }, line.peaks);
    if (line.served) add({ ...filled(data, line, 0), dash: [3, 3], fill: undefined }, line.served);
  }
  const y = yScale(data.log, [...columns.slice(1), ...(capacity ? [[capacity]] : [])]);
  draw("load", data, {
    steps: true, series, columns: grounded(columns, y), legend: lines, capacity, outage,
    empty: "There is no retry, and so no call.",
    marks: [
      ["peak", "line: the most"], ["mean", "shade: the mean"],
      outage && ["outage", `outage, until ${duration(outage)}`],
      capacity && ["capacity", `capacity, ${short(capacity)} calls/s`],
      lines.some((line) => line.served) && ["served", "served while somebody waits"],
    ].filter(Boolean),
    scales: { x: { time: false, distr: data.log ? 3 : 1, range: [edges[0] ?? 1, edges.at(-1) ?? 2] }, y },
    axes: [durationAxisX("time since the first failure", data.log), numberAxis("calls per second", data.log)],
    read: (place) => `${duration(edges[place])} to ${duration(edges[place + 1])}. ` + lines.map((line) =>
      `${line.label}: ${rate(line, place, data.load)}`).join(" · "),
  });
}

/** Says of a column what its fullest bin had, and what the whole of it had on average. */
function rate(line, place, { edges, bins }) {
  const peak = `${short(line.peaks[place] ?? 0)} calls/s`, wide = bins[place];
  if (!line.peaks[place] || place > 0 && edges[place + 1] - edges[place] <= wide) return peak;
  return `${peak} in the fullest ${wide === 1000 ? "second" : duration(wide)}, ${short(line.means[place])} on average`;
}

/** Says of a retry how long jobs wait before it. */
function waits(line, place) {
  const low = line.earliest[place], high = line.latest[place];
  if (low === high || low === null) return between(low, high);
  const mean = line.joins === "mean" ? `, mean ${duration(line.middle[place])}` : "";
  return `${between(low, high)}${mean}, nominal ${duration(line.nominal[place])}`;
}

/** Shades the outage, draws the line that the downstream cannot pass, and the range of a wait that has no other. */
function landmarks(plot, { outage, capacity, ranges }) {
  const { ctx, bbox } = plot;
  ctx.save();
  if (outage) {
    const end = Math.min(Math.max(plot.valToPos(outage, "x", true), bbox.left), bbox.left + bbox.width);
    ctx.fillStyle = colour("outage");
    ctx.fillRect(bbox.left, bbox.top, end - bbox.left, bbox.height);
  }
  if (capacity) {
    const y = plot.valToPos(capacity, "y", true);
    ctx.strokeStyle = colour("soft");
    ctx.setLineDash([6, 4]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
  }
  for (const [place, line] of (ranges ?? []).entries()) bar(plot, line, place - (ranges.length - 1) / 2);
  ctx.restore();
}

/** Draws the range of a single wait, which is no band, and a line for the mean one; beside those of others. */
function bar(plot, line, aside) {
  const wide = 36 * devicePixelRatio, left = plot.valToPos(1, "x", true) + (aside - 0.4) * wide;
  const ground = plot.scales.y.min;
  const [low, middle, high] = [line.earliest, line.middle, line.latest].map((values) =>
    plot.valToPos(Math.max(values[0] ?? ground, ground), "y", true));
  plot.ctx.fillStyle = faint(policyColour(line.key), 0.25);
  plot.ctx.fillRect(left, high, 0.8 * wide, low - high);
  plot.ctx.fillStyle = policyColour(line.key);
  plot.ctx.fillRect(left, middle - devicePixelRatio, 0.8 * wide, 2 * devicePixelRatio);
}

/** Draws how one retry's waits are spread. */
export function drawWaits(data) {
  const { edges, lines, log } = data.waits;
  const named = lines.map((line) => ({ ...line, label: data.curves.find((one) => one.key === line.key)?.label ?? line.key }));
  const columns = [edges, ...lines.map((line) => closed(line.shares.map((share) => share * 100)))];
  const series = [{}, ...lines.map((line) => filled(data, line, 0.18))];
  draw("waits", data, {
    steps: true, series, columns, legend: named,
    scales: {
      x: { time: false, distr: log ? 3 : 1, range: [edges[0] ?? 0, edges.at(-1) ?? 1] },
      y: yScale(false, columns.slice(1)),
    },
    axes: [durationAxisX(`wait before retry ${data.retry}`, log), numberAxis("% of the jobs", false)],
    read: (place) => `${duration(edges[place])} to ${duration(edges[place + 1])}. ` + named.map((line) =>
      `${line.label}: ${short(line.shares[place] * 100)}\u00a0%`).join(" · "),
  });
}

/** Forgets all charts, so that the next drawing takes new colours. */
export function forget() {
  for (const { plot } of shown.values()) plot.destroy();
  shown.clear();
}

function draw(name, data, chart) {
  const room = document.getElementById(`plots-${name}`);
  if (room === null || room.closest("[hidden]") !== null) return;
  if (chart.legend.length === 0) {
    shown.get(name)?.plot.destroy();
    shown.delete(name);
    room.replaceChildren(...(chart.empty ? [element("p", {}, chart.empty)] : []));
    return;
  }
  const width = Math.floor(room.clientWidth);
  const axes = chart.axes.map((one) => `${one.label}`).join("|");
  const kind = [data.log, axes, chart.look, chart.series.length,
    chart.legend.map((line) => line.key + line.label + mark(data, line.key)).join()].join("/");
  const old = shown.get(name);
  if (old !== undefined && old.kind === kind && old.plot.root.isConnected) {
    old.now = chart;
    if (old.width !== width) old.plot.setSize({ width, height: height(width) });
    old.width = width;
    replace(room.firstChild, legend(chart, data));
    old.plot.setData(chart.columns);
    return;
  }
  old?.plot.destroy();
  const entry = { kind, width, now: chart };
  const readout = element("p", { class: "readout", "aria-hidden": "true" });
  const scales = Object.fromEntries(Object.entries(chart.scales).map(([key, scale]) =>
    [key, { ...scale, range: () => entry.now.scales[key].range }]));
  const frame = element("div", {
    class: "plot", role: "img", "aria-label": chart.axes[1].label + " over " + chart.axes[0].label,
    "aria-describedby": `words-${name}`,
  });
  room.replaceChildren(legend(chart, data), frame, readout);
  entry.plot = new uPlot({
    width, height: height(width), series: chart.series, bands: chart.bands ?? [], scales, axes: chart.axes,
    legend: { show: false }, cursor: { dataIdx: (plot, _, near, at) => standing(plot, entry.now, near, at), y: false, drag: { x: false, y: false }, points: { size: 6 } },
    hooks: { drawClear: [(plot) => landmarks(plot, entry.now)], setCursor: [(plot) => {
      const near = plot.cursor.idx, at = plot.posToVal(plot.cursor.left, "x");
      const place = near === null || near === undefined ? null : standing(plot, entry.now, near, at);
      readout.textContent = place === null ? "" : entry.now.read(place);
    }] },
  }, chart.columns, frame);
  shown.set(name, entry);
}

/** Gives the column that a place is in, which need not be the one that begins nearest to it; at the closing edge the last. */
function standing(plot, chart, near, at) {
  if (!chart.steps) return near;
  return Math.max(0, Math.min(at < plot.data[0][near] ? near - 1 : near, plot.data[0].length - 2));
}

/** Gives the values of steps with the last one again, for the edge where it ends. */
function closed(values) {
  return [...values, ...values.slice(-1)];
}

function height(width) {
  return Math.round(Math.min(320, Math.max(220, width * 0.45)));
}

function legend({ legend: lines, marks = [] }, data) {
  const policies = lines.map((line) => {
    const lettered = line.label.startsWith(`${line.key.toUpperCase()} `);
    return element("span", { class: `policy-${line.key}` },
      element("span", { class: "badge" }, lettered ? line.key.toUpperCase() : "\u00a0"),
      ` ${lettered ? line.label.slice(2) : line.label}${mark(data, line.key)}`);
  });
  return element("p", { class: "legend", "aria-hidden": "true" }, ...policies,
    ...marks.map(([kind, text]) => element("span", {}, element("i", { class: `mark ${kind}` }), ` ${text}`)));
}

/** How strong the picture of a policy is: one with a mistake is shown as it was before, and fainter. */
function strength(data, line) {
  return mark(data, line.key) ? 0.5 : 1;
}

function ink(data, line) {
  const strong = strength(data, line);
  return { stroke: faint(policyColour(line.key), strong), dash: strong < 1 ? [8, 5] : undefined };
}

function filled(data, line, share) {
  return { ...ink(data, line), width: 1.5, fill: faint(policyColour(line.key), share * strength(data, line)), points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) };
}

/** Puts what an axis of powers cannot show, 0, on its ground. */
function grounded([x, ...columns], y) {
  const ground = y.range[0];
  return [x, ...columns.map((column) => column.map((value) => (value === null ? null : Math.max(value, ground))))];
}

function yScale(log, columns) {
  let low = Infinity, high = 0;
  for (const column of columns) {
    for (const value of column) {
      if (value > high) high = value;
      if (value > 0 && value < low) low = value;
    }
  }
  if (high === 0) [low, high] = [1, 10];
  if (!log) return { range: [0, high * 1.06] };
  return { distr: 3, range: [low / 1.5, Math.max(high * 1.5, low * 3)] };
}

function axis(label) {
  return {
    label, font, labelFont: font, labelSize: 18, labelGap: 0, gap: 4, size: 22,
    stroke: () => colour("soft"), grid: { stroke: () => colour("grid"), width: 1 }, ticks: { show: false },
    values: (plot, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? String(tick) : "")),
  };
}

function durationAxis(label, log) {
  return {
    ...axis(label), size: 64,
    splits: (plot, _, low, high) => durationTicks(low, high, log, plot.bbox.height / devicePixelRatio / 34),
    values: (plot, ticks) => ticks.map(duration), filter: (plot, ticks) => ticks,
  };
}

function durationAxisX(label, log) {
  return {
    ...axis(label),
    splits: (plot, _, low, high) => durationTicks(low, high, log, plot.bbox.width / devicePixelRatio / (log ? 70 : 96)),
    values: (plot, ticks) => ticks.map(duration), filter: (plot, ticks) => ticks,
  };
}

function numberAxis(label, log) {
  const own = { ...axis(label), size: 64, values: (plot, ticks) => ticks.map(short), filter: (plot, ticks) => ticks };
  if (log) own.splits = (plot, _, low, high) => powerTicks(low, high, plot.bbox.height / devicePixelRatio / 34);
  return own;
}

function between(low, high) {
  const a = duration(low), b = duration(high);
  return a === b ? a : `${a} to ${b}`;
}
