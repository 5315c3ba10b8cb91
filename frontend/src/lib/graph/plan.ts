// The nodes and edges that are drawn for an ONNX graph.
import type { Graph } from "../api.gen";
import type { Plan } from "./layout";

/** A drawn node: one of the graph, or one of its inputs and outputs. */
export interface Drawn {
  label: string;
  kind: "node" | "input" | "output";
  /** Its number in Graph.nodes; -1 for inputs and outputs. */
  index: number;
}

export interface Picture {
  drawn: Drawn[];
  plan: Plan;
}

/** Weights are no nodes: they belong to the nodes that take them. */
export function picture(g: Graph): Picture {
  const drawn: Drawn[] = [];
  const from = new Map<string, number>(); // the drawn node that makes a tensor
  const add = (d: Drawn) => drawn.push(d) - 1;
  for (const name of g.inputs) if (!(name in g.weights)) from.set(name, add({ label: name, kind: "input", index: -1 }));
  const first = drawn.length;
  g.nodes.forEach((n, index) => {
    const at = add({ label: n.op, kind: "node", index });
    for (const o of n.outputs) if (o) from.set(o, at);
  });
  const edges = new Map<string, [number, number]>(); // one line where two nodes share several tensors
  const connect = (tensor: string, to: number) => {
    const at = from.get(tensor);
    if (at !== undefined && at !== to) edges.set(`${at} ${to}`, [at, to]);
  };
  g.nodes.forEach((n, i) => n.inputs.forEach((x) => connect(x, first + i)));
  for (const name of g.outputs) connect(name, add({ label: name, kind: "output", index: -1 }));
  return { drawn, plan: { labels: drawn.map((d) => d.label), edges: [...edges.values()] } };
}
