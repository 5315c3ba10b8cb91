import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { alerts, alertText, figure, filesChanged } from "./alerts.svelte";
import type { Alert, ModelLoad } from "./api.gen";
import { i18n } from "./i18n/index.svelte";

const alert = (id: number, change: Partial<Alert> = {}): Alert => ({
  id, kind: "failures", model: "m", version: "1", sinceMs: 0, endMs: 0, value: 0.333, limit: 0.05, silenced: false, compared: null, ...change,
});
const compared = { before: "1", slower: true, failsMore: true, beforeUs: 1000, nowUs: 2000, beforeFailures: 0, nowFailures: 0.5, beforeCpu: 0.2, nowCpu: 0.9 };

describe("texts of alerts", () => {
  afterEach(() => i18n.set("en"));
  it("has value and limit in the unit of the kind", () => {
    expect(alertText(alert(1))).toBe("33 % of the requests of the last minute failed. The limit is 5.0 %.");
    expect(figure("p99", 1500)).toBe("1.50 ms");
    expect(figure("memory", 1 << 20)).toBe("1.00 MiB");
    expect(figure("queue", 12)).toBe("12");
  });
  it("says what a comparison found, also in Chinese", () => {
    const a = alert(1, { kind: "version", version: "2", value: 2, compared });
    expect(alertText(a)).toBe("Compared with version 1: requests take 2.00 ms (1.00 ms before, factor 2.00); 50 % of the requests fail (0.0 % before); the CPU is 90 % busy (20 % before).");
    expect(alertText({ ...a, version: "1", compared: { ...compared, failsMore: false, beforeCpu: null } })).toContain("before it was loaded again");
    i18n.set("zh");
    expect(alertText(a)).toContain("与之前的版本 1 相比");
  });
});

it("finds the loads whose files are others than those of the load of the same version before", () => {
  const load = (version: string, files: string) => ({ version, files }) as ModelLoad;
  const loads = [load("1", "b"), load("2", "x"), load("1", "a"), load("1", "a"), load("1", "")];
  expect(loads.map((_, i) => filesChanged(loads, i))).toEqual([true, false, false, false, false]);
});

describe("notifications", () => {
  const shown: string[] = [];
  beforeEach(() => {
    shown.length = 0;
    class Fake {
      static permission = "granted";
      static requestPermission = () => Promise.resolve("granted");
      constructor(title: string, options: { body: string; tag: string }) {
        shown.push(`${title} ${options.tag}`);
      }
    }
    vi.stubGlobal("Notification", Fake);
  });
  afterEach(() => vi.unstubAllGlobals());

  it("are of new alerts that are not silenced, once each, and only if they are wanted", async () => {
    alerts.take({ open: [alert(1)], past: [] }); // what was there when the page opened
    alerts.take({ open: [alert(2), alert(1)], past: [] });
    expect(shown).toEqual([]); // not wanted yet
    expect(await alerts.setNotices(true)).toBe(true);
    alerts.take({ open: [alert(4, { silenced: true }), alert(3), alert(2)], past: [alert(1, { endMs: 5 })] });
    alerts.take({ open: [alert(4, { silenced: true }), alert(3), alert(2)], past: [] });
    expect(shown).toEqual(["Nereid: m nereid-alert-3"]);
    expect(alerts.urgent.map((a) => a.id)).toEqual([3, 2]);
    expect(await alerts.setNotices(false)).toBe(true);
    alerts.take({ open: [alert(5)], past: [] });
    expect(shown).toHaveLength(1);
  });
});
