// The charts with two axes: waits, load, the spread of one retry. uPlot draws them; here is what they say.

import { colour, element, faint, font, policyColour } from "./look.js";
import { duration, durationTicks, powerTicks, short } from "./units.js";

const uPlot = window.uPlot;
const shown = new Map();

/** Draws the waits before each retry: a line for the nominal wait, a band from the earliest to the latest. */
export function drawCurves(data) {
  const lines = data.curves.filter((line) => line.nominal.length);
  const most = Math.max(1, ...lines.map((line) => line.nominal.length));
  const x = Array.from({ length: most }, (_, place) => place + 1);
  const long = (values) => x.map((_, place) => values[place] ?? null);
  const series = [{}], bands = [], columns = [x];
  for (const line of lines) {
    const own = policyColour(line.key);
    const at = series.length;
    series.push({ stroke: own, width: 2, points: { show: most <= 40, size: 5, fill: own } });
    series.push({ stroke: faint(own, 0.35), width: 1, points: { show: false } });
    series.push({ stroke: faint(own, 0.35), width: 1, points: { show: false } });
    bands.push({ series: [at + 2, at + 1], fill: faint(own, 0.16) });
    columns.push(long(line.nominal), long(line.earliest), long(line.latest));
  }
  const y = yScale(data.log, columns.slice(1));
  draw("curve", data, {
    series, bands, columns: grounded(columns, y), legend: lines,
    scales: { x: { time: false, range: [0.5, most + 0.5] }, y },
    axes: [axis("retry number"), durationAxis("wait before the retry", data.log)],
    read: (place) => `Retry ${x[place]}. ` + lines.map((line) =>
      `${line.label}: ${between(line.earliest[place], line.latest[place])}`).join(" · "),
  });
}

/** Draws the calls per second that reach the downstream; dashed, those that it serves in time. */
export function drawLoad(data) {
  const { edges, lines, capacity, outage } = data.load;
  const x = edges.slice(0, -1);
  const columns = [x], series = [{}];
  for (const line of lines) {
    const own = policyColour(line.key);
    series.push(filled(own, 0.1));
    columns.push(line.rates);
    if (line.served) {
      series.push({ ...filled(own, 0), dash: [3, 3], fill: undefined });
      columns.push(line.served);
    }
  }
  const y = yScale(data.log, [...columns.slice(1), ...(capacity ? [[capacity]] : [])]);
  draw("load", data, {
    series, columns: grounded(columns, y), legend: lines, capacity, outage,
    scales: { x: { time: false, distr: data.log ? 3 : 1, range: [x[0] ?? 1, edges.at(-1) ?? 2] }, y },
    axes: [durationAxisX("time since the first failure", data.log), numberAxis("calls per second", data.log)],
    read: (place) => `${duration(edges[place])} to ${duration(edges[place + 1])}. ` + lines.map((line) =>
      `${line.label}: ${short(line.rates[place] ?? 0)} calls/s`).join(" · "),
  });
}

/** Shades the outage, and draws the line that the downstream cannot pass. */
function landmarks(plot, { outage, capacity }) {
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
  ctx.restore();
}

/** Draws how one retry's waits are spread. */
export function drawWaits(data) {
  const { edges, lines, log } = data.waits;
  const named = lines.map((line) => ({ ...line, label: data.curves.find((one) => one.key === line.key)?.label ?? line.key }));
  const x = edges.slice(0, -1);
  const columns = [x, ...lines.map((line) => line.shares.map((share) => share * 100))];
  const series = [{}, ...lines.map((line) => filled(policyColour(line.key), 0.18))];
  draw("waits", data, {
    series, columns, legend: named,
    scales: {
      x: { time: false, distr: log ? 3 : 1, range: [edges[0] ?? 0, edges.at(-1) ?? 1] },
      y: yScale(false, columns.slice(1)),
    },
    axes: [durationAxisX(`wait before retry ${data.retry}`, log), numberAxis("% of the jobs", false)],
    read: (place) => `${duration(edges[place])} to ${duration(edges[place + 1])}. ` + named.map((line) =>
      `${line.label}: ${short(line.shares[place] * 100)} %`).join(" · "),
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
    room.replaceChildren();
    return;
  }
  const width = Math.floor(room.clientWidth);
  const axes = chart.axes.map((one) => `${one.label}`).join("|");
  const kind = [data.log, axes, chart.series.length, chart.legend.map((line) => line.key + line.label).join()].join("/");
  const old = shown.get(name);
  if (old !== undefined && old.kind === kind && old.plot.root.isConnected) {
    old.now = chart;
    if (old.width !== width) old.plot.setSize({ width, height: height(width) });
    old.width = width;
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
  room.replaceChildren(legend(chart.legend), frame, readout);
  entry.plot = new uPlot({
    width, height: height(width), series: chart.series, bands: chart.bands ?? [], scales, axes: chart.axes,
    legend: { show: false }, cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    hooks: { drawClear: [(plot) => landmarks(plot, entry.now)], setCursor: [(plot) => {
      const place = plot.cursor.idx;
      readout.textContent = place === null || place === undefined ? "" : entry.now.read(place);
    }] },
  }, chart.columns, frame);
  shown.set(name, entry);
}

function height(width) {
  return Math.round(Math.min(320, Math.max(220, width * 0.45)));
}

function legend(lines) {
  return element("p", { class: "legend", "aria-hidden": "true" }, ...lines.map((line) => {
    const lettered = line.label.startsWith(`${line.key.toUpperCase()} `);
    return element("span", { class: `policy-${line.key}` },
      element("span", { class: "badge" }, lettered ? line.key.toUpperCase() : "\u00a0"), ` ${lettered ? line.label.slice(2) : line.label}`);
  }));
}

function filled(own, share) {
  return { stroke: own, width: 1.5, fill: faint(own, share), points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) };
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
