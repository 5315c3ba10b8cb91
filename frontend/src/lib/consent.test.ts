import { describe, expect, it, vi } from "vitest";
import { ApiError, withConsent } from "./api";

describe("withConsent", () => {
  const refused = new ApiError("1/ops.dat (a native library) runs as code", "consent", 412);
  it.each([[true, 2], [false, 1]])("asks once, and an answer of %s makes %d requests", async (answer, calls) => {
    const confirm = vi.fn(() => answer);
    vi.stubGlobal("confirm", confirm);
    const request = vi.fn(async (consent: boolean) => (consent ? "saved" : Promise.reject(refused)));
    const result = await withConsent(request).catch((e: unknown) => e);
    expect(result).toBe(answer ? "saved" : refused);
    expect(request).toHaveBeenCalledTimes(calls);
    expect(confirm).toHaveBeenCalledExactlyOnceWith(expect.stringContaining("1/ops.dat"));
    vi.unstubAllGlobals();
  });
  it("asks nothing about other errors", async () => {
    const conflict = new ApiError("changed meanwhile", "conflict", 409);
    await expect(withConsent(() => Promise.reject(conflict))).rejects.toBe(conflict);
  });
});
