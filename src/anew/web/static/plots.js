// The charts: waits, herds, load, the spread of one retry. uPlot draws them; here is what they say.

import { drawKey, fullest, paint } from "./herds.js";
import { colour, element, faint, font, replace, write } from "./look.js";
import { duration, durations, durationTicks, powerTicks, short } from "./units.js";

const uPlot = window.uPlot;
const shown = new Map();
const EDGE = { show: true, stroke: () => colour("edge"), width: 1 };

/** Draws the waits before each retry: a line for the mean wait, a band from the earliest to the latest. */
export function drawCurves(data) {
  const lines = data.curves.filter((line) => line.middle.length);
  const most = Math.max(1, ...lines.map((line) => line.middle.length));
  // A single wait has no width: it is drawn as if it went on for a while.
  const x = most === 1 ? [0.94, 1.06] : Array.from({ length: most }, (_, place) => place + 1);
  const long = (values) => x.map((_, place) => values[most === 1 ? 0 : place] ?? null);
  const series = [{}], bands = [], columns = [x];
  for (const line of lines) {
    const own = colour(line.key);
    const at = series.length;
    series.push({ stroke: own, width: 2, points: { show: false } });
    series.push({ stroke: faint(own, 0.35), width: 1, points: { show: false } });
    series.push({ stroke: faint(own, 0.35), width: 1, points: { show: false } });
    bands.push({ series: [at + 2, at + 1], fill: faint(own, 0.16) });
    columns.push(long(line.middle), long(line.earliest), long(line.latest));
  }
  const room = openRoom("curve", lines);
  if (room === null) return;
  draw("curve", room, data, {
    series, bands, columns, keys: lines, lines,
    scales: { x: { time: false, range: [0.5, most + 0.5] }, y: yScale(data.log, columns.slice(1)) },
    axes: [{ ...axis("retry"), border: EDGE, incrs: [1, 2, 5, 10, 20, 50, 100] }, durationAxis("wait before the retry", data.log, "y")],
    read: (place) => `Retry ${Math.round(x[place])}. ` + lines.map((line) =>
      `${line.label}: ${waits(line, most === 1 ? 0 : place)}`).join(" · "),
  });
}

/** Draws when jobs try again: each herd as dots, as heat or as lines. One colour is the same retry in all of them. */
export function drawHerds(data) {
  const most = Math.max(0, ...data.herds.map((herd) => herd.retries));
  const as = data.herdAs, tallest = Math.max(1, ...data.herds.map((herd) => (herd.heat ? fullest(herd) : 0)));
  drawKey(most);
  const rooms = openRooms("herd", data, data.herds);
  data.herds.forEach((herd, place) => {
    if (herd.retries === 0) {
      rooms[place]?.replaceChildren(element("p", { class: "how" }, "no retry"));
      return;
    }
    const y = as === "lines" ? { range: [0, tallest] } : { range: [0, (herd.dots ?? herd.heat).length], dir: -1 };
    draw(`herd-${herd.key}`, rooms[place], data, {
      title: `${herd.label}: ${as} over the time since the first failure, coloured by retry number`,
      outage: data.load.outage, series: [{}, {}], columns: [[0, data.span[1]], [null, null]],
      scales: { x: timeScale(data.log, data.edges, data.span[0]), y },
      axes: [durationAxis("time since the first failure", data.log, "x"), endsAxis({ dots: "job", heat: "retry", lines: "calls" }[as])],
      paint: (plot) => paint(plot, herd, as, { edges: data.edges, most }),
    });
  });
}

