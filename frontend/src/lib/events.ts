// Groups events that repeat, so that a list shows them as one row.
import type { Event } from "./api.gen";

/** Returns the newest event of each kind, model and text, and by its ID how many there are. `events` is newest first. */
export function groups(events: readonly Event[]): { events: Event[]; counts: Map<number, number> } {
  const newest = new Map<string, Event>();
  const counts = new Map<number, number>();
  for (const e of events) {
    const key = JSON.stringify([e.kind, e.model, e.text]);
    const first = newest.get(key) ?? e;
    newest.set(key, first);
    counts.set(first.id, (counts.get(first.id) ?? 0) + 1);
  }
  return { events: [...newest.values()], counts };
}
