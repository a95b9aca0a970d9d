// Texts change with each step of a slider, and some need a line more or less: what stands below them is not to jump.

const heights = new Map();
let wide = innerWidth, left = false;

addEventListener("focusout", () => { left = true; });

/** Lets texts grow and not shrink, until another control is used; `anew` where the page has other policies now. */
export function steady(anew) {
  const texts = [...document.querySelectorAll(".words, .summary")];
  const loose = anew || innerWidth !== wide;
  for (const text of texts) {
    // A summary stands above its own sliders: it would take them away from under the pointer.
    if (loose || (left && text.id)) free(text);
  }
  [wide, left] = [innerWidth, false];
  // All is read before anything is written: in turns each of them would lay out the page anew.
  const now = texts.map((text) => text.getBoundingClientRect().height);
  texts.forEach((text, place) => {
    const tall = Math.max(now[place], heights.get(nameOf(text)) ?? 0);
    heights.set(nameOf(text), tall);
    if (tall > now[place]) text.style.minHeight = `${tall}px`;
  });
}

function free(text) {
  text.style.minHeight = "";
  heights.delete(nameOf(text));
}

function nameOf(text) {
  return text.id || text.closest("fieldset")?.id;
}
