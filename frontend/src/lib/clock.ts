// The server's clock, as far as this page knows it. The browser may run on another machine, whose clock differs.

let aheadMs = 0;

/** Notes that the server said its time, serverMs, when the browser's clock showed atMs. */
export function noteServerTime(serverMs: number, atMs: number): void {
  aheadMs = serverMs - atMs;
}

/** The server's time in milliseconds since 1970; the browser's until the server has said it. */
export const serverNow = () => Date.now() + aheadMs;
