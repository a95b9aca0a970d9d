// The form: sliders and their boxes, errors beside their fields, what the server has set.

import { ladders } from "./look.js";

const form = document.getElementById("form");

/** Lets sliders write into their boxes, and asks for a new picture at each step. */
export function listen() {
  document.addEventListener("input", (event) => {
    const slide = event.target;
    // Half-typed JSON is none: it is read when its box is left.
    if (slide.matches?.("textarea")) event.stopPropagation();
    if (!slide.matches?.("input.slide")) return;
    event.stopPropagation();
    const box = document.getElementById(slide.dataset.for);
    box.value = slide.dataset.ladder ? ladders[slide.dataset.ladder][slide.valueAsNumber] : String(slide.valueAsNumber);
    slide.setAttribute("aria-valuetext", box.value);
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
    const field = document.querySelector(`[aria-describedby="${place.id}"]`);
    if (text) field?.setAttribute("aria-invalid", "true");
    else field?.removeAttribute("aria-invalid");
  }
  for (const slide of document.querySelectorAll("input.slide")) {
    const at = data.set.sliders[slide.dataset.name];
    if (at !== undefined && slide !== document.activeElement) slide.value = at;
    slide.setAttribute("aria-valuetext", document.getElementById(slide.dataset.for).value);
  }
  for (const [name, text] of Object.entries(data.set.texts)) {
    const field = form.elements.namedItem(name);
    if (field && field !== document.activeElement && field.value !== text) field.value = text;
  }
  for (const [name, wanted] of Object.entries(data.charts ?? {})) {
    document.getElementById(`figure-${name}`)?.toggleAttribute("hidden", !wanted);
  }
}