/** Draws the calls that reach the downstream: of each policy the fullest second and the mean; dotted, those served in time. */
export function drawLoad(data) {
  const { edges, lines, capacity, outage } = data.load;
  // Calls that come one by one have no fullest second: their line is the mean.
  const drawn = lines.map((line) => ({
    ...line, line: line.peaks.map((peak, place) => (peak > 1 ? peak : line.means[place])),
  }));
  const y = yScale(data.log, [...drawn.flatMap((line) => [line.line, line.means]), ...(capacity ? [[capacity]] : [])]);
  const rooms = openRooms("load", data, drawn, data.curves.length ? "There is no retry, and so no call." : "");
  drawn.forEach((line, place) => draw(`load-${line.key}`, rooms[place], data, {
    steps: true, capacity, outage, sync: "load",
    series: [
      {}, { ...filled(line, 0.3), stroke: undefined, width: 0 }, filled(line, 0),
      ...(line.served ? [{ ...filled(line, 0), stroke: colour("ink"), dash: [2, 3] }] : []),
    ],
    columns: [edges, ...[line.means, line.line, ...(line.served ? [line.served] : [])].map(closed)],
    scales: { x: timeScale(data.log, edges, data.span[0]), y },
    axes: [durationAxis("time since the first failure", data.log, "x"), numberAxis("calls a second", data.log)],
    read: (at) => `${durations(edges.slice(at, at + 2)).join(" to ")}: ${rate(line, at, edges)}`,
  }));
}

/** Says of a column what its fullest second had, and what the whole of it had on average. */
function rate(line, place, edges) {
  const peak = line.peaks[place] ?? 0;
  if (!peak || edges[place + 1] - edges[place] <= 1000) return `${short(peak)} calls`;
  return `at most ${short(peak)} in a second, ${short(line.means[place])} on average`;
}

/** Says of a retry how long jobs wait before it. */
function waits(line, place) {
  const low = line.earliest[place], high = line.latest[place];
  if (low === high || low === null) return between(low, high);
  const mean = line.joins === "mean" ? `, mean ${duration(line.middle[place])}` : "";
  return `${between(low, high)}${mean}, nominal ${duration(line.nominal[place])}`;
}

/** Shades the outage. */
function ground(plot, { outage }) {
  const { ctx, bbox } = plot;
  if (!outage) return;
  ctx.save();
  ctx.fillStyle = colour("outage");
  ctx.fillRect(bbox.left, bbox.top, end(plot, outage) - bbox.left, bbox.height);
  ctx.restore();
}

/** Gives where an outage ends on the axis of time, which may end before. */
function end(plot, outage) {
  const { left, width } = plot.bbox;
  return Math.min(Math.max(plot.valToPos(outage, "x", true), left), left + width);
}

