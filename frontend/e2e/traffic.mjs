// Traffic for measurements of the page.

/** Sends a request to each model twice a second, until the result is called. The models are builtin ones with an input INPUT0. */
export function keepBusy(http, models) {
  let on = true;
  const body = JSON.stringify({ inputs: [{ name: "INPUT0", datatype: "FP32", shape: [1, 16], data: Array(16).fill(1) }] });
  const sending = (async () => {
    while (on) {
      const start = Date.now();
      await Promise.all(models.map(async (m) => {
        const res = await fetch(`${http}/v2/models/${m}/infer`, { method: "POST", body });
        if (!res.ok) throw new Error(`${m}: ${await res.text()}`);
      }));
      await new Promise((ok) => setTimeout(ok, Math.max(0, 500 - (Date.now() - start))));
    }
  })();
  return () => ((on = false), sending);
}
