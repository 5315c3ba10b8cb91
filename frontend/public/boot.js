// Runs before everything else, as its own file so that the content security policy needs no inline script.
"use strict";
(function () {
  // WebKit under LANG=C answers navigator.language "C"; Intl then throws and nothing would be shown.
  try {
    new Intl.NumberFormat(navigator.language);
  } catch (e) {
    Object.defineProperty(navigator, "language", { value: "en-US", configurable: true });
    Object.defineProperty(navigator, "languages", { value: ["en-US"], configurable: true });
  }

  // The theme is set before the first paint, so that a dark page does not flash white.
  try {
    var theme = localStorage.getItem("nereid.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch (e) {
    // no storage: use the preference of the system
  }

  // Errors of the page go to the log of the server, but only a few, so that a loop cannot flood it.
  var left = 5;
  function report(message, source, line, column, stack) {
    if (left-- <= 0) return;
    fetch((window.__base || "") + "/api/client-errors", {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Nereid": "1" },
      body: JSON.stringify({
        message: String(message).slice(0, 2000),
        source: String(source || ""),
        line: line || 0,
        column: column || 0,
        stack: String(stack || "").slice(0, 8000),
        page: location.hash,
        userAgent: navigator.userAgent,
      }),
    }).catch(function () {});
  }
  window.addEventListener("error", function (e) {
    if (e.message) report(e.message, e.filename, e.lineno, e.colno, e.error && e.error.stack);
  });
  window.addEventListener("unhandledrejection", function (e) {
    var r = e.reason;
    report(r && r.message ? r.message : r, "", 0, 0, r && r.stack);
  });
})();
