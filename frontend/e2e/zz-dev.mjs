import { first } from "./first.mjs";
import { open, Report } from "./lib.mjs";
const report = new Report();
const [, , base, empty] = process.argv;
const { browser, context, page } = await open(base, report);
await first({ base, empty, browser, context, page, report, id: Date.now().toString(36) });
await browser.close();
console.log(report.failures.length ? `${report.failures.length} failed:\n- ${report.failures.join("\n- ")}` : `all passed (${report.passed} checks)`);
process.exit(report.failures.length ? 1 : 0);
