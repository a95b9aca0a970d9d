// The address keeps the state. What is chosen makes an entry that Back undoes; what is slid or typed rewrites the entry.

/** Tells the server that the form holds another state than the address: it is to send what every field holds. */
const RESTORE = "HX-History-Restore-Request";

/** The query of the state that is shown, or has been gone back to. */
let here = location.search;
/** What is chosen in that state; null before the first one. */
let step = null;
/** The edit that made the entry; null where something else did. */
let made = null;
/** Somebody has gone back, and that state has not come yet. */
let wanted = false;
/** The request for that state while it is under way. */
let going = null;
/** What was asked for meanwhile waits until that state is here, and the button that asked for it. */
let held = false, pressed = null;
/** Nobody has answered: what is shown is not the state of the entry that the address is at. */
let astray = false;
/** Browsers bound how often an address may be rewritten, and load the icon each time: it is done when a slider rests. */
const REST_MS = 300;
/** The address that is to be written then, and what will do it; null where it is written. */
let pending = null, rest = 0;

/**
 * Follows a state that is about to be shown; false where it is stale: somebody has gone back since it was asked for.
 * `edit` is the number of the edit that it comes from: what one edit chooses, passing others by, is one entry.
 */
export function follow(data, edit) {
  if (wanted && !data.restored) return false;
  const lost = astray;
  wanted = astray = false;
  if (step === null || data.restored) {
    // The page as it was opened, or an entry gone back to: the address is that already.
    step = data.step;
    made = null;
    return true;
  }
  // JSON that cannot be read, and never could, has no parts to compare: it makes no entry.
  const next = data.unread?.some((key) => !data.before.includes(key)) ? step : data.step;
  const further = lost || (next !== step && (edit === null || edit !== made));
  if (further) {
    settle();  // the entry that is left keeps what was shown last
    history.pushState(null, "", data.url);
    here = location.search;
    made = edit;
  } else {
    pending = data.url;
    clearTimeout(rest);
    rest = setTimeout(settle, REST_MS);
  }
  step = next;
  return true;
}

/** Writes the address of what is shown, where that is still to be done. */
export function settle() {
  if (pending === null) return;
  history.replaceState(null, "", pending);
  pending = null;
  here = location.search;
}

/** Brings back the state to which somebody went, Back or Forward; `ask` asks the server for what the form holds. */
export function comeBack(form, ask) {
  addEventListener("pagehide", settle);
  addEventListener("popstate", () => {
    if (location.search === here) return;  // another place of the same state
    here = location.search;
    pending = null;  // it was for the entry that is left
    wanted = true;
    [going, held, pressed] = [null, false, null];
    form.dispatchEvent(new CustomEvent("htmx:abort"));
    ask();
  });
  // In capture: of what is held the other listeners hear when it is asked for.
  document.addEventListener("htmx:config:request", (event) => {
    if (going !== null) hold(event);
    else if (wanted) restore(event.detail);
  }, { capture: true });
  document.addEventListener("htmx:error", ({ detail: { ctx } }) => {
    // The next edit is one of what is shown. (A refusal is an answer: after it that state is still to come.)
    if (ctx === going) [wanted, astray] = [false, true];
  });
  document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
    if (ctx === going) goOn(form, ask);
  });
}

/** Keeps a request back: the form still holds the state that is left. */
function hold(event) {
  [held, pressed] = [true, event.detail.ctx.request.submitter ?? pressed];
  event.preventDefault();
  event.stopPropagation();
}

/** Makes a request ask for the state of the address in place of that of the form. */
function restore(detail) {
  going = detail.ctx;
  going.request.body = fields(here);
  going.request.headers[RESTORE] = "true";
  // After a refusal it is the same request once more: what was filled since the first one is newer than its answer.
  detail.again = held;
}

/** Asks for what was held, now that the form holds the state gone back to besides. */
function goOn(form, ask) {
  going = null;
  if (wanted || !held) return;
  const button = pressed;
  [held, pressed] = [false, null];
  if (button?.isConnected) form.requestSubmit(button);
  else ask();
}

function fields(query) {
  const made = new FormData();
  for (const [name, text] of new URLSearchParams(query)) made.append(name, text);
  return made;
}
