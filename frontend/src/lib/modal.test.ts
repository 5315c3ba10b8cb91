import { afterEach, beforeEach, expect, it } from "vitest";
import { modal } from "./modal";

let opener: HTMLButtonElement;

beforeEach(() => {
  // jsdom has no dialogs; of a modal one, its first button has the focus.
  HTMLDialogElement.prototype.showModal = function () { this.open = true; this.querySelector("button")?.focus(); };
  HTMLDialogElement.prototype.close = function () { this.open = false; };
  document.body.innerHTML = "<button>open</button>";
  opener = document.querySelector("button")!;
  opener.focus();
});
afterEach(() => (document.body.innerHTML = ""));

function open() {
  const el = document.createElement("dialog");
  el.innerHTML = "<button>close</button>";
  document.body.append(el);
  const action = modal(el);
  return { el, leave: () => (el.remove(), action.destroy()) };
}

it("gives the focus back to what opened it", () => {
  const one = open();
  expect(document.activeElement).not.toBe(opener);
  one.leave();
  expect(document.activeElement).toBe(opener);
});

it("gives the focus back to what opened the first of several, one after the other", () => {
  const upload = open();
  const review = open(); // it is there before the first one goes
  upload.leave();
  const done = open();
  review.leave();
  done.leave();
  expect(document.activeElement).toBe(opener);
});

it("gives the focus back to the dialog below", () => {
  const below = open();
  const above = open();
  above.leave();
  expect(document.activeElement).toBe(below.el.querySelector("button"));
});
