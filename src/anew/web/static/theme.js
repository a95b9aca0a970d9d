// Before anything is drawn: the page knows that scripts run, and whether somebody has chosen light or dark.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  let chosen = null;
  try {
    chosen = localStorage.getItem("anew-theme");
  } catch {
    // A browser that keeps nothing follows the system.
  }
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
})();
