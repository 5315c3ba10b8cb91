// Toasts: short messages, each with at most one action.

export interface Toast {
  id: number;
  kind: "info" | "error" | "ok";
  text: string;
  action?: { label: string; run: () => void };
}

class Toasts {
  items = $state<Toast[]>([]);
  private next = 1;

  /** Shows a message. Errors stay until they are closed; others disappear after some seconds. */
  show(kind: Toast["kind"], text: string, action?: Toast["action"]): void {
    const id = this.next++;
    this.items.push(action ? { id, kind, text, action } : { id, kind, text });
    if (this.items.length > 4) this.items.shift();
    if (kind !== "error") setTimeout(() => this.close(id), action ? 12_000 : 5000);
  }

  close(id: number): void {
    this.items = this.items.filter((t) => t.id !== id);
  }
}

export const toasts = new Toasts();
