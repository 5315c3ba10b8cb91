import { cleanup, fireEvent, render, screen } from "@testing-library/svelte";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Fault } from "../lib/api.gen";
import DiffView from "./DiffView.svelte";
import EventTable from "./EventTable.svelte";
import FaultList from "./FaultList.svelte";
import Keys from "./Keys.svelte";
import LoadStatus from "./LoadStatus.svelte";

afterEach(cleanup);

describe("Keys", () => {
  HTMLDialogElement.prototype.showModal = function () { this.open = true; };
  HTMLDialogElement.prototype.close = function () { this.open = false; };
  it("are shown after ?, and not while something is typed", async () => {
    render(Keys);
    const input = document.body.appendChild(document.createElement("input"));
    await fireEvent.keyDown(input, { key: "?" });
    expect(screen.queryByText("Keys")).toBeNull();
    input.remove();
    await fireEvent.keyDown(document.body, { key: "?" });
    expect(screen.getByText("Keys")).toBeTruthy();
    await fireEvent.click(screen.getByRole("button", { name: "Close" }));
    expect(screen.queryByText("Keys")).toBeNull();
  });
});

describe("FaultList", () => {
  const fault: Fault = { line: 3, col: 7, endLine: 3, endCol: 9, severity: "error", message: "unknown field", advice: "", field: "x", fixes: [{ label: "use y", edits: [] }] };
  it("shows place, text and fix, and reports what was clicked", async () => {
    const onreveal = vi.fn();
    const onfix = vi.fn();
    const onrecheck = vi.fn();
    render(FaultList, { faults: [fault, { ...fault, line: 0 }], known: true, onreveal, onfix, onrecheck });
    await fireEvent.click(screen.getByRole("button", { name: "3:7" }));
    expect(onreveal).toHaveBeenCalledWith(fault);
    await fireEvent.click(screen.getAllByRole("button", { name: "use y" })[0]!);
    expect(onfix).toHaveBeenCalledWith(fault, 0);
    await fireEvent.click(screen.getByRole("button", { name: "Check again" }));
    expect(onrecheck).toHaveBeenCalledOnce();
    expect(screen.getByRole("button", { name: "x" })).toBeTruthy(); // a fault without a position shows its field
  });
  it("says when there is none, but not of a text that was not checked", async () => {
    const { rerender } = render(FaultList, { faults: [], known: false, onreveal: vi.fn(), onfix: vi.fn(), onrecheck: vi.fn() });
    expect(screen.queryByText("No faults found")).toBeNull();
    await rerender({ known: true });
    expect(screen.getByText("No faults found")).toBeTruthy();
  });
});

describe("DiffView", () => {
  const props = { beforeTitle: "old", afterTitle: "new" };
  it("marks added and removed lines, also side by side", async () => {
    const { container } = render(DiffView, { ...props, before: "a\nb", after: "a\nc" });
    expect([...container.querySelectorAll("td.del, td.add")].map((x) => x.textContent?.trim())).toEqual(["− b", "+ c"]);
    await fireEvent.click(screen.getByRole("checkbox"));
    expect(container.querySelectorAll("td.half")).toHaveLength(4);
  });
  it("says when there is no difference", () => {
    render(DiffView, { ...props, before: "a\n", after: "a" });
    expect(screen.getByText("No difference.")).toBeTruthy();
  });
});

describe("LoadStatus", () => {
  it("offers to try again after an error", async () => {
    const retry = vi.fn();
    render(LoadStatus, { busy: false, error: "no answer", ready: true, retry });
    await fireEvent.click(screen.getByRole("button"));
    expect(retry).toHaveBeenCalledOnce();
    expect(screen.getByRole("alert").textContent).toContain("no answer");
  });
  it("says that it loads, but not over what is there", async () => {
    const { rerender } = render(LoadStatus, { busy: true, error: null, ready: false, retry: vi.fn() });
    expect(screen.getByRole("status")).toBeTruthy();
    await rerender({ ready: true });
    expect(screen.queryByRole("status")).toBeNull();
  });
});

it("EventTable links the model and its revision", () => {
  const event = { id: 1, tMs: 0, kind: "config_saved" as const, severity: "info" as const, model: "a b", version: "2", text: "saved", durationMs: 12, revision: 5, config: "" };
  render(EventTable, { props: { events: [event] } }); // render would read "events" alone as an option
  expect(screen.getAllByRole("link").map((a) => a.getAttribute("href"))).toEqual(["#/models/a%20b", "#/models/a%20b/revisions"]);
  expect(screen.getByText("12.0 ms")).toBeTruthy();
});
