// Lists to choose from: by mouse a choice holds at once, by keyboard as soon as nothing more is pressed.

/** Quiet after which a choice by keyboard holds: letters typed ahead and arrow keys pass many others by. */
const SETTLED_MS = 600;

let keyed = "", waiting = 0;

/** Asks for a new picture when something has been chosen. */
export function listenToChoices(ask) {
  for (const kind of ["input", "change"]) document.addEventListener(kind, keepOne, { capture: true });
  document.addEventListener("pointerdown", () => { keyed = ""; }, { capture: true });
  document.addEventListener("keydown", ({ target }) => {
    keyed = target.name ?? "";
    if (waiting && isChoice(target)) settle(ask);  // a letter that changes nothing may still be one of many
  }, { capture: true });
  document.addEventListener("input", (event) => {
    if (isChoice(event.target)) event.stopImmediatePropagation();  // the change comes right behind it
  }, { capture: true });
  document.addEventListener("change", (event) => {
    if (!isChoice(event.target)) return;
    event.stopImmediatePropagation();
    if (keyed !== "" && keyed === event.target.name) settle(ask);
    else ask();
  }, { capture: true });
  document.addEventListener("focusout", ({ target, relatedTarget }) => {
    // Arrow keys take the focus from one button of a group to the next: that is no leaving.
    if (waiting && target.name !== relatedTarget?.name) ask();
  });
  document.addEventListener("htmx:config:request", () => {  // it takes along all that the form holds
    clearTimeout(waiting);
    waiting = 0;
  });
}

/** Keeps the last chart ticked: none at all stands for all of them, which nobody means who unticks. */
function keepOne(event) {
  if (event.target.name !== "chart" || document.querySelector('[name="chart"]:checked')) return;
  event.target.checked = true;
  event.stopImmediatePropagation();
}

/** Asks as soon as it has been quiet. */
function settle(ask) {
  clearTimeout(waiting);
  waiting = setTimeout(ask, SETTLED_MS);
}

function isChoice(field) {
  return field.matches?.("select, input[type=radio]") && field.form?.id === "form";
}
