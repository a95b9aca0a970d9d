// Herds: a row for each job and a dot for each retry, or all jobs as heat or as lines. One picture a policy, drawn on canvas.

import { colour, element, font, panels, replace, retryColours } from "./look.js";
import { duration, durationTicks } from "./units.js";

const LEFT = 46, RIGHT = 10, TOP = 6, BOTTOM = 24;
/** The radius in the screen's own pixels from which on a circle can be told from a square. */
const SMALL = 1.5;

/** Draws all herds of the page. */
export function drawHerds(data) {
  const room = document.getElementById("plots-herd");
  if (room === null || room.closest("[hidden]") !== null) return;
  const there = panels(room, data, data.herds, "herd", () => [element("canvas", { role: "img", "aria-describedby": "words-herd" })]);
  // One colour is the same retry in all pictures, also where one policy has fewer.
  const most = Math.max(0, ...data.herds.map((herd) => herd.retries));
  const tallest = Math.max(1, ...data.herds.map((herd) => herd.heat ? fullest(herd) : 0));
  drawKey(most);
  data.herds.forEach((herd, place) =>
    drawHerd(there[place].lastChild, herd, { ...data, span: herd.span ?? data.span, most, tallest }));
}

function drawKey(retries) {
  const key = document.getElementById("herd-key");
  const colours = retryColours(retries);
  key.hidden = retries < 2;
  const steps = colours.filter((one, place) => one !== colours[place - 1]);
  const ramp = element("span", { class: "ramp" }, ...steps.map((one) => {
    const step = element("i");
    step.style.backgroundColor = one;
    return step;
  }));
  const fresh = key.cloneNode();
  fresh.append("retry 1", ramp, String(retries));
  replace(key, fresh);
}

/** Draws one herd into a canvas. */
function drawHerd(canvas, herd, data) {
  const width = canvas.parentElement.clientWidth, tall = data.herds.length > 2 || width < 400 ? 160 : 215;
  const pen = blank(canvas, width, tall);
  const frame = { left: LEFT, top: TOP, right: width - RIGHT, bottom: tall - BOTTOM };
  if (herd.retries === 0) {
    nothing(pen, width, tall);
    canvas.setAttribute("aria-label", `${herd.label}: no retry`);
    return;
  }
  const [first, last] = data.span;
  const along = frame.right - frame.left;
  // An axis of powers is even up to the first moment that matters, and so begins with 0 as any other.
  const x = data.log
    ? (ms) => frame.left + along * Math.asinh(ms / first) / Math.asinh(last / first)
    : (ms) => frame.left + along * ms / last;
  shade(pen, frame, x, data);
  grid(pen, frame, x, data, along);
  const colours = retryColours(data.most);
  const as = herd.dots ? "dots" : data.herdAs;
  if (as === "dots") dots(pen, frame, x, herd, colours);
  else if (as === "heat") heat(pen, frame, x, herd, data.edges, colours);
  else lines(pen, frame, x, herd, data, colours);
  names(pen, frame, as, herd, data.tallest);
  canvas.setAttribute("aria-label", `${herd.label}: ${as} over the time since the first failure, coloured by retry number`);
}

/** Gives the pen of an empty canvas; one that had that size already need not be laid out anew. */
function blank(canvas, width, high) {
  const ratio = devicePixelRatio || 1, [wide, tall] = [Math.round(width * ratio), Math.round(high * ratio)];
  const pen = canvas.getContext("2d");
  if (canvas.width === wide && canvas.height === tall) pen.reset();
  else [canvas.width, canvas.height, canvas.style.height] = [wide, tall, `${high}px`];
  pen.scale(ratio, ratio);
  return pen;
}

function nothing(pen, width, tall) {
  pen.font = font;
  pen.textAlign = "center";
  pen.fillStyle = colour("soft");
  pen.fillText("no retry", width / 2, tall / 2);
}

/** Shades the outage: whatever comes later comes of jobs alone that fail on. */
function shade(pen, frame, x, data) {
  const outage = data.load?.outage;
  if (!outage) return;
  pen.fillStyle = colour("outage");
  pen.fillRect(frame.left, frame.top, Math.min(x(outage), frame.right) - frame.left, frame.bottom - frame.top);
}

