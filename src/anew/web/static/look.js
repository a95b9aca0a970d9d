// Colours and texts of the page as it looks now: by day or by night, with these policies.

const constants = JSON.parse(document.getElementById("constants").textContent);

export const ladders = constants.ladders;

/** Tells whether the page is dark now. */
export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Gives a colour of the style sheet, such as a policy's own under its letter: each has one for the day and one for the night. */
export function colour(name) {
  const [light, dark] = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).match(/#\w+/g);
  return isDark() ? dark : light;
}

/** Gives a colour with less of it: "#rrggbb" and a share. */
export function faint(hex, share) {
  return hex + Math.round(share * 255).toString(16).padStart(2, "0");
}

/** Gives one colour for each retry, spread over the whole ramp. */
export function retryColours(retries) {
  const ramp = constants.colours[isDark() ? "dark" : "light"];
  const last = Math.max(retries - 1, 1);
  return Array.from({ length: retries }, (_, k) => ramp[Math.floor((2 * k * (ramp.length - 1) + last) / (2 * last))]);
}

export const font = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';

/** Makes an element. */
export function element(name, attributes = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

/** Gives an element its text, unless it has it: what is written has to be laid out anew. */
export function write(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

/** Puts an element in the place of another, unless nobody would see a difference. */
export function replace(old, fresh) {
  if (!old.isEqualNode(fresh)) old.replaceWith(fresh);
}
