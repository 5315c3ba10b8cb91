import { expect, test } from "vitest";
import type { Graph, GraphNode } from "../api.gen";
import { layout } from "./layout";
import { picture } from "./plan";

const node = (op: string, inputs: string[], outputs: string[]): GraphNode => ({ name: "", op, domain: "", inputs, outputs, attributes: [] });
const graph: Graph = {
  nodes: [node("Conv", ["x", "w", ""], ["a"]), node("Relu", ["a"], ["b"]), node("Add", ["a", "b"], ["y"])],
  count: 3, inputs: ["x", "w"], outputs: ["y"], weights: { w: "FP32 [1]" },
};

test("nodes are connected by their tensors, and weights are no nodes", () => {
  const { drawn, plan } = picture(graph);
  expect(drawn.map((d) => `${d.kind} ${d.label}`)).toEqual(["input x", "node Conv", "node Relu", "node Add", "output y"]);
  expect(plan.edges).toEqual([[0, 1], [1, 2], [1, 3], [2, 3], [3, 4]]);
});

test("two tensors between two nodes are one line, and a node that feeds itself has none", () => {
  const g = { ...graph, nodes: [node("Split", ["x"], ["a", "b"]), node("Add", ["a", "b"], ["y"]), node("Odd", ["z"], ["z"])] };
  expect(picture(g).plan.edges).toEqual([[0, 1], [1, 2], [2, 4]]);
});

for (const n of [60, 3000]) {
  test(`every line of ${n} nodes goes down, and no boxes overlap`, () => {
    const labels = Array.from({ length: n }, (_, i) => `Node${i}`);
    // A chain with branches, and lines over many rows.
    const edges = labels.slice(1).flatMap((_, i): [number, number][] => [[Math.max(0, i - (i % 3)), i + 1], ...(i % 50 === 49 ? [[i - 48, i + 1] as [number, number]] : [])]);
    const d = layout({ labels, edges });
    for (const l of d.lines) expect(d.boxes[l.to]?.y).toBeGreaterThan(d.boxes[l.from]?.y ?? Infinity);
    const sorted = d.boxes.toSorted((a, b) => a.y - b.y || a.x - b.x);
    sorted.slice(1).forEach((b, i) => {
      const a = sorted[i];
      if (!a) return;
      if (a.y === b.y) expect(b.x - a.x).toBeGreaterThanOrEqual((a.width + b.width) / 2);
      else expect(b.y - a.y).toBeGreaterThanOrEqual(b.height);
    });
    expect(d.lines.every((l) => l.points.length >= 2)).toBe(true);
    expect(d.boxes.every((b) => b.x >= b.width / 2 && b.x + b.width / 2 <= d.width && b.y < d.height)).toBe(true);
  });
}

test("a graph whose lines cross many rows is drawn, in spite of the limits of the library", () => {
  const labels = Array.from({ length: 500 }, (_, i) => `Sum${i}`);
  const edges = labels.flatMap((_, i): [number, number][] => [1, 7, 31, 97, 113, 151, 211, 263].filter((d) => d <= i).map((d) => [i - d, i]));
  const d = layout({ labels, edges });
  expect(d.boxes.length).toBe(500);
  for (const l of d.lines) expect(d.boxes[l.to]?.y).toBeGreaterThan(d.boxes[l.from]?.y ?? Infinity);
});
