// The form: sliders and their boxes, errors beside their fields, what the server has set.

import { listenToChoices } from "./choices.js";
import { ladders, write } from "./look.js";

export const form = document.getElementById("form");

const phone = matchMedia("(max-width: 40rem)");
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const folds = new Map();
let held = null, began = "", cards = new Set();

/** What fields have been given by hand, by name, and after which request. */
const given = new Map();
/** The number of each request, which is answered later, and of the last. */
const numbers = new WeakMap();
let asked = 0, behind = false;

/** Lets sliders write into their boxes, and asks for a new picture at each step. */
export function listen() {
  document.addEventListener("input", ({ target }) => note(target), { capture: true });
  document.addEventListener("htmx:config:request", ({ detail }) => {
    asked += 1;
    numbers.set(detail.ctx, asked);
  });
  listenToChoices(ask);
  document.addEventListener("focusin", (event) => {
    held = event.target;
    began = held.value;
  });
  document.addEventListener("keydown", takeBack);
  document.addEventListener("click", ({ target }) => {
    const part = target.closest?.("summary")?.parentElement;
    if (part) folds.set(foldName(part), !part.open);
  });
  document.addEventListener("input", (event) => {
    const slide = event.target;
    // Half-typed JSON is none: it is read when its box is left.
    if (slide.matches?.("textarea")) event.stopPropagation();
    if (!slide.matches?.("input.slide")) return;
    event.stopPropagation();
    const box = document.getElementById(slide.dataset.for);
    box.value = written(slide);
    note(box);
    slide.setAttribute("aria-valuetext", box.value || box.placeholder);
    performance.mark("lab:input");
    ask();
  }, { capture: true });
  document.addEventListener("change", (event) => {
    if (event.target.matches?.("input.slide")) event.stopPropagation();
  }, { capture: true });
}

/** Escape takes back what has been typed into a box since it has the focus. */
function takeBack({ key, isComposing, target: box }) {
  const typed = box.matches?.("textarea, input:not([type])") && box.form === form;
  if (key !== "Escape" || isComposing || !typed || box.value === began) return;
  box.value = began;
  box.dispatchEvent(new Event("input", { bubbles: true }));
}

/** Keeps in mind what a field has been given: an answer to what was asked before does not know of it. */
function note(field) {
  if (field.form === form && field.name) given.set(keyOf(field), { after: asked, text: field.value });
}

/** Of the charts' boxes, which share a name, each is a field of its own. */
function keyOf(field) {
  return field.type === "checkbox" ? `${field.name}=${field.value}` : field.name;
}