/** Names the outage where it ends, and draws the line that the service cannot pass. */
function landmarks(plot, { outage, capacity }) {
  const { ctx, bbox } = plot, ratio = devicePixelRatio;
  ctx.save();
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.fillStyle = ctx.strokeStyle = colour("soft");
  if (outage) {
    [ctx.textAlign, ctx.textBaseline] = ["right", "top"];
    written(ctx, `outage ${duration(outage)}`, end(plot, outage) - 4 * ratio, bbox.top + 3 * ratio);
  }
  if (capacity) {
    const y = plot.valToPos(capacity, "y", true);
    [ctx.textAlign, ctx.textBaseline] = ["left", "bottom"];
    written(ctx, `capacity ${short(capacity)} a second`, bbox.left + 4 * ratio, y - 2 * ratio);
    ctx.setLineDash([6, 4]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
  }
  ctx.restore();
}

/** Writes a text that can be read also where lines and areas lie behind it. */
function written(ctx, text, x, y) {
  ctx.save();
  [ctx.strokeStyle, ctx.lineWidth, ctx.lineJoin] = [colour("sheet"), 4 * devicePixelRatio, "round"];
  ctx.strokeText(text, x, y);
  ctx.restore();
  ctx.fillText(text, x, y);
}

/** Draws how one retry's waits are spread. */
export function drawWaits(data) {
  const { edges, lines, log } = data.waits;
  const y = yScale(false, lines.map((line) => line.shares.map((share) => share * 100)));
  const rooms = openRooms("waits", data, data.curves);
  data.curves.forEach(({ key, label }, place) => {
    const line = lines.find((one) => one.key === key);
    if (line === undefined) {
      rooms[place]?.replaceChildren(); // why it has no such wait stands beside its name
      return;
    }
    draw(`waits-${key}`, rooms[place], data, {
      steps: true, sync: "waits",
      series: [{}, filled({ ...line, label }, 0.3)], columns: [edges, closed(line.shares.map((share) => share * 100))],
      scales: { x: timeScale(log, edges, edges[1]), y },
      axes: [durationAxis(`wait before retry ${data.retry}`, log, "x"), numberAxis("% of the jobs", false)],
      read: (at) => `${durations(edges.slice(at, at + 2)).join(" to ")}: ${short(line.shares[at] * 100)}\u00a0% of the jobs`,
    });
  });
}

/** Forgets all charts, so that the next drawing takes new colours. */
export function forget() {
  for (const { plot } of shown.values()) plot.destroy();
  shown.clear();
}

/** Gives where a chart of several lines is drawn; null where it is not to be seen. */
function openRoom(name, lines) {
  const room = document.getElementById(`plots-${name}`);
  if (room === null || room.closest("[hidden]") !== null) return null;
  if (lines.length) return room;
  room.replaceChildren();
  return null;
}

/** Gives where each policy's chart is drawn: one panel each, or a text where there is none. */
function openRooms(name, data, lines, empty = "") {
  const room = openRoom(name, lines);
  if (room === null) {
    if (empty && lines.length === 0) document.getElementById(`plots-${name}`)?.replaceChildren(element("p", {}, empty));
    return lines.map(() => null);
  }
  return panels(room, data, lines, name);
}

/**
 * Gives one panel for each policy, all with the same axes: its letter, its name, what is said beside it, and room for its
 * chart below. They stay the elements that they are as long as the policies do.
 */
function panels(room, data, lines, name) {
  const keys = lines.map((line) => line.key).join();
  if (room.dataset.keys !== keys || room.childElementCount !== lines.length) {
    room.replaceChildren(...lines.map((line) => element("div", { class: `facet policy-${line.key}` },
      element("h3", {}, element("span", { class: "badge" }), element("span", { class: "label" }), element("small")),
      element("div", { class: "plot-room" }))));
    room.dataset.keys = keys;
    room.classList.add("facets");
  }
  return lines.map((line, place) => {
    const [heading, chart] = room.children[place].children, [badge, label, beside] = heading.children;
    badge.hidden = !lettered(line);
    write(badge, line.key.toUpperCase());
    write(label, lettered(line) ? line.label.slice(2) : line.label);
    write(beside, data.beside[name][line.key] ?? "");
    return chart;
  });
}

function draw(name, room, data, chart) {
  if (room === null) return;
  const width = Math.floor(room.clientWidth), tall = height(width, name);
  const kind = [data.log, chart.axes.map((one) => one.name).join("|"), chart.series.length, chart.scales.x.distr, chart.scales.y.distr,
    chart.keys?.map((line) => line.key + line.label).join()].join("/");
  const old = shown.get(name);
  if (old !== undefined && old.kind === kind && old.room === room && old.plot.root.isConnected) {
    old.now = chart;
    for (const [key, { asinh }] of Object.entries(chart.scales)) {
      // uPlot measures an axis anew where its range is another one: without an end it is.
      if (asinh) Object.assign(old.plot.scales[key], { asinh, max: null });
    }
    if (old.width !== width) old.plot.setSize({ width, height: tall });
    old.width = width;
    if (chart.keys) replace(room.firstChild, legend(chart.keys));
    old.plot.setData(chart.columns);
    write(old.readout, "");
    return;
  }
  old?.plot.destroy();
  const readout = element("p", { class: "readout", "aria-hidden": "true" });
  const entry = { kind, room, width, now: chart, readout };
  const scales = Object.fromEntries(Object.entries(chart.scales).map(([key, scale]) => [key, {
    ...scale, range: () => entry.now.scales[key].range,
  }]));
  const frame = element("div", {
    class: "plot", role: "img", "aria-label": chart.title ?? `${chart.axes[1].name} over ${chart.axes[0].name}`,
    "aria-describedby": `words-${name.split("-")[0]}`,
  });
  room.replaceChildren(...(chart.keys ? [legend(chart.keys)] : []), frame, ...(chart.read ? [readout] : []));
  entry.plot = new uPlot({
    width, height: tall, series: chart.series, bands: chart.bands ?? [], scales, axes: chart.axes,
    padding: [8, 30, 0, 0], // to the right the half of an axis' last number
    legend: { show: false }, cursor: {
      show: Boolean(chart.read),
      dataIdx: (plot, _, near, at) => standing(plot, entry.now, near, at), y: false,
      drag: { x: false, y: false }, points: { size: 6 }, ...(chart.sync ? { sync: { key: chart.sync } } : {}),
    },
    hooks: {
      drawClear: [(plot) => ground(plot, entry.now)],
      draw: [(plot) => (entry.now.paint ?? marks)(plot, entry.now)],
      setCursor: [(plot) => {
        const near = plot.cursor.idx, at = plot.posToVal(plot.cursor.left, "x");
        const place = near === null || near === undefined ? null : standing(plot, entry.now, near, at);
        write(readout, place === null ? "" : entry.now.read(place));
      }],
    },
  }, chart.columns, frame);
  shown.set(name, entry);
}

function marks(plot, chart) {
  landmarks(plot, chart);
  ends(plot, chart);
}

/** Marks each line with its policy's own shape, and names it where it ends: they are told apart without their colours. */
function ends(plot, { lines = [] }) {
  const { ctx } = plot, ratio = devicePixelRatio;
  const last = lines.map((line, place) => {
    const values = plot.data[3 * place + 1], at = values.findLastIndex((value) => value !== null);
    const stride = Math.ceil(line.middle.length / 25);
    ctx.save();
    ctx.fillStyle = colour(line.key);
    values.forEach((value, place) => {
      if (value === null || (at - place) % stride) return;
      shape(ctx, line.key, plot.valToPos(plot.data[0][place], "x", true), plot.valToPos(value, "y", true), 4 * ratio);
    });
    ctx.restore();
    return { line, x: plot.valToPos(plot.data[0][at], "x", true), y: plot.valToPos(values[at], "y", true) };
  }).sort((a, b) => a.y - b.y);
  ctx.save();
  ctx.font = `bold ${12 * ratio}px system-ui, sans-serif`;
  [ctx.textAlign, ctx.textBaseline] = ["left", "middle"];
  let above = -Infinity;
  for (const { line, x, y } of last) {
    above = Math.max(y, above + 14 * ratio);
    ctx.fillStyle = colour(line.key);
    if (lettered(line)) ctx.fillText(line.key.toUpperCase(), x + 10 * ratio, above);
  }
  ctx.restore();
}

const SHAPES = { a: "●", b: "■", c: "▲", d: "◆" };

function shape(ctx, key, x, y, half) {
  const corners = { b: [[-1, -1], [1, -1], [1, 1], [-1, 1]], c: [[0, -1.2], [1.2, 1], [-1.2, 1]], d: [[0, -1.4], [1.4, 0], [0, 1.4], [-1.4, 0]] }[key];
  ctx.beginPath();
  if (corners) for (const [right, down] of corners) ctx.lineTo(x + 0.85 * half * right, y + 0.85 * half * down);
  else ctx.arc(x, y, 0.85 * half, 0, 2 * Math.PI);
  ctx.fill();
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

function height(width, name) {
  const [least, share, most] = { curve: [220, 0.45, 320], herd: [160, 0.45, 215] }[name.split("-")[0]] ?? [150, 0.4, 190];
  return Math.round(Math.min(most, Math.max(least, width * share)));
}

function lettered(line) {
  return line.label.startsWith(`${line.key.toUpperCase()} `);
}

function legend(lines) {
  return element("p", { class: "legend", "aria-hidden": "true" }, ...lines.map((line) => element("span", { class: `policy-${line.key}` },
    ...(lettered(line) ? [element("span", { class: "badge" }, line.key.toUpperCase())] : []),
    element("i", { class: "shape" }, SHAPES[line.key] ?? "●"),
    `${lettered(line) ? line.label.slice(2) : line.label}`)));
}

function filled(line, share) {
  return { stroke: colour(line.key), width: 1.5, fill: faint(colour(line.key), share), points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) };
}

/** Gives an axis of time from 0: where it counts in powers it is even up to the first moment that matters. */
function timeScale(log, edges, first) {
  const range = [edges[0] ?? 0, edges.at(-1) ?? 2];
  return { time: false, range, ...powers(log, range[0], first) };
}

/** Gives what makes an axis count in powers: from 0 on, such an axis is even up to the least that it shows. */
function powers(log, low, least) {
  if (!log) return { distr: 1 };
  return low > 0 ? { distr: 3 } : { distr: 4, asinh: least };
}

function yScale(log, columns) {
  let low = Infinity, high = 0, none = false;
  for (const column of columns) {
    for (const value of column) {
      if (value > high) high = value;
      if (value > 0 && value < low) low = value;
      none ||= value === 0;
    }
  }
  if (high === 0) [low, high] = [1, 10];
  if (!log) return { range: [0, high * 1.06], distr: 1 };
  const range = none ? [0, high * 1.5] : [low / 1.5, Math.max(high * 1.5, low * 3)];
  return { range, ...powers(true, range[0], low) };
}

function axis(name) {
  return {
    name, font, gap: 3, size: 24,
    stroke: () => colour("soft"), grid: { stroke: () => colour("grid"), width: 1 },
    ticks: { stroke: () => colour("edge"), width: 1, size: 4 },
    values: (plot, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? String(tick) : "")),
  };
}

