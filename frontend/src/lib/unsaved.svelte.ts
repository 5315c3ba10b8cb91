// Edits that are not saved: the browser asks before the page is left, and the desktop window before it closes.
import { inWindow } from "./drop";

let edits = 0;

function count(n: number): void {
  edits += n;
  if (inWindow()) window.runtime?.EventsEmit("nereid-unsaved", edits > 0);
}

addEventListener("beforeunload", (e) => {
  if (edits > 0) e.preventDefault();
});
addEventListener("pageshow", () => count(0)); // after a reload the window must forget what it heard

/** Keeps the page from being left unasked while there are edits. It is called when a component is made. */
export function guardEdits(are: () => boolean): void {
  $effect(() => {
    if (!are()) return;
    count(1);
    return () => count(-1);
  });
}