/** Gives what a field has been given since the request of this number was asked; null where it was nothing. */
function since(key, number) {
  const one = given.get(key);
  return one !== undefined && one.after >= number ? one : null;
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

/**
 * Shows what the server says about the form: errors, where sliders stand, what fields hold that nobody has just filled.
 * `answered` is the request that it answers.
 */
export function apply(data, answered) {
  // Somebody was faster than the answers: the controls are those of a policy that is no longer chosen.
  behind = !behind && !data.policies && !belongs(data);
  if (behind) {
    ask();
    return;
  }
  const number = numbers.get(answered) ?? asked;
  if (data.policies) refill(number);
  fold();
  showErrors(data);
  showPolicies(data);
  for (const place of document.querySelectorAll("[data-stands]")) {
    write(place, data.stands?.[place.dataset.stands] ?? "");
  }
  fill(data, number);
  for (const [name, wanted] of Object.entries(data.charts ?? {})) {
    document.getElementById(`figure-${name}`)?.toggleAttribute("hidden", !wanted);
  }
  keepPlace();
  showNew(data);
}

/** Leaves open what was open: parts of the page that come anew come folded as they first were. */
function fold() {
  for (const part of document.querySelectorAll("details")) {
    const name = foldName(part);
    // On a phone the picture comes first; what can be changed is a tap away.
    const first = part.open && !(phone.matches && part.matches(".parameters, .ask") && !part.querySelector(".wrong"));
    const open = folds.get(name) ?? first;
    if (part.open !== open) part.open = open;
    folds.set(name, open);
  }
}

function foldName(part) {
  return `${part.closest("fieldset")?.id ?? ""} ${part.className}`;
}

function showErrors(data) {
  const wrong = new Set();
  for (const place of document.querySelectorAll("[data-error]")) {
    const text = data.errors[place.dataset.error] ?? "";
    write(place, text);
    place.closest(".control")?.classList.toggle("wrong", text !== "");
    if (text) wrong.add(place.id);
  }
  for (const field of form.elements) {
    const told = field.getAttribute("aria-describedby")?.split(" ") ?? [];
    if (told.some((id) => wrong.has(id))) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  }
  for (const card of document.querySelectorAll(".card")) {
    // What the controls hold belongs to other JSON than the one in the box.
    const unread = data.unread.includes(card.id.at(-1));
    card.querySelector(".parameters")?.toggleAttribute("inert", unread);
  }
}

/** Tells whether the controls on the page are those that the server speaks of. */
function belongs(data) {
  return Object.entries(data.set.texts).filter(([name]) => name.endsWith(".of")).every(([name, text]) => {
    const here = form.elements.namedItem(name)?.value ?? text;
    return here === text || (here.startsWith("json") && text.startsWith("json"));
  });
}

/**
 * Gives fields of policies what their new markup says. They are the elements that they were, so that nobody loses the
 * focus or what is typed ahead; and what somebody has done since that answer was asked for stays.
 */
function refill(number) {
  let typed = false;
  for (const field of document.querySelectorAll("#policies :is(select, textarea, input:not(.slide))")) {
    const newer = since(field.name, number);
    const text = newer ? newer.text : marked(field);
    if (field.value !== text) field.value = text;
    typed ||= newer !== null && field.matches("input") && text !== marked(field);
  }
  // Asked for beside the choice before, it was taken for a parameter of that.
  if (typed) ask();
}

function marked(field) {
  if (!field.options) return field.defaultValue;
  return ([...field.options].find((option) => option.defaultSelected) ?? field.options[0]).value;
}

/** Says what each policy comes to, and hides what does nothing under its jitter. */
function showPolicies(data) {
  for (const [key, text] of Object.entries(data.summaries ?? {})) {
    const place = document.querySelector(`#card-${key} .summary`);
    if (place) write(place, text);
  }
  for (const place of document.querySelectorAll(".card [data-error]")) {
    place.closest(".control")?.toggleAttribute("hidden", data.idle?.includes(place.dataset.error) ?? false);
  }
}

/** Fills what the server has set, but for what somebody has filled since the request of this number. */
function fill(data, number) {
  const free = (field, key) => since(key, number) === null && field !== document.activeElement;
  for (const [name, text] of Object.entries(data.set.texts)) {
    const field = form.elements.namedItem(name);
    if (field && free(field, name) && field.value !== text) field.value = text;
  }
  for (const slide of document.querySelectorAll("input.slide")) {
    const [at, end] = data.set.sliders[slide.dataset.name] ?? [];
    if (end !== undefined) slide.max = end;
    if (at !== undefined && free(slide, slide.dataset.name)) slide.value = at;
    const box = document.getElementById(slide.dataset.for);
    slide.setAttribute("aria-valuetext", box.value || box.placeholder);
  }
}

/** Brings a policy that was just added into sight, which many others may have pushed away. */
function showNew(data) {
  const there = [...document.querySelectorAll(".card")];
  const added = there.find((card) => !cards.has(card.id));
  const behavior = calm.matches ? "auto" : "smooth";
  if (added && cards.size) added.scrollIntoView({ block: "nearest", behavior });
  cards = new Set(there.map((card) => card.id));
}

/** Puts the focus near to where it was, if that has gone: whoever works by keyboard need not begin again at the top. */
function keepPlace() {
  const inert = held?.closest("[inert]");
  if (held === null || (!inert && (held.isConnected || document.activeElement !== document.body))) return;
  const card = held.closest(".card")?.id;
  const near = (!inert && held.id && document.getElementById(held.id))
    || (card && (document.querySelector(`#${card} textarea`) ?? document.querySelector(`#${card} select`)))
    || [...document.querySelectorAll(".choose select, .add button")].at(-1);
  near?.focus({ preventScroll: true });
}
