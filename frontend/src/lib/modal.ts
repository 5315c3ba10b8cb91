// Native modal dialogs. They keep the focus inside and handle Escape; the focus goes back to where it was.

/** What had the focus before a dialog was opened. */
const openers = new WeakMap<HTMLDialogElement, HTMLElement>();

/** Opens a dialog. A dialog that follows another one, as in an import, gives the focus to what opened the first. */
export function modal(el: HTMLDialogElement): { destroy: () => void } {
  const before = document.activeElement instanceof HTMLElement ? document.activeElement : null;
  const outer = before?.closest("dialog");
  const opener = (outer && openers.get(outer)) || before;
  if (opener) openers.set(el, opener);
  el.showModal();
  return {
    destroy: () => {
      el.close();
      // Browsers do so too, but not if the dialog has left the page before it is closed.
      [before, opener].find((e) => e?.isConnected)?.focus();
    },
  };
}
