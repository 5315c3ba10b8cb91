/** Returns a function that asks, and passes the answer to set. What was asked before the newest question is dropped, errors too. */
export function latest<T>(set: (answer: T) => void): (ask: () => Promise<T>) => Promise<void> {
  let newest = 0;
  return async (ask) => {
    const mine = ++newest;
    try {
      const answer = await ask();
      if (mine === newest) set(answer);
    } catch (e) {
      if (mine === newest) throw e;
    }
  };
}
