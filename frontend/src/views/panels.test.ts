import { cleanup, fireEvent, render, screen, within } from "@testing-library/svelte";
import { tick } from "svelte";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Environment, GPU, Instance, InstanceGroup, Machine, Model, Version } from "../lib/api.gen";
import { live, versionKey } from "../lib/live.svelte";
import { SampleRing } from "../lib/ring";
import Convert from "./convert/Convert.svelte";
import Parity from "./convert/Parity.svelte";
import EnvironmentPanel from "./model/EnvironmentPanel.svelte";
import InstanceForm from "./model/InstanceForm.svelte";
import LoadCurve from "./model/LoadCurve.svelte";
import RuntimePanel from "./model/RuntimePanel.svelte";
import VersionsTable from "./model/VersionsTable.svelte";
import ModelRow from "./models/ModelRow.svelte";
import MachinePanel from "./server/MachinePanel.svelte";
import MemoryPanel from "./server/MemoryPanel.svelte";

vi.stubGlobal("fetch", vi.fn(() => new Promise<Response>(() => undefined))); // no server answers
vi.stubGlobal("IntersectionObserver", class { observe(): void {} disconnect(): void {} });
afterEach(() => {
  cleanup();
  live.machine = null;
});

const gib = 1 << 30;
const gpu = (g: Partial<GPU>): GPU => ({ index: 0, physical: 0, uuid: "GPU-a", name: "Card A", capability: "8.6", memoryBytes: 24 * gib, usedBytes: 6 * gib, utilization: 0.4, powerW: null, celsius: 61, modelBytes: 2 * gib, budgetBytes: 0, error: "", ...g });
const machine = (m: Partial<Machine> = {}): Machine => ({
  tMs: 0, cpus: 8, cpuBusy: 0.25, memoryBytes: 16 * gib, memoryFreeBytes: 12 * gib, processBytes: gib, modelBytes: 0, gpus: [], hostPolicies: [],
  budget: { on: false, bytes: 0, idleMs: 0, pinned: 0, resident: 0, evicted: 0 }, ...m,
});
const version = (v: Partial<Version>): Version => ({ version: "1", state: "READY", condition: "", reason: "", sinceMs: 0, lastMinute: { qps: 0, requests: 0, failures: 0, p50Us: null, p99Us: null, spark: [], failureSpark: [], endMs: 0 }, loadMs: 0, evicted: false, golden: 0, fetchedBytes: 0, fetchBytes: 0, ...v });
const model = (name: string, m: Partial<Model> = {}): Model => ({
  name, state: "READY", condition: "", reason: "", versions: [version({})], backend: "onnxruntime", platform: "", maxBatchSize: 0, dynamicBatching: false, decoupled: false, ensemble: false, sequences: false,
  inputs: [], outputs: [], instances: 1, repository: "", folder: "", configPath: "", configExists: true, memoryBytes: 0, gpuBytes: 0, gpuSource: "", memorySource: "process", pinned: false, resident: true, ...m,
});

describe("Convert", () => {
  const report = {
    model: "m", framework: "ONNX, opset 17", rows: 32, made: true, differs: "", bytesBefore: 2048, bytesAfter: 1024, msBefore: 1, msAfter: 2, provider: "CPUExecutionProvider", low: true,
    outputs: [{ output: "y", rows: 32, maxAbs: 0.001, maxRel: 0.02, error: 0.001, same: 31, sameFive: null }],
  };
  it("shows how the answers differ, the size and the time", () => {
    render(Parity, { report });
    expect(screen.getByRole("row", { name: "y 0.00100 0.0200 31 of 32 –" })).toBeTruthy();
    expect(screen.getByText(/^Size: 2(\.0+)? KiB before, 1(\.0+)? KiB after$/)).toBeTruthy();
    expect(screen.getByText("It is slower on this processor.")).toBeTruthy();
    expect(screen.queryByRole("alert")).toBeNull();
  });
  it("warns of a bad parity", () => {
    render(Parity, { report: { ...report, differs: "3 of 32 labels of the output y differ" } });
    expect(screen.getByRole("alert").textContent).toContain("3 of 32 labels");
  });
  it("lists ONNX models, and asks for trust for others", async () => {
    live.models = [model("net"), model("code", { backend: "python" })];
    render(Convert);
    expect(screen.queryByRole("option", { name: "code" })).toBeNull();
    expect(screen.getByRole("button", { name: "Convert" }).hasAttribute("disabled")).toBe(true);
    expect(screen.getByRole("checkbox", { name: /I trust the source/ })).toBeTruthy();
    await fireEvent.input(screen.getByLabelText("or a model of a library, without weights"), { target: { value: "torchvision:resnet18" } });
    expect(screen.getByRole("button", { name: "Convert" }).hasAttribute("disabled")).toBe(false);
    expect(screen.queryByRole("radio")).toBeNull();
    live.models = null;
  });
});

