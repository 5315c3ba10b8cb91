// Events that repeat, as one row.
import type { Event } from "./api.gen";

/** The newest event of each kind, model and text, with how many there are of it, by its ID. events is newest first. */
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
