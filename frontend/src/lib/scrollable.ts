// A scrolling region must be reachable by keyboard; others must not be a tab stop.

/** Svelte action: makes the element a tab stop while its content overflows. */
export function scrollable(el: HTMLElement): { destroy: () => void } {
  const update = () => {
    if (el.scrollHeight > el.clientHeight + 1 || el.scrollWidth > el.clientWidth + 1) el.tabIndex = 0;
    else el.removeAttribute("tabindex");
  };
  const sizes = new ResizeObserver(update);
  sizes.observe(el);
  const content = new MutationObserver(update);
  content.observe(el, { childList: true, subtree: true, characterData: true });
  update();
  return {
    destroy: () => {
      sizes.disconnect();
      content.disconnect();
    },
  };
}