describe("MachinePanel", () => {
  it("says calmly that there is no GPU", () => {
    render(MachinePanel, { machine: machine() });
    expect(screen.getByText(/No NVIDIA GPU/).className).toContain("muted");
    expect(screen.getByRole("meter", { name: /25 % of 8 cores busy/ }).getAttribute("aria-valuenow")).toBe("25");
  });
  it("shows each GPU with what is known of it", () => {
    render(MachinePanel, { machine: machine({ gpus: [gpu({}), gpu({ index: 1, physical: 3, uuid: "GPU-b", name: "Card B", error: "it has fallen off the bus" })] }) });
    expect(screen.getByText("GPU-a")).toBeTruthy();
    expect(screen.getByText(/40 % busy · 61 °C · compute capability 8.6/)).toBeTruthy();
    expect(screen.getByText(/6.00 GiB of 24.0 GiB in use, 18.0 GiB free · models 2.00 GiB/)).toBeTruthy();
    expect(screen.getByText("it has fallen off the bus")).toBeTruthy();
  });
});

describe("LoadCurve", () => {
  const point = (level: number, rate: number, p95Us: number) => ({ level, rate, p95Us, requests: 1, meanUs: 0, p50Us: 0, p99Us: 0, queueUs: 0, computeUs: 0, stable: true });
  it("draws the levels, scaled to the largest", () => {
    const { container } = render(LoadCurve, { points: [point(1, 500, 1000), point(4, 1000, 2000)] });
    expect(screen.getByRole("img", { name: "Throughput up to 1,000/s against the 95th percentile of the latency up to 2.00 ms, 2 levels" })).toBeTruthy();
    expect([...container.querySelectorAll("circle")].map((c) => [c.getAttribute("cx"), c.getAttribute("cy")])).toEqual([["300", "70"], ["592", "8"]]);
  });
  it("needs two levels", () => {
    render(LoadCurve, { points: [point(1, 500, 1000)] });
    expect(screen.queryByRole("img")).toBeNull();
  });
});

describe("MemoryPanel", () => {
  const models = [model("small", { memoryBytes: gib }), model("large", { memoryBytes: 3 * gib, pinned: true, memorySource: "allocator" }), model("gone", { resident: false })];
  it("measures against the budget, the largest first", () => {
    render(MemoryPanel, { machine: machine({ modelBytes: 4 * gib, budget: { on: true, bytes: 8 * gib, idleMs: 60_000, pinned: 1, resident: 2, evicted: 1 } }), models });
    expect(screen.getByRole("meter", { name: "4.00 GiB of a budget of 8.00 GiB" }).getAttribute("aria-valuenow")).toBe("50");
    expect(screen.getAllByRole("link").map((a) => a.textContent)).toEqual(["large", "small"]);
    expect(screen.getByText("held by the allocators of the runtime")).toBeTruthy();
    expect(screen.getByText("2 in memory, 1 pinned, 1 evicted. Models without a request for 1 min are evicted.")).toBeTruthy();
  });
  it("says how to have a budget", () => {
    render(MemoryPanel, { machine: machine({ modelBytes: gib }), models });
    expect(screen.getByText(/--model-memory-budget/)).toBeTruthy();
  });
});

describe("RuntimePanel", () => {
  const instance = (i: Partial<Instance>): Instance => ({ version: "1", name: "m_0", kind: "KIND_CPU", gpu: 0, hostPolicy: "cpu", affinity: "", passive: false, process: null, ...i });
  it("shows why a process does not run, with its last words", () => {
    render(RuntimePanel, { versions: 1, runtime: { environment: null, instances: [instance({ process: { pid: 0, sinceMs: 0, memoryBytes: 0, ends: 6, quarantined: true, error: "it ended with exit status 7", output: [], before: ["the last word"] } })] } });
    expect(screen.getByText(/stopped after repeated failed starts/)).toBeTruthy();
    expect(screen.getByText("it ended with exit status 7")).toBeTruthy();
    expect(screen.getByRole("region", { name: "Last output of the previous process" }).textContent).toBe("the last word");
  });
  it("names places and policies, and no processes where there are none", () => {
    render(RuntimePanel, { versions: 2, runtime: { environment: null, instances: [instance({ kind: "KIND_GPU", gpu: 1, hostPolicy: "gpu_1", affinity: "cpu-cores=0-3" }), instance({ name: "m_1", passive: true })] } });
    expect(screen.getByText("GPU 1 · cpu-cores=0-3")).toBeTruthy();
    expect(screen.getByText("CPU · passive")).toBeTruthy();
    expect(screen.getAllByRole("row").map((r) => r.textContent).join()).toMatch(/v1 m_0.*v1 m_1/);
    expect(screen.queryByText("Restarts")).toBeNull();
  });
});

