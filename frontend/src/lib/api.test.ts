import { beforeEach, describe, expect, it, vi } from "vitest";
import { client } from "./api";
import { entry } from "./entry.svelte";
import { live } from "./live.svelte";
import { rights } from "./rights.svelte";
import { tabs } from "./router.svelte";

describe("client", () => {
  const fetchMock = vi.fn<typeof fetch>();
  beforeEach(() => {
    fetchMock.mockReset();
    vi.stubGlobal("fetch", fetchMock);
  });
  it("marks requests that change something, and only those", async () => {
    fetchMock.mockImplementation(async () => new Response("{}"));
    await client.load("a/b");
    await client.models();
    const [first, second] = fetchMock.mock.calls;
    expect(first?.[0]).toBe("/api/models/a%2Fb/load");
    expect(first?.[1]?.headers).toMatchObject({ "X-Nereid": "1" });
    expect(second?.[1]?.headers).toEqual({});
  });
  it("keeps code, status and faults of an error", async () => {
    fetchMock.mockResolvedValue(new Response('{"error":"taken","code":"conflict"}', { status: 409 }));
    await expect(client.unload("x")).rejects.toMatchObject({ message: "taken", code: "conflict", status: 409, faults: [] });
  });
  it("H15 asks for a link or a token when the server does not let the browser in", async () => {
    fetchMock.mockResolvedValue(new Response('{"error":"no","code":"unauthenticated"}', { status: 401 }));
    await expect(client.models()).rejects.toMatchObject({ status: 401 });
    expect(entry.closed).toBe(true);
    fetchMock.mockReset();
    fetchMock.mockResolvedValueOnce(new Response(null, { status: 204 }));
    fetchMock.mockResolvedValueOnce(new Response('{"scopes":["infer","view"]}'));
    const start = vi.spyOn(live, "start").mockImplementation(() => undefined);
    await entry.open(" http://127.0.0.1:8003/#/open/SECRET ");
    expect(fetchMock.mock.calls[0]?.[1]?.body).toBe('{"secret":"SECRET"}');
    expect([entry.closed, start.mock.calls.length]).toEqual([false, 1]);
    await vi.waitFor(() => expect([rights.change, rights.infer]).toEqual([false, true]));
    expect(tabs.filter((x) => rights.tab(x))).toEqual(["overview", "try", "charts"]);
    rights.scopes = ["admin"];
    start.mockRestore();
  });
  it("H15 stays open when a request from before the session is refused after it", async () => {
    let answer: (r: Response) => void = () => undefined;
    fetchMock.mockReturnValueOnce(new Promise((ok) => (answer = ok)));
    const before = client.server();
    fetchMock.mockResolvedValueOnce(new Response(null, { status: 204 }));
    fetchMock.mockResolvedValueOnce(new Response('{"scopes":["admin"]}'));
    const start = vi.spyOn(live, "start").mockImplementation(() => undefined);
    await entry.open("SECRET");
    answer(new Response('{"error":"no","code":"unauthenticated"}', { status: 401 }));
    await expect(before).rejects.toMatchObject({ status: 401 });
    expect(entry.closed).toBe(false);
    start.mockRestore();
  });
  it("shows the text of a response that is not JSON", async () => {
    fetchMock.mockResolvedValue(new Response("bad gateway", { status: 502 }));
    await expect(client.models()).rejects.toMatchObject({ message: "bad gateway", status: 502 });
  });
  it("says when no server answers", async () => {
    fetchMock.mockRejectedValue(new TypeError("refused"));
    await expect(client.models()).rejects.toMatchObject({ code: "offline", message: "no answer from the server (refused)" });
  });
  it("sends no empty filters", async () => {
    fetchMock.mockResolvedValue(new Response('{"events":[],"more":false}'));
    await client.events({ model: "", limit: 5 });
    expect(fetchMock.mock.calls[0]?.[0]).toBe("/api/history/events?limit=5");
  });
});
