// The address keeps the state. What is chosen makes an entry that Back undoes; what is slid or typed rewrites the entry.

/** Browsers bound how often an address may be rewritten, and load the icon each time: it is done when a slider rests. */
const REST_MS = 300;

/** The query of the state that is shown. */
let here = location.search;
/** What is chosen in that state; null before the first one. */
let step = null;
/** Somebody has gone back: the page of that state is on its way. */
let leaving = false;
/** The address that is to be written when a slider rests, and what will do it; null where it is written. */
let pending = null, rest = 0;

/** Follows a state that is about to be shown; false where it is stale: somebody has gone back since it was asked for. */
export function follow(data) {
  if (leaving) return false;
  const begin = step === null;
  // JSON that cannot be read has no parts to compare: it makes no entry.
  const next = !begin && data.unread?.length ? step : data.step;
  if (!begin && next !== step) {
    settle();  // the entry that is left keeps what was shown last
    history.pushState(null, "", data.url);
    here = location.search;
  } else if (!begin) {
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

/** Loads the state to which somebody goes, Back or Forward. */
export function comeBack() {
  addEventListener("pagehide", settle);
  addEventListener("popstate", () => {
    if (location.search === here) return;  // another place of the same state
    pending = null;  // it was for the entry that is left
    leaving = true;
    location.reload();
  });
}