/** Gives an axis of durations, along `x` or up `y`. */
function durationAxis(name, log, key) {
  const across = key === "x", apart = across ? (log ? 64 : 96) : 30;
  return {
    ...axis(name), ...(across ? { border: EDGE } : { size: 56 }),
    splits: (plot, _, low, high) => {
      const room = plot.bbox[across ? "width" : "height"] / devicePixelRatio / apart;
      return ticksFrom(durationTicks, plot, key, low, high, log, room);
    },
    values: (plot, ticks) => durations(ticks), filter: (plot, ticks) => ticks,
  };
}

function numberAxis(name, log) {
  const own = { ...axis(name), size: 56, values: (plot, ticks) => ticks.map(short), filter: (plot, ticks) => ticks };
  if (log) own.splits = (plot, _, low, high) => ticksFrom((a, b, __, room) => powerTicks(a, b, room), plot, "y", low, high, true, plot.bbox.height / devicePixelRatio / 30);
  return own;
}

/** Gives an axis of rows, or of numbers from 0, that says how many there are. */
function endsAxis(name) {
  const rows = name !== "calls";
  return {
    ...axis(name), size: 34, label: name, labelFont: font, labelSize: 22, labelGap: 0, grid: { show: false },
    splits: (plot, _, low, high) => [...new Set(rows ? [low + 0.5, high - 0.5] : [low, high])],
    values: (plot, ticks) => ticks.map((tick) => Math.ceil(tick).toLocaleString("en")), filter: (plot, ticks) => ticks,
  };
}

/** Gives an axis' ticks; one of powers that begins with 0 has a tick there, and the others from where it is no longer even. */
function ticksFrom(ticks, plot, key, low, high, log, room) {
  const { distr, asinh } = plot.scales[key];
  return log && distr === 4 ? [0, ...ticks(asinh, high, true, room)] : ticks(low, high, log, room);
}

function between(low, high) {
  const a = duration(low), b = duration(high);
  return a === b ? a : `${a} to ${b}`;
}
