// The first steps: take a model, try it, see its charts. The browser remembers how far they went, and that they were closed.
import { read, write } from "./prefs.svelte";

const key = "nereid.tour";

/** 0: closed. 1 to 3: the step that comes next. 4: all were done. */
export type TourStep = 0 | 1 | 2 | 3 | 4;

function kept(): TourStep {
  const n = Number(read(key));
  return n === 1 || n === 2 || n === 3 || n === 4 ? n : 0;
}

class Tour {
  step = $state<TourStep>(kept());
  /** The model that was tried last. */
  model = $state("");

  /** Begins, unless this browser has seen the steps before. */
  begin(): void {
    if (read(key) === null) this.set(1);
  }

  /** Step n was done. A step that nobody waits for changes nothing. */
  done(n: 1 | 2 | 3, model = ""): void {
    if (this.step !== n) return;
    if (model) this.model = model;
    this.set(([0, 2, 3, 4] as const)[n]);
  }

  close(): void {
    this.set(0);
  }

  private set(n: TourStep): void {
    this.step = n;
    write(key, String(n));
  }
}

export const tour = new Tour();
