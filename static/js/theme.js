/* Runs before the first paint: the stored choice wins, then the system's. */
(function () {
  "use strict";
  let kept = null;
  try { kept = localStorage.getItem("theme"); } catch { /* storage is off: the system decides */ }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.bsTheme = kept || (dark ? "dark" : "light");
})();
