// Lists to choose from: by mouse a choice holds at once, by keyboard as soon as nothing more is pressed.

/** Quiet after which a choice by keyboard holds: letters typed ahead and arrow keys pass many others by. */
const SETTLED_MS = 600;

let keyed = "", waiting = 0;

/** What is edited now, from focus to blur, and its number; a choice by mouse and a button's press have one of their own. */
let edited = "", edit = 0;
/** Numbers of the edits that no request has taken along yet, and of those that each request has. */
let touched = new Set();
const taken = new WeakMap();

/** Asks for a new picture when something has been chosen. */
export function listenToChoices(ask) {
  for (const kind of ["input", "change"]) document.addEventListener(kind, keepOne, { capture: true });
  document.addEventListener("pointerdown", () => { keyed = ""; }, { capture: true });
  document.addEventListener("keydown", ({ target }) => {
    keyed = target.name ?? "";
    if (waiting && isChoice(target)) settle(ask);  // a letter that changes nothing may still be one of many
  }, { capture: true });
  document.addEventListener("input", (event) => {
    if (event.target.name !== edited) leave();
    if (isChoice(event.target)) event.stopImmediatePropagation();  // the change comes right behind it
  }, { capture: true });
  document.addEventListener("change", (event) => {
    const byKey = keyed !== "" && keyed === event.target.name && isChoice(event.target);
    if (event.target.matches?.("input[type=checkbox]")) touch("", false);
    if (!isChoice(event.target)) return;
    touch(event.target.name, byKey);
    event.stopImmediatePropagation();
    if (byKey) settle(ask);
    else ask();
  }, { capture: true });
  document.addEventListener("click", ({ target }) => {
    if (target.closest?.("button")?.form) touch("", false);
  }, { capture: true });
  document.addEventListener("focusout", ({ target, relatedTarget }) => {
    // Arrow keys take the focus from one button of a group to the next: that is no leaving.
    if (target.name === relatedTarget?.name) return;
    leave();
    if (waiting) ask();
  });
  document.addEventListener("htmx:config:request", ({ detail }) => {  // it takes along all that the form holds
    clearTimeout(waiting);
    waiting = 0;
    taken.set(detail.ctx, touched);
    touched = new Set();
  });
}

/** Keeps the last chart ticked: none at all stands for all of them, which nobody means who unticks. */
function keepOne(event) {
  if (event.target.name !== "chart" || document.querySelector('[name="chart"]:checked')) return;
  event.target.checked = true;
  event.stopImmediatePropagation();
}

/** Gives the number of the one edit that a request has taken along; null where there were others, or none. */
export function editOf(request) {
  const edits = taken.get(request);
  return edits?.size === 1 ? [...edits][0] : null;
}

/** Notes an edit: by keyboard it goes on as long as its field is not left, however slow. */
function touch(name, byKey) {
  if (!byKey || name !== edited) edit += 1;
  edited = name;
  touched.add(edit);
}

function leave() {
  edited = "";
}

/** Asks as soon as it has been quiet. */
function settle(ask) {
  clearTimeout(waiting);
  waiting = setTimeout(ask, SETTLED_MS);
}

function isChoice(field) {
  return field.matches?.("select, input[type=radio]") && field.form?.id === "form";
}
