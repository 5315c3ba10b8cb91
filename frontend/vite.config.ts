import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// NEREID_CONSOLE: address of a running server for "npm run dev".
const target = process.env["NEREID_CONSOLE"] ?? "http://127.0.0.1:8003";

export default defineConfig({
  base: "./",
  plugins: [svelte()],
  build: { target: "safari16", sourcemap: false, modulePreload: { polyfill: false } },
  server: { proxy: { "/api": { target, changeOrigin: true, headers: { Origin: target } }, "/config.js": { target } } },
  // Without the browser condition, vitest would mount the server build of Svelte.
  resolve: process.env["VITEST"] ? { conditions: ["browser"] } : {},
  // The limits only stop a hang: a busy machine takes many times longer than usual.
  test: { environment: "happy-dom", include: ["src/**/*.test.ts"], testTimeout: 120_000, hookTimeout: 120_000, teardownTimeout: 120_000 },
});
