// The form: sliders and their boxes, errors beside their fields, what the server has set.

import { ladders } from "./look.js";

const form = document.getElementById("form");
let held = null;

/** Lets sliders write into their boxes, and asks for a new picture at each step. */
export function listen() {
  document.addEventListener("focusin", (event) => { held = event.target; });
  document.addEventListener("input", (event) => {
    const slide = event.target;
    // Half-typed JSON is none: it is read when its box is left.
    if (slide.matches?.("textarea")) event.stopPropagation();
    if (!slide.matches?.("input.slide")) return;
    event.stopPropagation();
    const box = document.getElementById(slide.dataset.for);
    box.value = written(slide);
    slide.setAttribute("aria-valuetext", box.value || box.placeholder);
    performance.mark("lab:input");
    ask();
  }, { capture: true });
  document.addEventListener("change", (event) => {
    if (event.target.matches?.("input.slide")) event.stopPropagation();
    else if (event.target.form === form && !form.contains(event.target)) ask();
  }, { capture: true });
  document.getElementById("results")?.addEventListener("input", (event) => {
    if (event.target.form === form && !event.target.matches("input.slide")) ask();
  });
}

/** Writes what a slider stands for: a step of its ladder, its own number, or nothing at the end where there is no bound. */
function written(slide) {
  const at = slide.valueAsNumber;
  if (slide.dataset.empty !== undefined && at >= Number(slide.dataset.empty)) return "";
  return slide.dataset.ladder ? ladders[slide.dataset.ladder][at] : String(at);
}

/** Asks the server for the picture of what the form holds. */
export function ask() {
  form.dispatchEvent(new CustomEvent("lab:set", { bubbles: true }));
}

/** Shows what the server says about the form: errors, where sliders stand, what hidden fields and JSON boxes hold. */
export function apply(data) {
  for (const place of document.querySelectorAll("[data-error]")) {
    const text = data.errors[place.dataset.error] ?? "";
    if (place.textContent !== text) place.textContent = text;
    place.closest(".control")?.classList.toggle("wrong", text !== "");
    for (const field of document.querySelectorAll(`[aria-describedby="${place.id}"]`)) {
      if (text) field.setAttribute("aria-invalid", "true");
      else field.removeAttribute("aria-invalid");
    }
  }
  for (const slide of document.querySelectorAll("input.slide")) {
    const at = data.set.sliders[slide.dataset.name];
    if (at !== undefined && slide !== document.activeElement) slide.value = at;
    const box = document.getElementById(slide.dataset.for);
    slide.setAttribute("aria-valuetext", box.value || box.placeholder);
  }
  for (const [name, text] of Object.entries(data.set.texts)) {
    const field = form.elements.namedItem(name);
    if (field && field !== document.activeElement && field.value !== text) field.value = text;
  }
  for (const [name, wanted] of Object.entries(data.charts ?? {})) {
    document.getElementById(`figure-${name}`)?.toggleAttribute("hidden", !wanted);
  }
  keepPlace();
}

/** Puts the focus near to where it was, if that has gone: whoever works by keyboard need not begin again at the top. */
function keepPlace() {
  if (held === null || held.isConnected || document.activeElement !== document.body) return;
  const card = held.closest(".card")?.id;
  const near = (held.id && document.getElementById(held.id))
    || (card && (document.querySelector(`#${card} textarea`) ?? document.querySelector(`#${card} select`)))
    || [...document.querySelectorAll(".choose select, .add button")].at(-1);
  near?.focus({ preventScroll: true });
}
