// What herds look like: a row for each job and a dot for each retry, or all jobs as heat or as lines.

import { element, replace, retryColours } from "./look.js";

/** The radius in the screen's own pixels from which on a circle can be told from a square. */
const SMALL = 1.5;

/** Shows which colour is which retry. */
export function drawKey(retries) {
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

/** Gives the calls of the fullest bin of any retry. */
export function fullest(herd) {
  return Math.max(1, ...herd.heat.map((row) => Math.max(...row)));
}

/** Paints one herd, as dots, heat or lines, on the axes of a plot; `most` is how many retries any herd has. */
export function paint(plot, herd, as, { edges, most }) {
  const { ctx } = plot, colours = retryColours(most);
  ctx.save();
  if (as === "dots") dots(plot, herd, colours);
  else (as === "heat" ? heat : lines)(plot, herd, edges.map((edge) => plot.valToPos(edge, "x", true)), colours);
  ctx.restore();
}

function dots({ ctx, bbox, valToPos }, herd, colours) {
  const tall = bbox.height / herd.dots.length;
  const radius = Math.max(1.15 * devicePixelRatio, Math.min(3 * devicePixelRatio, tall * 0.62));
  for (let retry = 0; retry < herd.retries; retry += 1) {
    ctx.fillStyle = colours[retry];
    ctx.beginPath();
    herd.dots.forEach((instants, job) => {
      if (retry < instants.length) dot(ctx, valToPos(instants[retry], "x", true), bbox.top + (job + 0.5) * tall, radius);
    });
    ctx.fill();
  }
}

/** Adds a dot to a path. One of two pixels is a square of the same size, which is drawn in half the time. */
function dot(ctx, x, y, radius) {
  const half = radius * Math.sqrt(Math.PI) / 2;
  if (radius < SMALL) {
    ctx.rect(x - half, y - half, 2 * half, 2 * half);
    return;
  }
  ctx.moveTo(x + radius, y);
  ctx.arc(x, y, radius, 0, 2 * Math.PI);
}

function heat({ ctx, bbox }, herd, borders, colours) {
  const most = fullest(herd), tall = bbox.height / herd.heat.length;
  herd.heat.forEach((row, retry) => {
    ctx.fillStyle = colours[retry];
    row.forEach((count, place) => {
      if (count === 0) return;
      ctx.globalAlpha = 0.15 + 0.85 * Math.sqrt(count / most);
      const left = borders[place], wide = Math.max(borders[place + 1] - left, 1);
      ctx.fillRect(left, bbox.top + retry * tall, wide, Math.max(tall - 0.6, 1));
    });
  });
}

/** Draws a line for each retry; all herds have one axis, so that they can be told apart by their height. */
function lines({ ctx, valToPos }, herd, borders, colours) {
  ctx.lineWidth = 1.3 * devicePixelRatio;
  herd.heat.forEach((row, retry) => {
    ctx.strokeStyle = colours[retry];
    ctx.beginPath();
    let open = false;
    row.forEach((count, place) => {
      const near = count > 0 || (row[place - 1] ?? 0) > 0 || (row[place + 1] ?? 0) > 0;
      const at = (borders[place] + borders[place + 1]) / 2;
      if (near && open) ctx.lineTo(at, valToPos(count, "y", true));
      else if (near) ctx.moveTo(at, valToPos(count, "y", true));
      open = near;
    });
    ctx.stroke();
  });
}
