import { cleanup, render, screen } from "@testing-library/svelte";
import { afterEach, expect, it, vi } from "vitest";
import type { NewVersion, Server as State } from "../../lib/api.gen";
import Server from "./Server.svelte";

/** serves answers /api/server; other requests stay without an answer. */
const serves = (newVersion: NewVersion) => {
  const state: State = {
    name: "triton", version: "0.1.0", newVersion, tritonVersion: "2.60.0", live: true, ready: true, startMs: 0, nowMs: 1000,
    addresses: { http: "", grpc: "", metrics: "", console: "", kiosk: "", kioskNetwork: "", tls: [], token: false }, modelControlMode: "none", pollMs: 0,
    repositories: [], dataDir: "/data", onnxRuntime: { version: "", library: "", error: "" }, backends: [],
    history: { sizeBytes: 0, oldestMs: 0, dropped: 0 }, process: { pid: 1, os: "linux", arch: "amd64", cpus: 1, goVersion: "", rssBytes: 0, cpuSeconds: 0 },
    warnings: [], scopes: ["admin"], desktop: false,
  };
  vi.stubGlobal("fetch", vi.fn((to: RequestInfo | URL) => String(to).endsWith("/api/server") ? Promise.resolve(new Response(JSON.stringify(state))) : new Promise<Response>(() => undefined)));
};

afterEach(() => (cleanup(), vi.unstubAllGlobals()));

it("shows a new version, and its link as text", async () => {
  serves({ version: "0.2.0", link: "https://example.com/releases" });
  render(Server);
  expect((await screen.findByText("New version")).nextElementSibling?.textContent).toBe("0.2.0 https://example.com/releases");
  expect(screen.queryByRole("link", { name: /example/ })).toBeNull();
});

it("has no line without a new version", async () => {
  serves({ version: "", link: "" });
  render(Server);
  await screen.findByText("/data");
  expect(screen.queryByText("New version")).toBeNull();
});
