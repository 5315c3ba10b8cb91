import { describe, expect, it } from "vitest";
import * as f from "./format";

describe("format", () => {
  it.each([
    [null, "–"], [NaN, "–"], [0, "0 µs"], [0.5, "0.50 µs"], [12.34, "12.3 µs"], [999.4, "999 µs"], [999.6, "1.00 ms"],
    [1500, "1.50 ms"], [999_499, "999 ms"], [999_600, "1.00 s"], [61e6, "1 min 1 s"],
  ])("us(%s) = %s", (v, want) => expect(f.us(v)).toBe(want));

  it.each([[15, "15 s"], [1.5, "1.50 s"], [60, "1 min"], [3661, "1 h 1 min"], [93_784, "1 d 2 h"], [86_400, "1 d"]])(
    "seconds(%s) = %s", (v, want) => expect(f.seconds(v)).toBe(want));

  it.each([[0, "0 B"], [1023, "1023 B"], [1024, "1.00 KiB"], [1_048_575, "1.00 MiB"], [5 * 1024 ** 3, "5.00 GiB"]])(
    "bytes(%s) = %s", (v, want) => expect(f.bytes(v)).toBe(want));

  it.each([[null, "–"], [0, "0/s"], [2.345, "2.35/s"], [123.4, "123/s"], [43_100.4, "43,100/s"]])(
    "rate(%s) = %s", (v, want) => expect(f.rate(v)).toBe(want));

  it("names symbolic dimensions only where the size is open", () => {
    expect(f.shape([-1, 3, -1], ["N", "C", ""])).toBe("[N, 3, -1]");
    expect(f.shape([])).toBe("[]");
  });

  it("shows today's times without the date", () => {
    const now = new Date(2026, 10, 21, 12, 0, 0).getTime();
    expect(f.when(new Date(2026, 10, 21, 8, 5, 9).getTime(), now)).toBe("08:05:09");
    expect(f.when(new Date(2026, 10, 20, 8, 5, 9).getTime(), now)).toBe("2026-11-20 08:05");
  });

  it.each([[1, "1"], [0.1 + 0.2, "0.3"], [1.23456789e-9, "1.23457e-9"], [-2.5, "-2.5"]])("num(%s) = %s", (v, want) => expect(f.num(v)).toBe(want));
});
