// A region that scrolls must be reachable by keyboard; one that does not scroll must not cost a Tab.

/** Svelte action: puts the element into the tab order while its content is larger than it is. */
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