function grid(pen, frame, x, data, along) {
  pen.font = font;
  pen.textAlign = "center";
  pen.textBaseline = "top";
  pen.strokeStyle = colour("grid");
  pen.fillStyle = colour("soft");
  const ticks = durationTicks(data.log ? data.span[0] : 0, data.span[1], data.log, along / 62);
  for (const tick of data.log ? [0, ...ticks] : ticks) {
    const at = Math.round(x(tick)) + 0.5;
    pen.beginPath();
    pen.moveTo(at, frame.top);
    pen.lineTo(at, frame.bottom);
    pen.stroke();
    pen.fillText(duration(tick), Math.min(at, frame.right - 10), frame.bottom + 5);
  }
  pen.strokeStyle = colour("edge");
  pen.strokeRect(frame.left - 0.5, frame.bottom + 0.5, along, 0);
}

function names(pen, frame, as, herd, tallest) {
  pen.save();
  pen.fillStyle = colour("soft");
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  if (as === "lines") {
    pen.fillText("0", frame.left - 6, frame.bottom - 5);
    pen.fillText(tallest.toLocaleString("en"), frame.left - 6, frame.top + 5);
  } else {
    const count = as === "dots" ? herd.dots.length : herd.heat.length;
    pen.fillText("1", frame.left - 6, frame.top + 5);
    if (count > 1) pen.fillText(String(count), frame.left - 6, frame.bottom - 5);
  }
  pen.translate(12, (frame.top + frame.bottom) / 2);
  pen.rotate(-Math.PI / 2);
  pen.textAlign = "center";
  pen.fillText({ dots: "job", heat: "retry", lines: "calls" }[as], 0, 0);
  pen.restore();
}

function dots(pen, frame, x, herd, colours) {
  const tall = (frame.bottom - frame.top) / Math.max(herd.dots.length, 1);
  const radius = Math.max(1.1, Math.min(3, tall * 0.62));
  for (let retry = 0; retry < herd.retries; retry += 1) {
    pen.fillStyle = colours[retry];
    pen.beginPath();
    herd.dots.forEach((instants, job) => {
      if (retry < instants.length) dot(pen, x(instants[retry]), frame.top + (job + 0.5) * tall, radius);
    });
    pen.fill();
  }
}

/** Adds a dot to a path. One of two pixels is a square of the same size, which is drawn in half the time. */
function dot(pen, x, y, radius) {
  const half = radius * Math.sqrt(Math.PI) / 2;
  if (radius * devicePixelRatio < SMALL) {
    pen.rect(x - half, y - half, 2 * half, 2 * half);
    return;
  }
  pen.moveTo(x + radius, y);
  pen.arc(x, y, radius, 0, 2 * Math.PI);
}

/** Gives the calls of the fullest bin of any retry. */
function fullest(herd) {
  return Math.max(1, ...herd.heat.map((row) => Math.max(...row)));
}

function heat(pen, frame, x, herd, edges, colours) {
  const most = fullest(herd);
  const tall = (frame.bottom - frame.top) / Math.max(herd.heat.length, 1);
  herd.heat.forEach((row, retry) => {
    pen.fillStyle = colours[retry];
    row.forEach((count, place) => {
      if (count === 0) return;
      pen.globalAlpha = 0.15 + 0.85 * Math.sqrt(count / most);
      const left = x(edges[place]);
      pen.fillRect(left, frame.top + retry * tall, Math.max(x(edges[place + 1]) - left, 1), Math.max(tall - 0.6, 1));
    });
  });
  pen.globalAlpha = 1;
}

/** Draws a line for each retry; all herds have one axis, so that they can be told apart by their height. */
function lines(pen, frame, x, herd, { edges, tallest: most }, colours) {
  const tall = frame.bottom - frame.top;
  pen.lineWidth = 1.3;
  herd.heat.forEach((row, retry) => {
    pen.strokeStyle = colours[retry];
    pen.beginPath();
    let open = false;
    row.forEach((count, place) => {
      const near = count > 0 || (row[place - 1] ?? 0) > 0 || (row[place + 1] ?? 0) > 0;
      if (!near) {
        open = false;
        return;
      }
      const at = (x(edges[place]) + x(edges[place + 1])) / 2, y = frame.bottom - tall * count / most;
      if (open) pen.lineTo(at, y);
      else pen.moveTo(at, y);
      open = true;
    });
    pen.stroke();
  });
}
