// The overview follows: htmx asks for it every 5 s. Not while nobody sees it, and not where somebody has switched it off.
(() => {
  const follow = document.getElementById("follow");
  const told = document.getElementById("told");
  const tell = wrong => { told.textContent = wrong ? "The server does not answer; this is what it showed last." : ""; };
  document.addEventListener("htmx:before:request", event => {
    if (document.hidden || !follow.checked) event.preventDefault();
  });
  document.addEventListener("htmx:error", () => tell(true));
  document.addEventListener("htmx:after:request", ({ detail }) => tell(detail.ctx.response.status >= 400));
})();
