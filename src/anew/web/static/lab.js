// The lab's page: draws what the server has worked out, and asks it again when something is changed.

import { comeBack, follow, settle } from "./address.js";
import { apply, listen } from "./form.js";
import { isDark } from "./look.js";
import { steady } from "./steady.js";
import { drawCurves, drawHerds, drawLoad, drawWaits, forget } from "./plots.js";

let data = null;
let read = null;

/** Reads what the server has sent and shows it. */
function show(event) {
  const place = document.getElementById("data");
  if (place === read) return;  // a refusal brings no data
  read = place;
  const fresh = JSON.parse(place.textContent);
  if (!follow(fresh)) return;
  data = fresh.kept && data !== null ? { ...data, ...withoutPicture(fresh) } : fresh;
  document.getElementById("results").classList.toggle("kept", data.kept);
  apply(data, event?.detail.ctx);
  draw();
  steady(data.policies);
}

/** Gives what a state without a picture says of itself: the previous picture stays. */
function withoutPicture({ errors, unread, summaries, idle, policies, set, charts, url, kept }) {
  return { errors, unread, summaries, idle, policies, set, charts, url, kept };
}

function draw() {
  drawCurves(data);
  drawHerds(data);
  drawLoad(data);
  drawWaits(data);
  document.documentElement.dataset.drawn = data.url;
  if (performance.getEntriesByName("lab:input").length) {
    performance.measure("lab:update", "lab:input");
    performance.clearMarks("lab:input");
  }
}

function redraw() {
  forget();
  draw();
}

function say(text) {
  document.getElementById("said").textContent = text;
}

// ---- the page's own buttons

function showTheme() {
  const button = document.getElementById("theme");
  button.textContent = isDark() ? "Light" : "Dark";
}

document.getElementById("theme").addEventListener("click", () => {
  const wanted = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = wanted;
  try {
    localStorage.setItem("anew-theme", wanted);
  } catch {
    // It holds for this page then.
  }
  showTheme();
  redraw();
});

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();  // which the text has taken
  }
  button.dataset.label ??= button.textContent;  // pressed again it says "Copied" itself
  button.textContent = "Copied";
  say("Copied");
  setTimeout(() => { button.textContent = button.dataset.label; }, 1200);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button");
  if (button?.id === "copy-link") {
    settle();
    copy(location.href, button);
  }
  if (button?.classList.contains("copy")) copy(button.closest("section").querySelector("code").textContent, button);
});

// ---- what the world does

document.addEventListener("htmx:after:swap", show);
document.addEventListener("htmx:error", () => {
  document.getElementById("notice").textContent = "The server does not answer; the picture is still the previous one.";
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { showTheme(); redraw(); });
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  requestAnimationFrame(() => { draw(); steady(true); });
});

listen();
comeBack();
showTheme();
show();