describe("EnvironmentPanel", () => {
  const env: Environment = { kind: "requirements", state: "building", sinceMs: 1, python: "", source: "/m/requirements.txt", folder: "/e", log: ["Collecting six"], logPath: "/e.log", lock: [], error: "" };
  it("opens the log while it is built", () => {
    render(EnvironmentPanel, { env });
    expect(screen.getByText(/building since/)).toBeTruthy();
    expect(screen.getByText("Collecting six").closest("details")?.open).toBe(true);
  });
  it("lists what is installed", () => {
    render(EnvironmentPanel, { env: { ...env, state: "ready", lock: ["numpy==1", "six==1"] } });
    expect(screen.getByText("Installed packages: 2")).toBeTruthy();
  });
});

describe("InstanceForm", () => {
  const group = (g: Partial<InstanceGroup>): InstanceGroup => ({ name: "", kind: "KIND_GPU", count: 1, gpus: [], hostPolicy: "", passive: false, other: false, ...g });
  it("chooses GPUs, and forgets them for the CPU", async () => {
    live.machine = machine({ gpus: [gpu({}), gpu({ index: 1, uuid: "GPU-b", name: "Card B" })] });
    const onchange = vi.fn();
    const { rerender } = render(InstanceForm, { groups: [group({ gpus: [1] })], unreadable: false, readOnly: false, onchange });
    await fireEvent.click(screen.getByRole("checkbox", { name: /^0 Card A/ }));
    expect(onchange).toHaveBeenLastCalledWith([group({ gpus: [0, 1] })]);
    await rerender({ groups: [group({ gpus: [0, 1] })] });
    await fireEvent.change(screen.getByLabelText("Runs on"), { target: { value: "KIND_CPU" } });
    expect(onchange).toHaveBeenLastCalledWith([group({ kind: "KIND_CPU" })]);
  });
  it("leaves alone what it would lose", () => {
    render(InstanceForm, { groups: [group({ other: true })], unreadable: false, readOnly: false, onchange: vi.fn() });
    expect(within(screen.getByRole("group", { name: "Group 1" })).getByLabelText("Instances").closest("fieldset")?.disabled).toBe(true);
    expect(screen.getByText(/Edit it in the text/)).toBeTruthy();
  });
});

describe("ModelRow", () => {
  it("shows a download as progress, not as a fault", () => {
    const { container } = render(ModelRow, { selected: false, onselect: () => undefined, model: model("far", { state: "LOADING", resident: false, versions: [version({ state: "LOADING", reason: "downloading: 1.0 MB of 4.0 MB", fetchedBytes: 1 << 20, fetchBytes: 4 << 20 })] }) });
    expect(screen.getByRole("meter", { name: "Downloading: 1.00 MiB of 4.00 MiB" }).getAttribute("aria-valuenow")).toBe("25");
    expect(container.querySelector(".reason")).toBeNull();
  });
  it("keeps its figures while it is out of sight", async () => {
    let look: (entries: { isIntersecting: boolean }[]) => void = () => undefined;
    vi.stubGlobal("IntersectionObserver", class {
      constructor(f: typeof look) { look = f; }
      observe(): void {}
      disconnect(): void {}
    });
    const ring = new SampleRing(60);
    ring.push(60_000, { requests: 3, failures: 1, p50Us: 5, p95Us: 5, p99Us: 5, queueUs: 1, computeUs: 1, batchMean: 1, minuteP50Us: 5, minuteP99Us: 5 });
    live.rings.set(versionKey("seen", "1"), ring);
    live.nowMs = 60_000;
    const { container } = render(ModelRow, { selected: false, onselect: () => undefined, model: model("seen", { versions: [version({})] }) });
    const failures = () => container.querySelector(".failures")?.textContent.trim();
    expect(failures(), "before it was looked for").toBe("1 (33 %)");
    look([{ isIntersecting: true }]);
    await tick();
    expect(failures()).toBe("1 (33 %)");
    look([{ isIntersecting: false }]);
    live.nowMs = 130_000;
    await tick();
    expect(failures(), "out of sight").toBe("1 (33 %)");
    look([{ isIntersecting: true }]);
    await tick();
    expect(failures(), "in sight again").toBe("0");
    live.rings.clear();
    live.nowMs = 0;
  });
});

describe("conditions", () => {
  const texts = { unloaded: "unloaded", installing: "installing packages", over_budget: "does not fit the budget" } as const;
  it("take the place of the state", () => {
    for (const [condition, text] of Object.entries(texts) as [keyof typeof texts, string][]) {
      const { container } = render(ModelRow, { selected: false, onselect: () => undefined, model: model("m", { state: "UNAVAILABLE", resident: false, versions: [version({ state: "UNAVAILABLE", reason: "unloaded", condition })] }) });
      expect(container.querySelector(".chip")?.textContent).toContain(text);
      expect(container.textContent).not.toContain("UNAVAILABLE");
      cleanup();
    }
  });
  it("offer no load while packages are installed", () => {
    const { container } = render(VersionsTable, { model: model("m", { state: "UNAVAILABLE", condition: "installing", versions: [] }), others: ["1"] });
    expect(container.textContent).toContain("installing packages");
    expect(container.textContent).not.toContain("never loaded");
    expect(screen.queryByRole("button", { name: /Load/ })).toBeNull();
  });
});
